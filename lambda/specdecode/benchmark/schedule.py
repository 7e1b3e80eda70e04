"""In which order arms, cases and levels are loaded."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specdecode.experiment.level import Level
from specdecode.experiment.model import Load


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One case at one level, on one arm or on all of them at once."""

    case: str
    level: Level
    arms: tuple[str, ...]


def steps(
    *, arms: Sequence[str], cases: Sequence[str], levels: Sequence[Level], order: Load, seed: int
) -> Iterator[Turn]:
    """The steps of a round. `seed`: of the order of the levels.

    Interleaved: each case at each level on every arm before the next, every other time with the arms in reverse
    (A B, B A), so that a slow drift of the machine hits all arms alike. Sequential: all of an arm before the next arm.
    Simultaneous: all arms at once, as the public sample does it. Each case goes through the levels in an order of its
    own, so that a drift does not look like load.
    """
    shuffled = random.Random(seed)
    blocks = [(case, level) for case in cases for level in shuffled.sample(levels, len(levels))]
    match order:
        case Load.SIMULTANEOUS:
            for case, level in blocks:
                yield Turn(case=case, level=level, arms=tuple(arms))
        case Load.SEQUENTIAL:
            for arm in arms:
                for case, level in blocks:
                    yield Turn(case=case, level=level, arms=(arm,))
        case Load.INTERLEAVED:
            for number, (case, level) in enumerate(blocks):
                for arm in arms if number % 2 == 0 else reversed(arms):
                    yield Turn(case=case, level=level, arms=(arm,))
