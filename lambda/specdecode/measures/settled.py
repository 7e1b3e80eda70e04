"""When a case has enough requests: its interval is short enough, or its verdict cannot change any more (ADR 62)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from specdecode.measures.student import LogMean, over_prompts
from specdecode.measures.units import Asked, differences

RELEVANT = 1.05
"""A speed-up nearer to 1 than this, either way, is not relevant: the margin of the equivalence test."""
GROWTH = 1.25
"""Requests at a look / requests at the look before. Each look costs the time in which a load starts and ends."""


def looks(fewest: int, most: int, step: int) -> Iterator[int]:
    """Numbers of requests after which to look: `fewest` first, `most` last, at least `step` apart."""
    at = min(fewest, most)
    while at < most:
        yield at
        at = max(at + step, math.ceil(at * GROWTH))
    yield most


def difference(base: Mapping[Asked, float], other: Mapping[Asked, float]) -> LogMean | None:
    """Log speed-up of `other` before the last look, over the prompts that both arms have. The arguments map prompt ->
    ln(tokens/s).
    """
    found = differences(base, other)
    return over_prompts(found)._replace(early=True) if found else None


def settled(found: LogMean | None, precision: float) -> str | None:
    """Why no more requests are needed, or None.

    The whole interval says pays, costs or no relevant difference; or it reaches no further than `precision` (0.05: 5%)
    to either side.
    """
    interval = found.interval() if found else None
    if interval is None:
        return None
    low, high = interval
    if low > 1.0 or high < 1.0:
        return f"its whole interval is {'above' if low > 1.0 else 'below'} 1"
    if low > 1.0 / RELEVANT and high < RELEVANT:
        return f"its whole interval is within {RELEVANT - 1.0:.0%} of 1"
    narrow = math.sqrt(high / low) <= 1.0 + precision
    return f"its interval reaches no further than {precision:.1%} to either side" if narrow else None
