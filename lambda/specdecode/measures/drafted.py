"""Drafted and accepted tokens of an arm and case: from the engines' own counters, from the answers' own counts, and
from their streamed chunks. Whether they are plausible, and their sum.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise, zip_longest

from specdecode.experiment.most_tokens import MostTokens
from specdecode.measures.arm_case import Terms
from specdecode.records import MOST_POSITIONS, Drafted, EngineCounters, RequestRecord

COUNTERS = "engine counters"
ANSWERS = "the answers' own counts"
ESTIMATED = "estimated from tokens per streamed chunk"
BETWEEN_STEPS = 0.75
"""Least share of the time between chunks that lies between steps. The tokens of a step come within its sending."""


@dataclass(frozen=True, kw_only=True)
class Drafts:
    """Drafted and accepted tokens of an arm and case, by each source."""

    by_counters: Drafted | None
    by_answers: Drafted | None
    doubts: list[str]
    """Why a source is not used, in words: it contradicts what came."""
    unseen: list[str]
    """Why no source is used, in words: what it counts is not what came, or was cut off there."""
    own_counts_wrong: list[str]
    """Why the single answers' own counts are not used, in words."""
    k: int | None
    """As in `Terms`. None if the engine drafts with another k than was said."""

    @property
    def found(self) -> Drafted | None:
        """The engine's counters, else the sum of the answers' own counts."""
        return self.by_counters or self.by_answers

    @property
    def source(self) -> str:
        return COUNTERS if self.by_counters else ANSWERS if self.by_answers else ESTIMATED


def read_drafts(records: Sequence[RequestRecord], counters: Sequence[EngineCounters], terms: Terms) -> Drafts:
    """Read both sources and leave out those that contradict the answers or the k of the arm. `records` and `counters`
    are those of one arm and case.
    """
    every_step = terms.every_step
    by_counters, doubts = counted(counters, records, every_step=every_step)
    believed = terms.most is MostTokens.K_PLUS_1
    own, contradicted = _by_answers(records, every_step=every_step) if believed else (None, [])
    own_counts_wrong = [] if believed else ["what the answers of such an engine say of their drafts is not believed"]
    wrong = _other_k([*counters, *([own] if own else [])], terms.k)
    told = [each for each in (by_counters, own) if each]
    unseen = [] if every_step else [why for each in told if (why := too_few_steps(each, records, every_step=False))]
    return Drafts(
        by_counters=None if wrong or unseen else by_counters,
        by_answers=None if wrong or unseen else own,
        doubts=[*doubts, *contradicted, *wrong],
        unseen=unseen,
        own_counts_wrong=[*own_counts_wrong, *contradicted, *wrong, *unseen],
        k=None if wrong else terms.k,
    )


def counted(
    counters: Sequence[EngineCounters], records: Sequence[RequestRecord], *, every_step: bool = True
) -> tuple[Drafted | None, list[str]]:
    """Sum over rounds; and the reasons if the counters are not used. The counters of every round are needed: else the
    rate would be that of a part. `counters` and `records` are those of one arm and case.
    """
    own = [item for item in counters if item.trusted]
    if not own or {item.round for item in own} != {record.round for record in records}:
        return None, []
    if len({item.round for item in own}) < len(own):
        return None, ["the engine's counters name a round twice"]
    rounds = {item.round: [record for record in records if record.round == item.round] for item in own}
    whys = [contradiction(item, rounds[item.round], every_step=every_step) for item in own]
    if problems := [f"the engine's counters contradict the answers: {why}" for why in whys if why]:
        return None, problems
    found = _total(own)
    return (found if found.draft_tokens else None), []


def _by_answers(records: Sequence[RequestRecord], *, every_step: bool = True) -> tuple[Drafted | None, list[str]]:
    """Sum of the completed answers' own counts; and the reasons if it is not used. None if an answer has no counts."""
    completed = [record for record in records if record.error is None]
    told = [record.drafted for record in completed if record.drafted is not None]
    if not told or len(told) < len(completed):
        return None, []
    found = _total(told)
    if why := contradiction(found, completed, every_step=every_step):
        return None, [f"the answers' own counts of drafts contradict the answers: {why}"]
    return (found if found.draft_tokens else None), []


