"""Conversations by turn. The prompt of a later turn holds all earlier turns, so its first token takes longer, unless
the server has them in its prefix cache.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from specdecode.experiment.base import Frozen
from specdecode.measures.distribution import Count, Summary, mean, summarize
from specdecode.measures.metric import NoValue
from specdecode.measures.metrics.ttft import TimeToFirstToken
from specdecode.records import RequestRecord


class TurnFigures(Frozen):
    """Completed requests of one arm and case that are the same turn of their conversations."""

    turn: Count
    """From 1."""
    ttft: Summary
    """Seconds to the first token."""
    prompt_tokens: float | None = None
    """Mean prompt tokens by the server's count. None if it gives none."""
    cached_tokens: float | None = None
    """Mean prompt tokens from the prefix cache. None unless the server gives them for every request."""


def by_turn(records: Sequence[RequestRecord]) -> tuple[TurnFigures, ...]:
    """Figures of each turn. Empty if no prompt has a second turn."""
    if not any(record.turn for record in records):
        return ()
    groups: dict[int, list[tuple[RequestRecord, float]]] = defaultdict(list)
    for record in records:
        if record.error is None:
            try:
                groups[record.turn].append((record, TimeToFirstToken.value(record)))
            except NoValue:
                continue
    return tuple(
        TurnFigures(
            turn=turn + 1,
            ttft=summarize([seconds for _, seconds in found]),
            prompt_tokens=_mean([record.prompt_tokens for record, _ in found]),
            cached_tokens=_mean([record.cached_tokens for record, _ in found]),
        )
        for turn, found in sorted(groups.items())
    )


def _mean(counts: Sequence[int | None]) -> float | None:
    known = [float(count) for count in counts if count is not None]
    return mean(known) if len(known) == len(counts) else None
