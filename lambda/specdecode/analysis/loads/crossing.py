"""Loads at which one arm's time per token passes another's, and the noise that all requests of a load share, since they
were measured in the same minutes. The spread between prompts does not contain it: with 2% of it, two equal arms would
be given a crossover in a quarter of the simulated runs (docs/explanation/how-sure.md).

Between two levels nothing was measured. An engine that compiled its batch sizes (Neuron's do) may jump anywhere between
them. So the interval always ends at measured levels; the place itself is where two straight lines meet, a guess for the
picture. See ADR 163.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from specdecode.analysis.results.over_load import Crossover, Source
from specdecode.measures.distribution import mean, quantile
from specdecode.measures.student import ASSUMED_DF, NOMINAL, LogMean, t_cdf, with_shared

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
    """Requests under way in the baseline: the last requests of a fast arm run beside fewer others."""
    base_s: float
    """The baseline's time per token, in seconds."""
    gain: LogMean
    """Log of the speed-up, with the noise that the level's requests share."""


def sign(gain: LogMean) -> int:
    """1 if the speed-up is shown to be above 1, -1 if below 1, 0 if neither is shown."""
    above = _above(gain)
    return 1 if above >= SHOWN else -1 if above <= 1.0 - SHOWN else 0


def crossings(measured: Sequence[AtLoad | None]) -> list[Crossover]:
    """Every change of sign that is shown and has a place. `measured`: by load; None without figures that can be
    trusted.
    """
    levels = [level for level in measured if level]
    known = [(number, sign(level.gain)) for number, level in enumerate(levels)]
    found = []
    for (first, before), (last, after) in pairwise((number, found) for number, found in known if found):
        sides = (_above(levels[number].gain) for number in (first, last))
        if before != after and math.prod(max(above, 1.0 - above) for above in sides) >= SHOWN:
            found.append(_located(levels[first : last + 1], before))
    return [each for each in found if each]


def _above(gain: LogMean) -> float:
    """Probability that the speed-up is above 1, however far it is off. 0.5 if its error is not known."""
    centre = math.copysign(max(0.0, abs(gain.mean) - gain.off), gain.mean)
    if gain.df <= 0 or centre == 0.0:
        return 0.5
    if gain.variance == 0.0:
        return float(centre > 0.0)
    return t_cdf(centre / math.sqrt(gain.variance), gain.df)


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
    if gain.off:
        gain = gain._replace(mean=gain.mean + rng.uniform(-gain.off, gain.off), off=0.0)
    if gain.df <= 0 or gain.variance == 0.0:
        return gain.mean
    spread = math.sqrt(rng.gammavariate(gain.df / 2.0, 2.0) / gain.df)
    return gain.mean + math.sqrt(gain.variance) * rng.gauss(0.0, 1.0) / spread


def _zero(levels: Sequence[AtLoad], gains: Sequence[float]) -> float | None:
    """Load at which the two times are equal: the middle of the outermost places. None if there is none."""
    slower = [
        level.base_s * math.exp(-gain) - _base_s(levels, level.load) for level, gain in zip(levels, gains, strict=True)
    ]
    places = [
        left.load + (right.load - left.load) * before / (before - after)
        for (left, before), (right, after) in pairwise(zip(levels, slower, strict=True))
        if (before < 0.0) != (after < 0.0)
    ]
    return (places[0] + places[-1]) / 2.0 if places else None


def _base_s(levels: Sequence[AtLoad], load: float) -> float:
    """The baseline's time per token at a load, on the line through the two levels nearest to it."""
    if len({level.base_load for level in levels}) < 2:
        return levels[0].base_s
    left, right = min(pairwise(levels), key=lambda both: max(both[0].base_load - load, load - both[1].base_load))
    if right.base_load == left.base_load:
        return left.base_s
    share = (load - left.base_load) / (right.base_load - left.base_load)
    return left.base_s + share * (right.base_s - left.base_s)


LEVELS_FOR_A_CURVE = 5
"""Least number of levels for a curve of three coefficients: its residuals then have at least two degrees of freedom."""
ASSUMED = 0.02
"""Assumed share for each arm, if neither rounds nor enough levels show the noise."""


class Gains(NamedTuple):
    """The log speed-ups of one level."""

    load: float
    of_rounds: Sequence[float]
    """One value for each round, over the same cases."""


class LevelNoise(NamedTuple):
    """Variance of one round of one level, besides the variance of its prompts."""

    one_round: LogMean
    """Mean 0."""
    source: Source

    def added(self, gain: LogMean, rounds: int) -> LogMean:
        """`gain` over that many rounds with the shared noise added. Unchanged if it has no interval."""
        return with_shared(gain, self.one_round._replace(variance=self.one_round.variance / max(rounds, 1)))


def level_noise(levels: Sequence[Gains]) -> LevelNoise:
    """The noise between rounds if a level has two, else around a smooth curve if there are five levels, else assumed.
    What it has of the noise of single requests counts twice, on purpose: less could be too little if the prompts get
    the same drafts at each load.
    """
    repeated = [each.of_rounds for each in levels if len(each.of_rounds) > 1]
    if repeated:
        squares = math.fsum((value - mean(rounds)) ** 2 for rounds in repeated for value in rounds)
        df = sum(len(rounds) - 1 for rounds in repeated)
        return LevelNoise(LogMean(0.0, squares / df, float(df), 0), "between rounds")
    if len(levels) >= LEVELS_FOR_A_CURVE:
        return LevelNoise(_around_a_curve(levels), "around a smooth curve")
    return LevelNoise(LogMean(0.0, 2.0 * ASSUMED**2, ASSUMED_DF, 0), "assumed")


def _around_a_curve(levels: Sequence[Gains]) -> LogMean:
    """Mean squared residual, as a share, of the ratio of the two arms' times from a parabola over the load: nearly what
    it is if a step takes a + b * running seconds. The fit is least squares of relative errors, by orthogonal columns.
    """
    low, high = min(each.load for each in levels), max(each.load for each in levels)
    speedups = [math.exp(mean(each.of_rounds)) for each in levels]
    # loads on [-1, 1], so that their powers are of one size
    places = [(2.0 * each.load - low - high) / (high - low or 1.0) for each in levels]
    basis: list[list[float]] = []
    for power in range(3):
        # times the speed-up: residuals are relative to the ratio of times, which is 1 / speed-up
        column = _without([gain * at**power for gain, at in zip(speedups, places, strict=True)], basis)
        length = math.hypot(*column)
        if length > 1e-6:  # loads that queue stand at one place, the batch
            basis.append([value / length for value in column])
    left = _without([1.0] * len(levels), basis)  # relative residuals: a perfect fit is 1 at each level
    df = len(levels) - len(basis)
    return LogMean(0.0, math.fsum(value**2 for value in left) / df, float(df), 0)


def _without(values: Sequence[float], basis: Sequence[Sequence[float]]) -> list[float]:
    left = list(values)
    for unit in basis:
        share = math.fsum(value * each for value, each in zip(left, unit, strict=True))
        left = [value - share * each for value, each in zip(left, unit, strict=True)]
    return left
