import random

import pytest
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.workload import Slo
from specdecode.measures.arm import measure_arm
from specdecode.measures.arm_case import Terms, TurnFigures
from specdecode.measures.distribution import Often, summarize, summarize_often
from specdecode.measures.metrics import ALL_METRICS
from specdecode.measures.metrics.formulas import (
    acceptance_rate,
    end_to_end_latency,
    error_rate,
    errors_by_kind,
    goodput,
    histogram,
    input_tokens,
    inter_chunk_latency,
    inter_token_latency,
    mean_tokens_per_step,
    output_throughput,
    request_output_throughput,
    request_throughput,
    time_per_output_token,
    tokens_per_step,
    ttft,
)
from specdecode.measures.metrics.metric import Block, Impossible, NoValue
from specdecode.records import Chunk, Drafted, EngineCounters, ErrorKind, RequestRecord

from tests.specdecode.benchmark.making import record


def test_formulas_of_a_request() -> None:
    request = record([0.5, 0.8, 0.9], chunk_tokens=[1, 6, 2], tokens=9, end=1.0)
    assert ttft.value(request) == 0.5
    assert time_per_output_token.value(request) == pytest.approx(0.4 / 8)
    assert end_to_end_latency.value(request) == 1.0
    assert request_output_throughput.value(request) == 9.0
    assert input_tokens.value(request) == 64
    assert tokens_per_step.value(request) == 4.0
    found = inter_token_latency.value(request)
    assert [each.times for each in found] == [6, 2]
    assert [each.value for each in found] == pytest.approx([0.05, 0.05])
    assert [each.value for each in inter_chunk_latency.value(request)] == pytest.approx([0.3, 0.1])
    assert histogram([request]) == {2: 1, 6: 1}
    late = record([0.5, 1.0], end=1.0, scheduled_s=3.0, sent_s=5.0)
    assert ttft.value(late) == 2.5
    assert end_to_end_latency.value(late) == 3.0
    assert time_per_output_token.value(late) == 0.5


def test_no_value_is_said_and_not_made_up() -> None:
    with pytest.raises(NoValue, match="one chunk"):
        time_per_output_token.value(record([0.5], tokens=9))
    with pytest.raises(NoValue, match="whole answer"):
        time_per_output_token.value(record([0.5, 0.6], tokens=9, chunk_tokens=[9, 0]))
    with pytest.raises(NoValue, match="fewer than two"):
        time_per_output_token.value(record([0.5, 0.6], tokens=1))
    with pytest.raises(NoValue, match="the server sent none"):
        request_output_throughput.value(record(completion_tokens=None, usage_problem="the server sent none"))
    with pytest.raises(NoValue, match="every chunk"):
        inter_token_latency.value(record([0.1, 0.2]))
    with pytest.raises(NoValue, match="no text"):
        ttft.value(record([]))


def test_block_metrics_count_every_request_and_use_the_completed_ones() -> None:
    records = [
        record([1.0, 2.0], tokens=10, end=2.0, sent_s=0.0),
        record([0.5, 3.0], tokens=20, end=3.0, sent_s=1.0),
        record([], end=5.0, sent_s=0.0, error=ErrorKind.TIMEOUT),
        record([], end=0.1, sent_s=0.0, error=ErrorKind.CONNECT),
    ]
    block = Block(records=records, slo=Slo(ttft_s=0.8))
    assert block.load_s == 5.0
    assert output_throughput.value(block) == 6.0
    assert request_throughput.value(block) == pytest.approx(0.4)
    assert goodput.value(block) == pytest.approx(0.2)
    assert error_rate.value(block) == 0.5
    assert errors_by_kind(block) == {"timeout": 1, "connect": 1}
    arm = measure_arm(records, slo=Slo(ttft_s=0.8), terms=Terms(dollars_per_hour=36.0)).arm
    assert arm.cost_per_million == pytest.approx(36.0 / 3600 * 5.0 / 30 * 1e6), "5 s of load, 30 tokens"
    uncounted = next(each for each in records if each.error is None).model_copy(update={"completion_tokens": None})
    part = measure_arm([*records, uncounted], terms=Terms(dollars_per_hour=36.0)).arm
    assert part.cost_per_million is None and part.output_throughput is None, "the time is of all, the count of a part"
    assert (arm.requests, arm.completed, arm.failed) == (4, 2, 2)
    assert arm.metrics["ttft"].n == 2 and arm.totals["goodput"] == pytest.approx(0.2)
    at_once = Block(records=[record([0.0], tokens=1, end=0.0)], slo=Slo(ttft_s=0.8))
    for metric in (output_throughput, request_throughput, goodput):
        with pytest.raises(NoValue):
            metric.value(at_once)


