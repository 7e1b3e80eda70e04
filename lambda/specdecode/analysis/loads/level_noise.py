"""Noise that all requests of a load share: the minute in which it was measured.

The spread between prompts does not hold it. Two equal arms were given a crossover in 15 of 40 simulated runs with 2% of
it, before it was in the intervals of a curve (docs/metrics.md, ADR 163).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from specdecode.analysis.results.curve_result import Source
from specdecode.measures.distribution import mean
from specdecode.measures.student import ASSUMED_DF, LogMean, with_shared

LEVELS_FOR_A_CURVE = 5
"""From so many levels on the residuals around a curve of three coefficients have two degrees of freedom or more."""
ASSUMED = 0.02
"""Of each arm, where neither rounds nor enough levels show it."""


class Gains(NamedTuple):
    """The log speed-ups of one level."""

    load: float
    of_rounds: Sequence[float]
    """One value a round, over the same cases."""


class LevelNoise(NamedTuple):
    """Variance that one round of one level has beside that of its prompts."""

    one_round: LogMean
    """Mean 0."""
    source: Source

    def added(self, gain: LogMean, rounds: int) -> LogMean:
        """`gain` of so many rounds with the shared noise in it; as it is where it has no interval."""
        return with_shared(gain, self.one_round._replace(variance=self.one_round.variance / max(rounds, 1)))


def level_noise(levels: Sequence[Gains]) -> LevelNoise:
    """Between rounds where a level has two; else around a smooth curve, from five levels on; else assumed.

    What a level's rounds or residuals vary by holds some of the noise of single requests too, which is then counted
    twice: prompts that draw the same drafts at each load leave no other way to know that not too little is added.
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
    """Mean square of what lies off a parabola, as a share: the ratio of the two arms' times over the load.

    A step that takes a + b * running seconds makes it nearly one. Least squares of relative errors, by columns that are
    made orthogonal one after the other.
    """
    low, high = min(each.load for each in levels), max(each.load for each in levels)
    speedups = [math.exp(mean(each.of_rounds)) for each in levels]
    places = [(2.0 * each.load - low - high) / (high - low or 1.0) for each in levels]
    basis: list[list[float]] = []
    for power in range(3):
        column = _without([gain * at**power for gain, at in zip(speedups, places, strict=True)], basis)
        length = math.hypot(*column)
        if length > 1e-6:  # loads that queue stand at one place, the batch
            basis.append([value / length for value in column])
    left = _without([1.0] * len(levels), basis)
    df = len(levels) - len(basis)
    return LogMean(0.0, math.fsum(value**2 for value in left) / df, float(df), 0)


def _without(values: Sequence[float], basis: Sequence[Sequence[float]]) -> list[float]:
    left = list(values)
    for unit in basis:
        share = math.fsum(value * each for value, each in zip(left, unit, strict=True))
        left = [value - share * each for value, each in zip(left, unit, strict=True)]
    return left