def _other_k(counts: Sequence[Drafted | EngineCounters], k: int | None) -> list[str]:
    """Why the engine's k cannot be the given k: a step drafts at most k tokens. Empty if it can."""
    for item in counts:
        trusted = isinstance(item, Drafted) or item.trusted
        if k is not None and trusted and item.draft_tokens > k * item.drafts:
            said = f"{item.draft_tokens} tokens drafted in {item.drafts} steps"
            return [f"the engine says {said}, more than k={k} a step: wrong k?"]
    return []


def _total(parts: Sequence[Drafted | EngineCounters]) -> Drafted:
    """All parts together. A position that a part does not have counts as 0 there."""
    positions = zip_longest(*(item.accepted_per_position for item in parts), fillvalue=0)
    return Drafted(
        drafts=sum(item.drafts for item in parts),
        draft_tokens=sum(item.draft_tokens for item in parts),
        accepted_tokens=sum(item.accepted_tokens for item in parts),
        accepted_per_position=tuple(map(sum, positions)),
    )


def contradiction(
    counters: Drafted | EngineCounters, records: Sequence[RequestRecord], *, every_step: bool = True
) -> str | None:
    """Why the counters cannot belong to these requests, or None. Every step gives the accepted tokens and one more. So
    tokens = steps + accepted, except for the first token of an answer (the prompt's step) and up to k tokens that are
    cut off at its end. If not `every_step` drafts, the counters leave out steps without drafts, so their sum may be
    smaller.
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
    return too_few_steps(counters, records) if every_step else None


def too_few_steps(
    counters: Drafted | EngineCounters, records: Sequence[RequestRecord], *, every_step: bool = True
) -> str | None:
    """Why these steps after the first ones cannot have written these answers, or None. A server may send the tokens of
    a step one by one, but it has them at once: nearly all of the time between chunks is time between steps. If not
    `every_step` drafts, there are as many more as the tokens say; half of the accepted ones may be cut off at an end,
    and others may be of answers without text.
    """
    steps = counters.drafts
    if not every_step:
        tokens = [(record.completion_tokens, bool(record.chunks)) for record in records]
        if any(count is None for count, _ in tokens):
            return None
        shown, hidden = (sum(count or 0 for count, has_text in tokens if has_text == of) for of in (True, False))
        accepted = max(0, counters.accepted_tokens - hidden)
        steps = max(steps, shown - sum(has_text for _, has_text in tokens) - accepted // 2)
    gaps = [late.at_s - early.at_s for record in records for early, late in pairwise(record.chunks)]
    if steps >= len(gaps) or math.fsum(nlargest(steps, gaps)) >= BETWEEN_STEPS * math.fsum(gaps):
        return None
    return (
        f"text came {sum(len(each.chunks) for each in records)} times, one after the other: not in {counters.drafts} "
        f"steps with drafts that gave {counters.accepted_tokens} tokens more"
    )


def by_chunks(histogram: Mapping[int, int], verified: int | None) -> Drafted | None:
    """Estimate from chunks: each chunk after an answer's first counts as a step. None if a chunk holds more tokens than
    a step can give. It is then no step, and positions are not known. `histogram`: tokens in a chunk -> chunks.
    `verified`: drafts that a step verifies.
    """
    if not verified or not histogram or not 1 <= max(histogram) <= verified + 1:
        return None
    steps = sum(histogram.values())
    positions = tuple(sum(n for tokens, n in histogram.items() if tokens > at) for at in range(1, verified + 1))
    return Drafted(
        drafts=steps, draft_tokens=steps * verified, accepted_tokens=sum(positions), accepted_per_position=positions
    )


def gap(answers: Drafted | None, counters: Drafted | None, failed: int) -> str:
    """Difference between the answers' own counts and the engine's counters, in words. Empty if there is none."""
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
