"""Conversations by turn: a later turn's prompt holds all that was said, so that its first token takes longer, or not
where the server has the beginning in its prefix cache.
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
    """The completed requests of one arm and case that are the same turn of their conversations."""

    turn: Count
    """From 1."""
    ttft: Summary
    """Seconds to the first token."""
    prompt_tokens: float | None = None
    """Mean, as the server counts them; None where it does not."""
    cached_tokens: float | None = None
    """Mean of those that it had in its prefix cache; None where it does not say so of every request."""


def by_turn(records: Sequence[RequestRecord]) -> tuple[TurnFigures, ...]:
    """Empty where no prompt has a second turn."""
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
