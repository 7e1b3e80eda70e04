"""Drafted and accepted tokens of an arm and case: from the answers' own counts, and from their streamed chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specdecode.measures.counters import contradiction, total
from specdecode.records import Drafted, RequestRecord

COUNTERS = "engine counters"
ANSWERS = "the answers' own counts"
ESTIMATED = "estimated from tokens per streamed chunk"


def by_answers(records: Sequence[RequestRecord], *, every_step: bool = True) -> tuple[Drafted | None, list[str]]:
    """Sum of the completed answers' own counts; and the reasons if it is not used. None if an answer has no counts."""
    completed = [record for record in records if record.error is None]
    told = [record.drafted for record in completed if record.drafted is not None]
    if not told or len(told) < len(completed):
        return None, []
    found = total(told)
    if why := contradiction(found, completed, every_step=every_step):
        return None, [f"the answers' own counts of drafts contradict the answers: {why}"]
    return (found if found.draft_tokens else None), []


def by_chunks(histogram: Mapping[int, int], verified: int | None) -> Drafted | None:
    """Estimate from chunks: each chunk after an answer's first counts as a step.

    None if a chunk holds more tokens than a step can give. It is then no step, and positions are not known.
    `histogram`: tokens in a chunk -> chunks. `verified`: drafts that a step verifies.
    """
    if not verified or not histogram or not 1 <= max(histogram) <= verified + 1:
        return None
    steps = sum(histogram.values())
    positions = tuple(sum(n for tokens, n in histogram.items() if tokens > at) for at in range(1, verified + 1))
    return Drafted(
        drafts=steps, draft_tokens=steps * verified, accepted_tokens=sum(positions), accepted_per_position=positions
    )


def gap(answers: Drafted | None, counters: Drafted | None, failed: int) -> str:
    """Difference between the answers' own counts and the engine's counters, in words. Empty if they are equal or one of
    them is missing.
    """
    if answers is None or counters is None or answers == counters:
        return ""
    missing = 1 - answers.accepted_tokens / counters.accepted_tokens if counters.accepted_tokens else 0.0
    why = f"; {failed} requests failed, and only the counters have theirs" if failed else ""
    return (
        f"the answers say {_said(answers)}, the engine's counters {_said(counters)}: "
        f"{abs(missing):.2%} {'fewer' if missing >= 0 else 'more'} accepted tokens in the answers{why}"
    )


def _said(found: Drafted) -> str:
    return f"{found.accepted_tokens} of {found.draft_tokens} drafted tokens accepted in {found.drafts} steps"
