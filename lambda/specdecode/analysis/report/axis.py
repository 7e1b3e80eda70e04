"""The logarithmic axis on which every speed-up interval of a report lies."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from specdecode.analysis.results.comparison import Estimate

TICKS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
APART = 12.0
"""Least distance of two labelled ticks, in per cent of the axis' width."""


class Bar(NamedTuple):
    """An interval on the axis, in per cent of its width."""

    at: float
    low: float | None
    high: float | None


class Axis:
    """The axis covers every interval, and at least 0.75 to 1.5."""

    def __init__(self, estimates: Iterable[Estimate]) -> None:
        ends = [0.75, 1.5]
        for found in estimates:
            ends += [value for value in (found.ratio, found.low, found.high) if value is not None]
        self.low = max(0.05, min(ends) * 0.95)
        self.high = min(50.0, max(ends) * 1.06)

    def position(self, value: float) -> float:
        """Per cent of the axis' width."""
        if value <= self.low:
            return 0.0
        return 100.0 * min(1.0, max(0.0, math.log(value / self.low) / math.log(self.high / self.low)))

    def bar(self, found: Estimate) -> Bar:
        """Where an interval lies."""
        return Bar(
            self.position(found.ratio),
            self.position(found.low) if found.low is not None else None,
            self.position(found.high) if found.high is not None else None,
        )

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Positions and labels: always 1, then powers of two, then others if there is room."""
        inside = [tick for tick in TICKS if self.low <= tick <= self.high]
        shown: list[float] = [1.0]
        for tick in sorted(inside, key=lambda tick: math.log2(tick) % 1 > 0):
            if all(abs(self.position(tick) - self.position(other)) >= APART for other in shown):
                shown.append(tick)
        return [(self.position(tick), f"{tick:g}×") for tick in sorted(shown)]
