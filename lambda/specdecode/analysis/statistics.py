"""Small statistics in plain Python (the bundle carries no NumPy): Student's t, intervals of ratios.

Ratios of times are compared on the log scale, where a speed-up and its inverse are mirror images and timing
noise is closer to symmetric; the interval is Student's t, which holds at small n (coverage is measured in
docs/metrics.md). Sources: NIST/SEMATECH e-Handbook 1.3.6.7.2 (t), Numerical Recipes 6.4 (incomplete beta),
Welch 1947 / Satterthwaite 1946 (df).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from specdecode.measures.distribution import mean, stddev

CONFIDENCE = 0.95
"""What an interval is said to hold."""
NOMINAL = 0.96
"""Level of the Student's t behind it. Timing noise is not normal; if it were, 95% would say "pays" or "costs" of two
equal arms in 5% of the runs. With this level it is 4%, and at most 5% of what was simulated (docs/metrics.md)."""


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (modified Lentz)."""
    tiny = 1e-300
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 400):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            delta = d * c
            result *= delta
        if abs(delta - 1.0) < 1e-14:
            break
    return result


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularized incomplete beta I_x(a, b)."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x),
    )
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, 1.0 - x) / b


def t_cdf(t: float, df: float) -> float:
    """P(T <= t) of Student's t with df degrees of freedom (df may be fractional)."""
    tail = 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + t * t))
    return 1.0 - tail if t > 0 else tail


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """Quantile p (0.5 <= p < 1) of Student's t by bisection, exact to ~1e-10."""
    if not 0.5 <= p < 1.0:
        raise ValueError(f"p must be in [0.5, 1): {p}")
    low, high = 0.0, 2.0
    while t_cdf(high, df) < p:
        high *= 2.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if t_cdf(middle, df) < p:
            low = middle
        else:
            high = middle
        if high - low < 1e-12 * max(1.0, high):
            break
    return (low + high) / 2.0


class LogMean(NamedTuple):
    """A mean on the log scale with its squared standard error and degrees of freedom (0: no interval)."""

    mean: float
    variance: float
    df: float
    n: int

    def interval(self, confidence: float = NOMINAL) -> tuple[float, float] | None:
        """The ratio's confidence interval, or None where n is too small for one."""
        if self.df <= 0:
            return None
        reach = t_quantile(0.5 + confidence / 2.0, self.df) * math.sqrt(self.variance)
        return _exp(self.mean - reach), _exp(self.mean + reach)

    @property
    def ratio(self) -> float:
        """The point estimate: a geometric mean of ratios."""
        return _exp(self.mean)


def _exp(x: float) -> float:
    """E to the x, held between 1e-130 and 1e130: what is beyond is no ratio of anything, and must not overflow."""
    return math.exp(max(-300.0, min(300.0, x)))


def log_mean(values: Sequence[float]) -> LogMean:
    """Mean of log-ratios with Student's t, n-1 degrees of freedom."""
    n = len(values)
    return LogMean(mean(values), stddev(values) ** 2 / n, float(n - 1), n)


def paired_log_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> LogMean:
    """ln(numerator/denominator) of pairs that met the same prompt: the paired t on the log scale."""
    return log_mean([math.log(a / b) for a, b in zip(numerator, denominator, strict=True)])


def welch_log_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> LogMean:
    """Ln of the ratio of geometric means of two unpaired samples (Welch's t on the log scale)."""
    a, b = log_mean([math.log(value) for value in numerator]), log_mean([math.log(value) for value in denominator])
    return combine((a, b), (1.0, -1.0))


def combine(parts: Sequence[LogMean], weights: Sequence[float]) -> LogMean:
    """The weighted sum of independent log means, with Satterthwaite's degrees of freedom."""
    variance = math.fsum(w * w * part.variance for part, w in zip(parts, weights, strict=True))
    centre = math.fsum(w * part.mean for part, w in zip(parts, weights, strict=True))
    n = sum(part.n for part in parts)
    if any(part.df <= 0 for part in parts):
        return LogMean(centre, variance, 0.0, n)
    if variance == 0.0:
        return LogMean(centre, 0.0, math.fsum(part.df for part in parts), n)
    spread = math.fsum((w * w * part.variance) ** 2 / part.df for part, w in zip(parts, weights, strict=True))
    return LogMean(centre, variance, variance * variance / spread, n)