@pytest.mark.parametrize(
    ("sent", "load_s"),
    [
        ([(0, 4, {})], 4), ([(1, 3, {}), (7, 2, {})], 8), ([(1, 3, {}), (7, 2, {"portion": 1})], 5),
        ([(1, 9, {}), (2, 3, {"portion": 1}), (8, 4, {"portion": 2})], 11),
        ([(0, 2, {}), (1000, 2, {"session": 1}), (500, 2, {"round": 1})], 6),
        ([(0, 2, {"level": "c1"}), (5, 2, {"level": "c2"})], 4),
    ],
)  # fmt: skip
def test_load_is_the_time_of_an_arms_own_portions(
    sent: list[tuple[int, int, dict[str, object]]], load_s: float
) -> None:
    """Not another arm's turn, nor a pause between processes; what overlaps counts once."""
    records = [record([0.5, took], end=took, sent_s=at, **more) for at, took, more in sent]
    assert Block(records=records).load_s == load_s


def test_the_tokens_of_a_first_chunk_that_are_not_counted_are_its_share_of_the_text() -> None:
    """7 of 25 characters are 2.8 of 10 tokens: three, so that seven came later. A first chunk has at least one."""
    for chars, later in (((7, 18), 7), ((1, 40), 9), ((0, 0), 9)):
        chunks = tuple(Chunk(at_s=at, chars=count) for at, count in zip((1.0, 1.63), chars, strict=True))
        assert time_per_output_token.value(record(tokens=10, chunks=chunks, end=2.0)) == pytest.approx(0.63 / later)


def test_acceptance_from_counters_or_estimated() -> None:
    records = [record([0.1 * n for n in range(1, 12)], chunk_tokens=[1] + [5] * 10, tokens=51)]
    counted = Block(
        records=records, drafted=Drafted(drafts=10, draft_tokens=70, accepted_tokens=40, accepted_per_position=()), k=7
    )
    assert acceptance_rate.value(counted) == pytest.approx(40 / 70)
    estimated = Block(records=records, k=7)
    assert acceptance_rate.value(estimated) == pytest.approx(4 / 7)
    for k in (None, 0):
        with pytest.raises(NoValue):
            acceptance_rate.value(Block(records=records, k=k))


COUNTS = {"variant": "base", "case": "case", "drafts": 10, "draft_tokens": 70, "accepted_tokens": 40}


@pytest.mark.parametrize(
    ("changed", "source", "why"),
    [
        ({}, "engine counters", None), ({"trusted": False}, "estimated", None),
        ({"accepted_tokens": 71}, "estimated", "71 tokens accepted of 70"),
        ({"accepted_per_position": (30, 9)}, "estimated", "do not add up"),
        ({"accepted_per_position": (40, 0, 0)}, "estimated", "40, 0, 0 tokens accepted by position in 10 steps"),
        ({"accepted_per_position": (10, 9, 9, 4, 8)}, "estimated", "more often than the one before"),
        ({"accepted_per_position": (10, 10, 10, 10, 0, 0, 0)}, "engine counters", None),
        ({"draft_tokens": 71}, "", "71 tokens drafted in 10 steps, more than k=7 a step: wrong k?"),
        ({"draft_tokens": 71, "trusted": False}, "estimated", None),
        ({"drafts": 1000, "draft_tokens": 7000}, "estimated", "but 51 tokens came"), ({"round": 1}, "estimated", None),
    ],
)  # fmt: skip
def test_counters_count_only_where_the_answers_do_not_contradict_them(
    changed: dict[str, object], source: str, why: str | None
) -> None:
    records = [record([0.1 * n for n in range(1, 12)], chunk_tokens=[1] + [5] * 10, tokens=51)]
    counters = EngineCounters.model_validate({**COUNTS, **changed})
    arm = measure_arm(records, terms=Terms(k=7), counters=[counters]).arm
    assert (arm.acceptance_source or "").startswith(source) and bool(arm.acceptance_source) == bool(source)
    chunks = (1.0, 1.0, 1.0, 1.0, 0.0)  # ten of five tokens
    told = chunks if "accepted_per_position" in changed else ()
    assert arm.accepted_per_position == {"engine counters": told, "estimated": chunks, "": ()}[source]
    assert len(arm.impossible) == (why is not None) and (why or "") in "".join(arm.impossible)


