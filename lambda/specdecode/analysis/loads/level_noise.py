"""Noise that all requests of a load share, since they were measured in the same minutes.

The spread between prompts does not contain it. With 2% of this noise, two equal arms would be given a crossover in a
quarter of the simulated runs if the intervals of a curve did not include it (docs/explanation/how-sure.md, ADR 163).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from specdecode.analysis.results.over_load import Source
from specdecode.measures.distribution import mean
from specdecode.measures.student import ASSUMED_DF, LogMean, with_shared

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
    """The noise between rounds if a level has two rounds, else around a smooth curve if there are five levels, else
    assumed.

    The spread of rounds or residuals contains some noise of single requests too, so that noise counts twice. This
    is on purpose: if the prompts get the same drafts at each load, a smaller amount could be too little.
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
    """Mean squared residual from a parabola, as a share. The parabola is fitted to the ratio of the two arms' times
    over the load.

    If a step takes a + b * running seconds, the ratio is nearly a parabola. The fit is least squares of relative
    errors, by columns that are made orthogonal one after the other.
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
