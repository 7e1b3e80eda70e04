"""Whether an engine's own counters can be of the answers that came."""

from __future__ import annotations

import pytest
from specdecode.measures.counters import contradiction, counted
from specdecode.records import EngineCounters, RequestRecord

from tests.specdecode.benchmark.making import record


def counters(drafts: int, drafted: int, accepted: int, *positions: int, round: int = 0) -> EngineCounters:
    return EngineCounters(
        variant="sd",
        case="case",
        round=round,
        drafts=drafts,
        draft_tokens=drafted,
        accepted_tokens=accepted,
        accepted_per_position=positions,
    )


def answers(tokens: int | None, requests: int, *, round: int = 0) -> list[RequestRecord]:
    each = [None] * requests if tokens is None else [tokens - (requests - 1), *[1] * (requests - 1)]
    return [record(completion_tokens=count, index=index, round=round) for index, count in enumerate(each)]


def test_what_adds_up_is_believed() -> None:
    assert contradiction(counters(10, 50, 30, 10, 10, 6, 4), answers(42, 2)) is None


@pytest.mark.parametrize(
    ("given", "tokens", "says"),
    [
        (counters(10, 50, 60), None, "accepted of"),
        (counters(10, 50, 30, 20, 20), None, "add up"),
        (counters(50, 250, 100, 100, 0, 0), None, "100, 0, 0 tokens accepted by position in 50 steps"),
        (counters(50, 250, 60, 20, 40), None, "more often than the one before it"),
        # an engine that reports accepted tokens as the next draft: 40 steps and 160 "accepted" of 100 tokens
        (counters(40, 200, 160), 100, "100 tokens came"),
        (counters(40, 200, 60), 1000, "1000 tokens came"),
    ],
)
def test_counters_that_cannot_be(given: EngineCounters, tokens: int | None, says: str) -> None:
    assert says in (contradiction(given, answers(tokens, 2)) or "")


def test_rounds_are_added_and_a_missing_one_makes_all_of_them_a_part() -> None:
    """A process that went on in the middle of a round has counters of that part only, and writes none."""
    records = answers(42, 2) + answers(42, 2, round=1)
    both = [counters(10, 50, 30, 10, 10, 6, 4), counters(12, 60, 28, 12, 12, 4, round=1)]
    found, problems = counted(both, records)
    assert found and not problems
    assert (found.drafts, found.draft_tokens, found.accepted_tokens) == (22, 110, 58)
    assert found.accepted_per_position == (22, 22, 10, 4)
    assert counted(both[:1], records) == (None, [])
