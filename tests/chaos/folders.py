"""What happens to the finished folders of a draw: who is damaged is made anew once, and nobody else is touched."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from specdecode.planning import Plan


@dataclass
class Folders:
    """How often the bytes of each finished folder changed, it was set aside, and it was made."""

    changed: Counter[str] = field(default_factory=Counter)
    aside: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)

    def broken(self, plans: Iterable[Plan]) -> Iterator[str]:
        arms = [{each.prefix for each in p.served.models_of(arm)} for p in plans for arm in p.served.variants]
        for folder in sorted(self.made | self.aside):
            # Of an arm's models it is not known which is damaged: all are set aside (steps/damage.py).
            beside = {folder}.union(*(arm for arm in arms if folder in arm))
            changes = sum(self.changed[each] for each in beside)
            for what, count in (("set aside", self.aside[folder]), ("made anew", self.made[folder] - 1)):
                if count > changes:
                    yield f"{folder} was {what} {count} times; it, and the models beside it, changed {changes} times"
