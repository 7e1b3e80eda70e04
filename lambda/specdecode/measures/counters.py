"""The engines' own counters of an arm and case: whether they are plausible, and their sum."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from specdecode.records import MOST_POSITIONS, Drafted, EngineCounters, RequestRecord


def other_k(counts: Sequence[Drafted | EngineCounters], k: int | None) -> str | None:
    """Why the engine's k cannot be the given k: a step drafts at most k tokens. None if it can."""
    for item in counts:
        trusted = isinstance(item, Drafted) or item.trusted
        if k is not None and trusted and item.draft_tokens > k * item.drafts:
            said = f"{item.draft_tokens} tokens drafted in {item.drafts} steps"
            return f"the engine says {said}, more than k={k} a step: wrong k?"
    return None


def total(parts: Sequence[Drafted | EngineCounters]) -> Drafted:
    """The sum."""
    width = max(len(item.accepted_per_position) for item in parts)
    return Drafted(
        drafts=sum(item.drafts for item in parts),
        draft_tokens=sum(item.draft_tokens for item in parts),
        accepted_tokens=sum(item.accepted_tokens for item in parts),
        accepted_per_position=tuple(
            sum(item.accepted_per_position[at] for item in parts if at < len(item.accepted_per_position))
            for at in range(width)
        ),
    )


def counted(
    counters: Sequence[EngineCounters], records: Sequence[RequestRecord], *, every_step: bool = True
) -> tuple[Drafted | None, list[str]]:
    """Sum over nodes and rounds; and the reasons if the counters are not used.

    The counters of every round are needed: else the rate would be that of a part. `counters` and `records` are those of
    one arm and case.
    """
    own = [item for item in counters if item.trusted]
    if not own or {(item.unit, item.round) for item in own} != {(record.unit, record.round) for record in records}:
        return None, []
    problems = []
    for item in own:
        same = [record for record in records if (record.unit, record.round) == (item.unit, item.round)]
        if why := contradiction(item, same, every_step=every_step):
            problems.append(f"the engine's counters contradict the answers: {why}")
    if problems:
        return None, problems
    found = total(own)
    return (found if found.draft_tokens else None), []


def contradiction(
    counters: Drafted | EngineCounters, records: Sequence[RequestRecord], *, every_step: bool = True
) -> str | None:
    """Why the counters cannot belong to these requests, or None.

    Every step gives the accepted tokens and one more. So tokens = steps + accepted, except for the first token of an
    answer (the prompt's step) and up to k tokens that are cut off at its end. If not `every_step` drafts (k is 0 at
    some loads), the counters leave out steps without drafts, so their sum may be smaller.
    """
    if counters.accepted_tokens > counters.draft_tokens:
        return f"{counters.accepted_tokens} tokens accepted of {counters.draft_tokens} drafted"
    positions = counters.accepted_per_position
    if len(positions) > MOST_POSITIONS:
        return f"accepted tokens at {len(positions)} positions"
    if positions and sum(positions) != counters.accepted_tokens:
        return "accepted tokens per position do not add up to accepted tokens"
    if any(after > before for before, after in pairwise((counters.drafts, *positions))):
        listed = ", ".join(map(str, positions))
        return (
            f"{listed} tokens accepted by position in {counters.drafts} steps: a position cannot be accepted more "
            "often than the one before it, nor the first more often than there were steps"
        )
    tokens = [record.completion_tokens for record in records]
    if None in tokens or not counters.drafts:
        return None
    came, requests = sum(token or 0 for token in tokens), len(records)
    written = counters.drafts + counters.accepted_tokens
    per_step = -(-counters.draft_tokens // counters.drafts) + 1
    least = came - requests - per_step * requests if every_step else 0
    if not least <= written <= came + per_step * requests:
        return f"steps + accepted tokens = {written}, but {came} tokens came"
    return None
