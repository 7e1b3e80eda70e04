"""Loads at which one arm's time per token passes another's.

Between two levels nothing was measured. An engine that compiled its batch sizes (Neuron's do) may jump anywhere between
them. So the interval always ends at measured levels; the place itself is where two straight lines meet, a guess for the
picture. docs/explanation/how-sure.md has how often the interval is right. See ADR 163.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specdecode.analysis.results.over_load import Crossover
from specdecode.measures.distribution import quantile
from specdecode.measures.student import NOMINAL, LogMean, t_cdf

SHOWN = 0.5 + NOMINAL / 2.0
"""Probability that a crossing needs: that the speed-up is above 1 at one level and below 1 at a later one. Each level
must reach it alone, and both must reach it together."""
DRAWS = 2000
"""Draws of the bootstrap. The seed is fixed, so that the same records give the same interval."""


@dataclass(frozen=True, kw_only=True)
class AtLoad:
    """The two arms at one load."""

    load: float
    """Requests under way in the arm; for an open loop requests a second."""
    base_load: float
    """Requests under way in the baseline. It may be another number: the last requests of a fast arm run beside fewer
    others."""
    base_s: float
    """The baseline's time per token, in seconds."""
    gain: LogMean
    """Log of the speed-up, with the noise that the level's requests share (analysis/loads/level_noise.py)."""


def sign(gain: LogMean) -> int:
    """1 if the speed-up is shown to be above 1, -1 if below 1, 0 if neither is shown."""
    above = _above(gain)
    return 1 if above >= SHOWN else -1 if above <= 1.0 - SHOWN else 0


def crossings(measured: Sequence[AtLoad | None]) -> list[Crossover]:
    """Every change of sign that is shown and has a place, the smallest load first. `measured` is sorted by load. None:
    a load without figures that can be trusted.
    """
    levels = [level for level in measured if level]
    known = [(number, sign(level.gain)) for number, level in enumerate(levels)]
    changes = pairwise((number, found) for number, found in known if found)
    return [
        found
        for (first, before), (last, after) in changes
        if before != after and _both(levels[first].gain, levels[last].gain) >= SHOWN
        if (found := _located(levels[first : last + 1], before))
    ]


def _both(first: LogMean, last: LogMean) -> float:
    """Probability that the two levels lie on the sides of 1 that were found."""
    return math.prod(max(_above(gain), 1.0 - _above(gain)) for gain in (first, last))


def _above(gain: LogMean) -> float:
    """Probability that the speed-up is above 1. 0.5 if its error is not known."""
    if gain.df <= 0:
        return 0.5
    if gain.variance == 0.0:
        return 0.5 if gain.mean == 0.0 else float(gain.mean > 0.0)
    return t_cdf(gain.mean / math.sqrt(gain.variance), gain.df)


def _located(levels: Sequence[AtLoad], before: int) -> Crossover | None:
    """The place of a crossing. None if the times at equal load do not cross: the arms met different loads."""
    rng = random.Random(1)
    drawn = sorted(
        found
        for _ in range(DRAWS)
        if (found := _zero(levels, [_draw(level.gain, rng) for level in levels])) is not None
    )
    load = _zero(levels, [level.gain.mean for level in levels])
    if load is None or not drawn:
        return None
    low, high = min(load, quantile(drawn, 0.025)), max(load, quantile(drawn, 0.975))
    places = [level.load for level in levels]
    return Crossover(
        load=load,
        low=max((place for place in places if place <= low), default=low),
        high=min((place for place in places if place >= high), default=high),
        direction="stops" if before > 0 else "starts",
    )


def _draw(gain: LogMean, rng: random.Random) -> float:
    if gain.df <= 0 or gain.variance == 0.0:
        return gain.mean
    spread = math.sqrt(rng.gammavariate(gain.df / 2.0, 2.0) / gain.df)
    return gain.mean + math.sqrt(gain.variance) * rng.gauss(0.0, 1.0) / spread


def _zero(levels: Sequence[AtLoad], gains: Sequence[float]) -> float | None:
    """Load at which the two times are equal. The middle of the outermost places if there are several; None if there is
    none.
    """
    slower = [
        level.base_s * math.exp(-gain) - _base_s(levels, level.load) for level, gain in zip(levels, gains, strict=True)
    ]
    places = list(_places([level.load for level in levels], slower))
    return (places[0] + places[-1]) / 2.0 if places else None


def _places(loads: Sequence[float], values: Sequence[float]) -> Iterator[float]:
    for (left, before), (right, after) in pairwise(zip(loads, values, strict=True)):
        if (before < 0.0) != (after < 0.0):
            yield left + (right - left) * before / (before - after)


def _base_s(levels: Sequence[AtLoad], load: float) -> float:
    """The baseline's time per token at a load, on the line through the two levels nearest to it."""
    if len({level.base_load for level in levels}) < 2:
        return levels[0].base_s
    left, right = min(pairwise(levels), key=lambda both: max(both[0].base_load - load, load - both[1].base_load))
    if right.base_load == left.base_load:
        return left.base_s
    share = (load - left.base_load) / (right.base_load - left.base_load)
    return left.base_s + share * (right.base_s - left.base_s)
