"""Order in which arms, cases and levels are loaded."""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from specdecode.experiment.workload import Level, Load


@dataclass(frozen=True, kw_only=True)
class LoadBlock:
    """One case at one level, on one arm or on several."""

    case: str
    level: Level
    turns: tuple[tuple[str, ...], ...]
    """Turns, one after the other. The arms of a turn are loaded at once."""
    led: bool = False
    """The first arm is loaded first at every look: its answers are the history of the other arms' conversations."""


def blocks(
    *,
    arms: Sequence[str],
    cases: Sequence[str],
    levels: Sequence[Level],
    order: Load,
    seed: int,
    led: Collection[str] = (),
) -> Iterator[LoadBlock]:
    """Blocks of a round.

    `seed` sets the order of the levels. `led`: cases in which the first arm must be loaded first. Interleaved: each
    case and level on every arm before the next, every other time with the arms in reverse (A B, B A), so that a slow
    drift of the machine affects all arms alike. Sequential: everything of an arm before the next arm. Simultaneous: all
    arms at once, as the public sample does. Each case has its own order of levels, so that a drift does not look like
    an effect of the load.
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