def test_an_arm_without_any_answer_has_reasons_and_no_numbers() -> None:
    arm = measure_arm([record([], end=1.0, error=ErrorKind.RESET)]).arm
    assert set(arm.totals) == {"error_rate"} and not arm.metrics
    assert arm.no_value["ttft"] == "no completed request"


@pytest.mark.parametrize("packed", [1, 2, 4, 8])
@pytest.mark.parametrize("counted", [True, False])
def test_the_pace_does_not_depend_on_how_tokens_fall_into_chunks(packed: int, counted: bool) -> None:
    """40 tokens at 10 ms each, sent in chunks: the first one too holds several."""
    chunks = [
        Chunk(at_s=0.01 * packed * n, chars=4 * packed, tokens=packed if counted else None)
        for n in range(1, 40 // packed + 1)
    ]
    assert time_per_output_token.value(record(tokens=40, chunks=tuple(chunks), end=0.4)) == pytest.approx(0.010)


def steps(*sizes: int, gap_s: float = 0.02, **fields: object) -> RequestRecord:
    times = [0.1 + gap_s * n for n in range(len(sizes))]
    return record(times, chunk_tokens=sizes, tokens=sum(sizes), **fields)


def test_more_tokens_a_step_than_the_engine_can_give_are_no_value_and_are_told() -> None:
    """k=5 gives 6 a step at most: 12 came, so chunks were merged, or k is another one."""
    arm = measure_arm([steps(1, *[12] * 9)], terms=Terms(k=5)).arm
    assert "tokens_per_step" not in arm.metrics and "acceptance_rate" not in arm.totals and arm.steps == ()
    (told,) = arm.impossible
    assert "12.00 tokens a chunk" in told and "6 a step at most" in told and "proxy" in told
    assert "12.00" in arm.no_value["tokens_per_step"]
    right = measure_arm([steps(1, *[6] * 9)], terms=Terms(k=5)).arm
    assert right.metrics["tokens_per_step"].p50 == 6 and right.totals["acceptance_rate"] == 1 and not right.impossible


def test_an_engine_that_verifies_one_draft_less_gives_k_tokens_a_step() -> None:
    """NxD Inference at k=7: 7 tokens a step are every verified draft accepted, and 8 are impossible."""
    arm = measure_arm([steps(1, *[7] * 9)], terms=Terms(k=7, most=MostTokens.K)).arm
    assert arm.totals["acceptance_rate"] == 1.0 and arm.verified_drafts == 6 and not arm.impossible
    half = measure_arm([steps(1, *[4] * 9)], terms=Terms(k=7, most=MostTokens.K)).arm
    assert half.totals["acceptance_rate"] == pytest.approx(0.5)
    (told,) = measure_arm([steps(1, *[8] * 9)], terms=Terms(k=7, most=MostTokens.K)).arm.impossible
    assert "drafts 7 tokens a step and verifies 6 of them gives 7 a step at most" in told
    alone = measure_arm([steps(*[1] * 9)], terms=Terms(k=1, most=MostTokens.K)).arm
    assert "acceptance_rate" not in alone.totals and "verifies k - 1" in alone.no_value["acceptance_rate"]


def test_no_k_and_an_unknown_one_have_ceilings_too_and_now_and_then_two_steps_share_a_chunk() -> None:
    arm = measure_arm([steps(1, *[3] * 9)], terms=Terms(k=0)).arm
    assert "tokens_per_step" not in arm.metrics and "does not speculate" in arm.impossible[0]
    assert measure_arm([steps(*[1] * 9)], terms=Terms(k=5)).arm.totals["acceptance_rate"] == 0.0
    unknown = measure_arm([steps(1, *[3] * 9)], terms=Terms(k=None)).arm
    assert unknown.metrics["tokens_per_step"].p50 == 3 and not unknown.impossible
    # No experiment drafts more than 32 tokens a step.
    most = measure_arm([steps(1, *[33] * 9)], terms=Terms(k=None)).arm
    assert most.metrics["tokens_per_step"].p50 == 33 and not most.impossible
    merged = measure_arm([steps(1, *[333] * 9)], terms=Terms(k=None)).arm
    assert "tokens_per_step" not in merged.metrics
    assert "333.00 tokens a chunk" in merged.impossible[0] and "33 a step at most" in merged.impossible[0]
    arm = measure_arm([steps(1, *[1] * 98, 2)], terms=Terms(k=0)).arm
    assert arm.metrics["tokens_per_step"].p50 == pytest.approx(100 / 99) and not arm.impossible
    with pytest.raises(Impossible):
        mean_tokens_per_step(Block(records=[steps(1, *[1] * 97, 4)], k=0))


def test_a_stream_that_comes_all_at_once_has_no_time_per_token() -> None:
    """A proxy that buffers: all chunks at the end. One such request makes the others no fair sample."""
    with pytest.raises(Impossible, match="buffers"):
        time_per_output_token.value(steps(*[1] * 9, gap_s=0.0))
    with pytest.raises(Impossible, match="3 chunks came within 300 µs"):
        time_per_output_token.value(steps(1, 1, 1, gap_s=0.00015))
    assert time_per_output_token.value(steps(1, 1, 1, gap_s=0.00021)) == pytest.approx(0.00021)
    for end, why in ((0.05, "this client was late"), (0.06, "buffers")):
        with pytest.raises(NoValue, match=why):
            time_per_output_token.value(record([0.04, 0.0401, 0.0402], tokens=3, end=end, doubtful_chunks=1))
    arm = measure_arm([steps(*[1] * 9), steps(*[1] * 9, gap_s=0.0)]).arm
    assert not {"time_per_output_token", "inter_token_latency"} & arm.metrics.keys()
    assert "buffers" in arm.impossible[0] and arm.metrics["end_to_end_latency"].n == 2
    # A second of silence, then 101 chunks 21 to 50 µs apart; the fastest engine known takes 0.4 ms a token.
    rng = random.Random(1)
    times = [1.0]
    for _ in range(100):
        times.append(times[-1] + rng.uniform(21e-6, 50e-6))
    arm = measure_arm([record(times, chunk_tokens=[1] * 101, tokens=101)], terms=Terms(k=0)).arm
    assert "time_per_output_token" not in arm.metrics and "buffers" in arm.no_value["time_per_output_token"]
    fastest = measure_arm([steps(*[1] * 101, gap_s=0.0004)]).arm
    assert fastest.metrics["time_per_output_token"].p50 == pytest.approx(0.0004) and not fastest.impossible


def test_a_summary_s_percentiles_are_the_linear_ones() -> None:
    values = list(range(1, 101))
    random.Random(1).shuffle(values)
    found = summarize([float(value) for value in values])
    assert (found.p25, found.p50, found.p99) == pytest.approx((25.75, 50.5, 99.01))
    assert found.stddev == pytest.approx(29.011, abs=1e-3)
    assert summarize([3.0]).stddev == 0.0
    often = summarize_often([Often(4.0, 3), Often(1.5), Often(2.0, 2)])
    assert often == summarize([4.0, 2.0, 1.5, 4.0, 2.0, 4.0])
    assert summarize_often([Often(0.25, 2**20), Often(0.5, 2**20)]).p50 == 0.375, "no value is written down so often"
    assert summarize([4.0, 1.0, 3.0, 2.0]).p50 == 2.5, "not the upper median of the public sample"


def test_every_metric_is_defined() -> None:
    assert len({metric.tag for metric in ALL_METRICS}) == len(ALL_METRICS)
    for metric in ALL_METRICS:
        assert metric.definition and metric.formula and metric.title and metric.unit and metric.direction


def turns_of(records: list[RequestRecord]) -> tuple[TurnFigures, ...]:
    return measure_arm(records).arm.turns


def asked(index: int, turn: int, ttft: float, **fields: object) -> RequestRecord:
    return record([ttft, ttft + 0.1], index=index, turn=turn, **fields)


def test_each_turn_has_its_own_time_to_the_first_token() -> None:
    first, second = turns_of(
        [
            asked(0, 0, 0.1, prompt_tokens=10, cached_tokens=0),
            asked(1, 1, 0.4, prompt_tokens=50, cached_tokens=32),
            asked(2, 0, 0.3, prompt_tokens=20, cached_tokens=0),
            asked(3, 1, 0.6, prompt_tokens=70, cached_tokens=64),
        ]
    )
    assert (first.turn, first.ttft.n, first.prompt_tokens, first.cached_tokens) == (1, 2, 15.0, 0.0)
    assert (second.turn, second.ttft.mean, second.prompt_tokens, second.cached_tokens) == (2, 0.5, 60.0, 48.0)
    _, second = turns_of([asked(0, 0, 0.1), asked(1, 1, 0.1, cached_tokens=3), asked(3, 1, 0.1)])
    assert second.cached_tokens is None
    found = turns_of([asked(0, 0, 0.1), asked(1, 1, 0.2), asked(3, 1, 9.0, error=ErrorKind.RESET)])
    assert [each.ttft.n for each in found] == [1, 1]
    assert turns_of([asked(0, 0, 0.1), asked(1, 0, 0.1)]) == ()
