"""Distribution of a metric: the moments and percentiles that tables and files show."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Annotated, NamedTuple

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


class Often(NamedTuple):
    """A value that occurs so often."""

    value: float
    times: int = 1


def summarize(values: Sequence[float]) -> Summary:
    """Moments and percentiles of one value or more."""
    return summarize_often([Often(value) for value in values])


def summarize_often(values: Iterable[Often]) -> Summary:
    """The same of values that occur several times. It costs no more than the values' number."""
    ordered = sorted(values)
    ends = list(accumulate(each.times for each in ordered))
    n = ends[-1]
    centre = math.fsum(value * times for value, times in ordered) / n
    squares = math.fsum((value - centre) ** 2 * times for value, times in ordered)

    def at(position: int) -> float:
        return ordered[bisect_right(ends, position)].value

    return Summary(
        n=n,
        mean=centre,
        stddev=math.sqrt(squares / (n - 1)) if n > 1 else 0.0,
        min=at(0),
        max=at(n - 1),
        **{f"p{percent}": _between(at, n, percent / 100) for percent in PERCENTILES},
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
    return _between(ordered.__getitem__, len(ordered), q)


def _between(at: Callable[[int], float], n: int, q: float) -> float:
    position = (n - 1) * q
    low = math.floor(position)
    high = min(low + 1, n - 1)
    below, above, share = at(low), at(high), position - low
    if share >= 0.5:
        return above - (above - below) * (1 - share)
    return below + (above - below) * share
