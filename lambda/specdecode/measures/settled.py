"""When enough was measured: an interval short enough, or one that cannot say anything else any more.

Why it is so: ADR 62.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from specdecode.measures.student import LogMean, over_prompts
from specdecode.measures.units import Asked, differences

RELEVANT = 1.05
"""A speed-up nearer to 1 than this, either way, makes no difference to anybody: the margin of the equivalence test."""
GROWTH = 1.25
"""Requests at a look over those at the look before: looks cost the time in which a load grows and ends."""


def looks(fewest: int, most: int, step: int) -> Iterator[int]:
    """Numbers of requests after which to look: `fewest` first, `most` last, `step` apart at least."""
    at = min(fewest, most)
    while at < most:
        yield at
        at = max(at + step, math.ceil(at * GROWTH))
    yield most


def difference(base: Mapping[Asked, float], other: Mapping[Asked, float]) -> LogMean | None:
    """Log speed-up of `other`, before the last look, over the prompts that both have: prompt -> ln(tokens/s)."""
    found = differences(base, other)
    return over_prompts(found)._replace(early=True) if found else None


def settled(found: LogMean | None, precision: float) -> str | None:
    """Why more requests are not needed: the whole interval says pays, costs or no relevant difference, or it reaches no
    further than `precision` (0.05: 5%) to either side. None: they are.
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
