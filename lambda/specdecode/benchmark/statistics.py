"""Distribution of a metric: the percentiles that every table and file of the benchmark uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

PERCENTILES = (25, 50, 75, 90, 95, 99)


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Percentiles are linear between order statistics (Hyndman & Fan type 7, as pandas); stddev is the sample's."""

    count: int
    mean: float
    stddev: float
    min: float
    max: float
    p25: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Distribution | None:
        """None of no values."""
        if not values:
            return None
        ordered = sorted(values)
        mean = math.fsum(ordered) / len(ordered)
        spread = math.fsum((value - mean) ** 2 for value in ordered)
        p25, p50, p75, p90, p95, p99 = (quantile(ordered, percent / 100) for percent in PERCENTILES)
        return cls(
            count=len(ordered),
            mean=mean,
            stddev=math.sqrt(spread / (len(ordered) - 1)) if len(ordered) > 1 else 0.0,
            min=ordered[0],
            max=ordered[-1],
            p25=p25,
            p50=p50,
            p75=p75,
            p90=p90,
            p95=p95,
            p99=p99,
        )

    def as_dict(self) -> dict[str, float | int]:
        return asdict(self)


def quantile(ordered: Sequence[float], q: float) -> float:
    """Quantile of sorted values, rounded as NumPy rounds it (it interpolates from the nearer end)."""
    position = (len(ordered) - 1) * q
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    below, above, share = ordered[low], ordered[high], position - low
    if share >= 0.5:
        return above - (above - below) * (1 - share)
    return below + (above - below) * share
