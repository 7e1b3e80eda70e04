"""In which order arms and cases are loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specdecode.experiment.model import Load


@dataclass(frozen=True, kw_only=True)
class Step:
    """One case, on one arm or on all of them at once."""

    case: str
    arms: tuple[str, ...]


def steps(*, arms: Sequence[str], cases: Sequence[str], order: Load) -> Iterator[Step]:
    """The steps of a round.

    Interleaved: each case on every arm before the next case, every other case with the arms in reverse (A B, B A), so
    that a slow drift of the machine hits all arms alike. Sequential: all cases of an arm before the next arm.
    Simultaneous: all arms at once, as the public sample does it.
    """
    match order:
        case Load.SIMULTANEOUS:
            for case in cases:
                yield Step(case=case, arms=tuple(arms))
        case Load.SEQUENTIAL:
            for arm in arms:
                for case in cases:
                    yield Step(case=case, arms=(arm,))
        case Load.INTERLEAVED:
            for number, case in enumerate(cases):
                for arm in arms if number % 2 == 0 else reversed(arms):
                    yield Step(case=case, arms=(arm,))
