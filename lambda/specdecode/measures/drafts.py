"""How the drafts of an arm and case fared, by what the answers themselves say, and by their streamed chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specdecode.measures.counters import contradiction, total
from specdecode.records import Drafted, RequestRecord

COUNTERS = "engine counters"
ANSWERS = "the answers' own counts"
ESTIMATED = "estimated from tokens per streamed chunk"


def by_answers(records: Sequence[RequestRecord], *, every_step: bool = True) -> tuple[Drafted | None, list[str]]:
    """The sum of what the completed requests say of themselves, and why it is not used; None where one says nothing."""
    completed = [record for record in records if record.error is None]
    told = [record.drafted for record in completed if record.drafted is not None]
    if not told or len(told) < len(completed):
        return None, []
    found = total(told)
    if why := contradiction(found, completed, every_step=every_step):
        return None, [f"the answers' own counts of drafts contradict the answers: {why}"]
    return (found if found.draft_tokens else None), []


def by_chunks(histogram: Mapping[int, int], verified: int | None) -> Drafted | None:
    """The same with each chunk after an answer's first taken for a step; None where a chunk holds more tokens than a
    step can give: it then is no step, and nothing can be said of positions.

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
    """By how much the answers' own counts miss the engine's counters, in words; empty where both say the same, or one
    of them says nothing.
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
