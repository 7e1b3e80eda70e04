"""Distribution of a metric: the moments and percentiles that tables and files show."""

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from specdecode.experiment.base import Frozen

PERCENTILES = (25, 50, 75, 90, 95, 99)
Count = Annotated[int, Field(ge=0, le=2**53)]


class Summary(Frozen):
    """One metric over the completed requests of one arm and case. None: not known (imported results). Percentiles are
    linear between order statistics (Hyndman & Fan 1996 type 7, as pandas and LLMPerf). The standard deviation is the
    sample's.
    """

    n: Count
    mean: float | None = None
    stddev: float | None = None
    min: float | None = None
    p25: float | None = None
    p50: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


def summarize(values: Sequence[float]) -> Summary:
    """Moments and percentiles of one value or more."""
    ordered = sorted(values)
    return Summary(
        n=len(ordered),
        mean=mean(ordered),
        stddev=stddev(ordered),
        min=ordered[0],
        max=ordered[-1],
        **{f"p{percent}": quantile(ordered, percent / 100) for percent in PERCENTILES},
    )


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean. Raises ValueError if there is no value."""
    if not values:
        raise ValueError("mean of no values")
    return math.fsum(values) / len(values)


def stddev(values: Sequence[float]) -> float:
    """Sample standard deviation (n-1). 0 for one value."""
    if len(values) < 2:
        return 0.0
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def quantile(ordered: Sequence[float], q: float) -> float:
    """Quantile of sorted values, rounded as NumPy rounds it (it interpolates from the nearer end)."""
    position = (len(ordered) - 1) * q
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    below, above, share = ordered[low], ordered[high], position - low
    if share >= 0.5:
        return above - (above - below) * (1 - share)
    return below + (above - below) * share
