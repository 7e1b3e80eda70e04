"""In which order arms, cases and levels are loaded."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from specdecode.experiment.level import Level
from specdecode.experiment.model import Load


@dataclass(frozen=True, kw_only=True)
class LoadBlock:
    """One case at one level, on one arm or on several."""

    case: str
    level: Level
    turns: tuple[tuple[str, ...], ...]
    """Which arms are loaded, one turn after the other; the arms of a turn at once."""
    led: bool = False
    """The first arm must be the first, each time."""


def blocks(
    *,
    arms: Sequence[str],
    cases: Sequence[str],
    levels: Sequence[Level],
    order: Load,
    seed: int,
    led: Collection[str] = (),
) -> Iterator[LoadBlock]:
    """The blocks of a round. `seed`: of the order of the levels. `led`: cases in which the first arm must be the first.

    Interleaved: each case at each level on every arm before the next, every other time with the arms in reverse
    (A B, B A), so that a slow drift of the machine hits all arms alike. Sequential: all of an arm before the next arm.
    Simultaneous: all arms at once, as the public sample does it. Each case goes through the levels in an order of its
    own, so that a drift does not look like load.
    """
    shuffled = random.Random(seed)
    loads = [(case, level) for case in cases for level in shuffled.sample(levels, len(levels))]
    match order:
        case Load.SIMULTANEOUS:
            for case, level in loads:
                yield LoadBlock(case=case, level=level, turns=(tuple(arms),))
        case Load.SEQUENTIAL:
            for arm in arms:
                for case, level in loads:
                    yield LoadBlock(case=case, level=level, turns=((arm,),))
        case Load.INTERLEAVED:
            for number, (case, level) in enumerate(loads):
                ordered = arms if number % 2 == 0 or case in led else tuple(reversed(arms))
                yield LoadBlock(case=case, level=level, turns=tuple((arm,) for arm in ordered), led=case in led)
