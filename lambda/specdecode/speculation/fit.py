"""From measured arms to (a, c, v), with uncertainty, and from there to every other k.

One measured k gives a (from tokens per step) and the sum k c + v (from the step's duration), not its two parts. The
point estimate then splits it as is usual (PRIOR_C, PRIOR_V), and the range carries both extremes: all of it drafting
(v = 0), or as much of it verification as the draft's size allows (c = the ratio of the weights, which is a floor: on
Trainium2 the true c is 5 to 20 times that).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from specdecode.speculation.theory import MAX_K, acceptance_from_tokens, best_k, expected_tokens, speedup

PRIOR_C, SPREAD_C = 0.06, 0.05
PRIOR_V, SPREAD_V = 0.2, 0.15
"""What c and v usually are, and how far off that may be; it only decides what measurements leave open."""
DRAWS = 200
SEED = 20211117


class StepPoint(NamedTuple):
    """One measured k: tokens per step and duration of a step relative to the base arm's, with relative errors."""

    k: int
    tokens_per_step: float
    step_ratio: float
    tokens_error: float = 0.0
    """Relative standard error of tokens_per_step."""
    step_error: float = 0.0
    """Relative standard error of step_ratio."""


class Prediction(NamedTuple):
    """S at one k with its 95% range."""

    k: int
    speedup: float
    low: float
    high: float
    tokens_per_step: float


class Fit(NamedTuple):
    """The calibrated model of one draft."""

    a: float
    c: float
    v: float
    separated: bool
    """c and v were told apart (two or more k)."""
    draws: tuple[tuple[float, float, float], ...]
    """(a, c, v) under resampled measurement errors: the uncertainty."""

    def predict(self, k: int) -> Prediction:
        """Speed-up at k."""
        values = sorted(speedup(a, k, c, v) for a, c, v in self.draws)
        centre = speedup(self.a, k, self.c, self.v)
        low = values[int(0.025 * (len(values) - 1))]
        high = values[math.ceil(0.975 * (len(values) - 1))]
        return Prediction(k, centre, min(low, centre), max(high, centre), expected_tokens(self.a, k))

    def best(self, *, max_k: int = MAX_K) -> tuple[int, float]:
        """Best k (0: none) and its speed-up."""
        return best_k(self.a, self.c, self.v, max_k=max_k)


def fit(points: Sequence[StepPoint], *, weight_ratio: float = 0.0) -> Fit:
    """Fit (a, c, v) to one or more measured k >= 1. `weight_ratio`: draft size / target size, the floor of c."""
    if not points or any(point.k < 1 for point in points):
        raise ValueError("a fit needs at least one measured k >= 1")
    separated = len({point.k for point in points}) > 1
    a, (c, v) = _acceptance(points), _costs(points) if separated else _usual_split(points, weight_ratio)
    rng = random.Random(SEED)
    draws: list[tuple[float, float, float]] = []
    for number in range(DRAWS):
        noisy = [
            point._replace(
                tokens_per_step=max(1.0, point.tokens_per_step * (1.0 + rng.gauss(0.0, point.tokens_error))),
                step_ratio=max(1.0, point.step_ratio * (1.0 + rng.gauss(0.0, point.step_error))),
            )
            for point in points
        ]
        drawn_a = _acceptance(noisy)
        if separated:
            draws.append((drawn_a, *_costs(noisy)))
            continue
        extra, k = noisy[0].step_ratio - 1.0, noisy[0].k
        floor = min(weight_ratio, extra / k)
        drafted = floor + (extra / k - floor) * (number / (DRAWS - 1))
        draws.append((drawn_a, drafted, max(0.0, extra - k * drafted)))
    return Fit(a, c, v, separated, tuple(draws))


def _usual_split(points: Sequence[StepPoint], weight_ratio: float) -> tuple[float, float]:
    """Split the k c + v of one measured k as near to the priors as their spreads allow; both non-negative."""
    k = points[0].k
    extra = math.fsum(point.step_ratio for point in points) / len(points) - 1.0
    c = (PRIOR_C / SPREAD_C**2 + k * (extra - PRIOR_V) / SPREAD_V**2) / (1.0 / SPREAD_C**2 + k * k / SPREAD_V**2)
    c = min(max(c, min(weight_ratio, extra / k)), extra / k)
    return max(0.0, c), max(0.0, extra - k * c)


def _acceptance(points: Sequence[StepPoint]) -> float:
    """The a that fits E at all measured k: least squares of relative errors, golden-section search."""
    if len(points) == 1:
        return acceptance_from_tokens(points[0].tokens_per_step, points[0].k)

    def loss(a: float) -> float:
        return math.fsum((expected_tokens(a, point.k) / point.tokens_per_step - 1.0) ** 2 for point in points)

    grid = [number / 20.0 for number in range(21)]
    centre = min(grid, key=loss)
    low, high = max(0.0, centre - 0.05), min(1.0, centre + 0.05)
    for _ in range(30):
        left, right = low + 0.382 * (high - low), low + 0.618 * (high - low)
        if loss(left) < loss(right):
            high = right
        else:
            low = left
    return (low + high) / 2.0


def _costs(points: Sequence[StepPoint]) -> tuple[float, float]:
    """Non-negative least squares of step_ratio - 1 = k c + v; one k gives v = 0."""
    ks, extra = [float(point.k) for point in points], [point.step_ratio - 1.0 for point in points]
    n = len(points)
    mean_k, mean_y = math.fsum(ks) / n, math.fsum(extra) / n
    spread = math.fsum((k - mean_k) ** 2 for k in ks)
    if spread > 0.0:
        c = math.fsum((k - mean_k) * (y - mean_y) for k, y in zip(ks, extra, strict=True)) / spread
        v = mean_y - c * mean_k
        if c >= 0.0 and v >= 0.0:
            return c, v
        if c < 0.0:
            return 0.0, max(0.0, mean_y)
    through_zero = math.fsum(k * y for k, y in zip(ks, extra, strict=True)) / math.fsum(k * k for k in ks)
    return max(0.0, through_zero), 0.0
