"""The engines' own counters of an arm and case: whether they can be believed, and what they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from specdecode.records import EngineCounters, RequestRecord


class Counted(NamedTuple):
    """What the believable counters of one arm and case say together."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    accepted_per_position: tuple[int, ...]


def other_k(counters: Sequence[EngineCounters], k: int | None) -> str | None:
    """Why the engine drafts with another k than was said, or None: a step drafts k tokens at most."""
    for item in counters:
        if k is not None and item.trusted and item.draft_tokens > k * item.drafts:
            return (
                f"the engine's counters say {item.draft_tokens} tokens drafted in {item.drafts} steps, more than k={k} "
                "a step: wrong k?"
            )
    return None


def counted(counters: Sequence[EngineCounters], records: Sequence[RequestRecord]) -> tuple[Counted | None, list[str]]:
    """The sum over rounds, and why it is not used. Only counters of every round count, or the rate would be of a part.

    `counters`, `records`: of one arm and case.
    """
    own = [item for item in counters if item.trusted]
    if not own or {item.round for item in own} != {record.round for record in records}:
        return None, []
    problems = []
    for item in own:
        if why := contradiction(item, [record for record in records if record.round == item.round]):
            problems.append(f"the engine's counters contradict the answers: {why}")
    if problems:
        return None, problems
    width = max(len(item.accepted_per_position) for item in own)
    total = Counted(
        drafts=sum(item.drafts for item in own),
        draft_tokens=sum(item.draft_tokens for item in own),
        accepted_tokens=sum(item.accepted_tokens for item in own),
        accepted_per_position=tuple(
            sum(item.accepted_per_position[at] for item in own if at < len(item.accepted_per_position))
            for at in range(width)
        ),
    )
    return (total if total.draft_tokens else None), []


def contradiction(counters: EngineCounters, records: Sequence[RequestRecord]) -> str | None:
    """Why the counters cannot be of these requests, or None.

    Every step gives the accepted tokens and one more, so that tokens = steps + accepted, but for the first token
    of an answer (the prompt's step) and up to k tokens cut off at its end.
    """
    if counters.accepted_tokens > counters.draft_tokens:
        return f"{counters.accepted_tokens} tokens accepted of {counters.draft_tokens} drafted"
    positions = counters.accepted_per_position
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
    if not came - requests - per_step * requests <= written <= came + per_step * requests:
        return f"steps + accepted tokens = {written}, but {came} tokens came"
    return None
