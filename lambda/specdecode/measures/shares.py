"""Whether two shares differ: Fisher's exact test."""

from __future__ import annotations

import math

SIGNIFICANT = 0.025
"""On each side."""


def shares_differ(good: int, of: int, other_good: int, other_of: int) -> bool:
    """Whether chance alone gives so uneven a split in less than 2.5% of the cases, on each side."""
    if good * other_of < other_good * of:
        good, of, other_good, other_of = other_good, other_of, good, of
    whole = good + other_good
    ways = _log_ways(of + other_of, whole)
    counts = range(good, min(of, whole) + 1)
    return math.fsum(math.exp(_log_ways(of, n) + _log_ways(other_of, whole - n) - ways) for n in counts) < SIGNIFICANT


def _log_ways(of: int, chosen: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(chosen + 1) - math.lgamma(of - chosen + 1)
