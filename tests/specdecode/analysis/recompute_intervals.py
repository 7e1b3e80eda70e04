"""Intervals of recompute.py, by other algorithms than the product has: only the standard library."""

from __future__ import annotations

import math
import statistics
from functools import cache


@cache
def t_quantile(df: float, level: float) -> float:
    """Half-width in standard errors of an interval of Student's t: Simpson integration of the density, bisection."""
    norm = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)

    def central(t: float) -> float:
        n = 4000
        h = t / n
        inner = sum((4 if i % 2 else 2) * (1 + (i * h) ** 2 / df) ** (-(df + 1) / 2) for i in range(1, n))
        return norm * h / 3 * (1 + inner + (1 + t * t / df) ** (-(df + 1) / 2))

    low, high = 1.0, 100.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if central(middle) < level / 2 else (low, middle)
    return low


def bounds(mean: float, variance: float, df: float, level: float = 0.96) -> tuple[float, float, float]:
    half = t_quantile(df, level) * math.sqrt(variance)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def hall(values: list[float], t: float, share: float = 1.0) -> tuple[float, float]:
    """How many standard errors the interval reaches below and above, from 12 prompts on: Hall (1992), by bisection."""
    n, mean, deviation = len(values), statistics.fmean(values), statistics.stdev(values)
    skew = n / ((n - 1) * (n - 2)) * sum(((v - mean) / deviation) ** 3 for v in values) if n > 2 and deviation else 0.0
    skew *= share

    def g(x: float) -> float:
        return x + skew / math.sqrt(n) * (x * x / 3 + 1 / 6) + skew**2 * x**3 / 27 / n

    def solve(y: float) -> float:
        low, high = -1e6, 1e6
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if g(middle) < y else (low, middle)
        return low

    return (max(t, solve(t)), max(t, -solve(-t))) if n >= 12 else (t, t)


def over_prompts(values: list[float], level: float = 0.96, *, elsewhere: bool = False) -> tuple[float, float, float]:
    """`elsewhere`: with what another node is assumed to add."""
    n, mean = len(values), statistics.fmean(values)
    own = statistics.variance(values) / n
    variance, df = another_node(own, n - 1) if elsewhere else (own, n - 1)
    below, above = hall(values, t_quantile(df, level), (own / variance) ** 1.5)
    error = math.sqrt(variance)
    return math.exp(mean), math.exp(mean - below * error), math.exp(mean + above * error)


def another_node(own: float, df: float) -> tuple[float, float]:
    """The variance of a mean with half of 5% more, as ten degrees of freedom; and Satterthwaite's."""
    more = 0.05**2 / 4
    return own + more, (own + more) ** 2 / (own**2 / df + more**2 / 10)
