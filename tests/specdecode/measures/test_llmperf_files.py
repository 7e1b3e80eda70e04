"""LLMPerf's figures from the same recorded trace, to the last byte; and why nobody should compare arms by them."""

import json
from pathlib import Path

import pytest
from specdecode.experiment import load_preset
from specdecode.experiment.workload import Level
from specdecode.measures.accounting import Accounting, Mode
from specdecode.measures.llmperf_files import llmperf_run
from specdecode.records import Chunk, ErrorKind, RequestRecord

from tests.specdecode.benchmark.making import record

RECORDED = Path(__file__).parent / "llmperf"
LOAD = load_preset("qwen3-32b").workload
ENDED = 1_795_000_000
"""The time that stands in the recorded files."""
STEM = "org-Model-1-5_x_64_600"


def count_words(text: str) -> int:
    return 1 + len(text.split())


def trace(arm: str) -> tuple[list[RequestRecord], float]:
    """The recorded streams as our client would have recorded them."""
    document = json.loads((RECORDED / f"trace-{arm}.json").read_text())
    records = []
    for index, request in enumerate(document["requests"]):
        chunks, text = [], ""
        for at, delta in request["events"]:
            reasoning, content = delta.get("reasoning_content", ""), delta.get("content", "")
            if reasoning + content:
                chunks.append(Chunk(at_s=at, chars=len(reasoning + content), reasoning_chars=len(reasoning)))
                text += reasoning + content
        records.append(
            record(
                end=request["end_s"],
                index=index,
                tokens=60,
                output=text,
                chunks=tuple(chunks),
                events=len(request["events"]),
                started_at=ENDED + 0.25 - request["end_s"],
            )
        )
    return records, document["window_s"]


def written_of(records: list[RequestRecord], accounting: Accounting, *, load_s: float) -> dict[str, str]:
    given = {"model": "org/Model-1.5_x", "records": records, "accounting": accounting, "load_s": load_s}
    return llmperf_run(LOAD, Level(concurrency=1), **given)


def files(arm: str, mode: str) -> dict[str, str]:
    records, window_s = trace(arm)
    accounting = Accounting(mode, retokenize=count_words)
    return written_of(records, accounting, load_s=window_s)


@pytest.mark.parametrize("mode", ["stock", "neuron"])
@pytest.mark.parametrize("arm", ["base", "sd"])
def test_summary_is_byte_for_byte_llmperfs(arm: str, mode: str) -> None:
    ours = files(arm, mode)[f"{STEM}_summary.json"]
    lines = [line for line in ours.splitlines() if '"token_accounting"' not in line]
    assert lines == (RECORDED / f"{arm}-{mode}-summary.json").read_text().splitlines()
    assert f'"token_accounting": "{mode}: ' in ours


@pytest.mark.parametrize("mode", ["stock", "neuron"])
def test_individual_responses_are_byte_for_byte_llmperfs(mode: str) -> None:
    recorded = (RECORDED / f"base-{mode}-individual_responses.json").read_text()
    assert files("base", mode)[f"{STEM}_individual_responses.json"] == recorded


@pytest.mark.parametrize(("count", "total"), [(128, 2.0**23), (129, 2.0**23 + 2.0**-29)])
def test_up_to_128_values_are_one_block_of_numpys_sum(count: int, total: float) -> None:
    """In one block the large value meets each of the two small ones alone, and rounds it off."""
    times = [2.0**23, *[0.0] * 63, 2.0**-30, *[0.0] * 7, 2.0**-30, *[0.0] * (count - 73)]
    records = [record([at], end=at, tokens=1) for at in times]
    written = written_of(records, Accounting("usage"), load_s=1.0)
    assert json.loads(written[f"{STEM}_summary.json"])["results_ttft_s_mean"] == total / count


def test_stock_llmperf_turns_the_result_round() -> None:
    """Half the time per answer, and stock LLMPerf shows half as much again: it divides by chunks."""

    def mean(arm: str, field: str) -> float:
        return json.loads(files(arm, "stock")[f"{STEM}_summary.json"])[f"results_{field}_mean"]

    assert mean("sd", "end_to_end_latency_s") < 0.55 * mean("base", "end_to_end_latency_s")
    assert mean("sd", "inter_token_latency_s") > 1.3 * mean("base", "inter_token_latency_s")
    for accounting in ("usage", "neuron"):
        itl = [
            json.loads(files(arm, accounting)[f"{STEM}_summary.json"])["results_inter_token_latency_s_mean"]
            for arm in ("sd", "base")
        ]
        assert itl[0] < 0.5 * itl[1]


def test_seed_405b_figures_follow_from_the_neuron_formula() -> None:
    """The published means: (73.192 - 5.4516) s / 1786.92 is 37.909 ms; (14.886 - 2.2562) s / 1500 is 8.4198 ms."""
    neuron = Accounting("neuron", retokenize=lambda text: 1788)
    base = record([5.451600373298861, 73.19207735829521], tokens=1787)
    assert neuron.figures(base).inter_token_latency_s == pytest.approx(0.037909, rel=1e-4)
    published = 0.03790912092492011
    assert published == pytest.approx((73.19207735829521 - 5.451600373298861) / (1787.92 - 1), rel=1e-5)
    speculative = Accounting("neuron", retokenize=lambda text: 1501)
    sd = record([2.256157155628316, 14.886235136194154], tokens=1500)
    assert speculative.figures(sd).inter_token_latency_s == pytest.approx(0.008419798457414533, rel=1e-4)


def test_without_a_tokenizer_the_servers_count_stands_in_and_is_named() -> None:
    accounting = Accounting("neuron")
    assert accounting.figures(record([0.1, 1.1], tokens=101)).output_tokens == 102
    assert "in place of LLMPerf's tokenizer" in accounting.description


@pytest.mark.parametrize(
    ("mode", "tokens", "latency", "counted"),
    [
        ("usage", 3, 0.4 / 2, 3), ("vllm", 3, 0.4 / 2, 3), ("vllm", 2, 0.4, 2), ("vllm", 1, None, 1),
        ("vllm", None, None, None), ("neuron", 3, 0.4 / 3, 4), ("neuron", 1, 0.4, 2), ("neuron", 0, 0.0, 1),
        ("neuron", None, None, None), ("stock", 3, 0.9 / 3, 4), ("stock", None, 0.9 / 3, None),
    ],
)  # fmt: skip
def test_each_way_of_counting_by_hand(
    mode: Mode, tokens: int | None, latency: float | None, counted: int | None
) -> None:
    """Three chunks at 0.5, 0.8 and 0.9 s, and the end at 1 s."""
    of = record([0.5, 0.8, 0.9], end=1.25, completion_tokens=tokens, chunk_tokens=[1, 1, 1])
    found = Accounting(mode).figures(of)
    assert found.inter_token_latency_s == (None if latency is None else pytest.approx(latency))
    assert (found.output_tokens, found.input_tokens, found.ttft_s, found.end_to_end_latency_s) == (
        counted,
        64,
        0.5,
        1.25,
    )
    assert found.output_throughput == (None if counted is None else pytest.approx(counted / 1.25))
    assert Accounting(mode).figures(record(end=0.0, completion_tokens=tokens)).output_throughput is None


def test_nothing_retokenized_or_no_event_is_no_time_in_stock_llmperf() -> None:
    nothing = Accounting("stock", retokenize=lambda text: 0).figures(record([0.5, 0.8]))
    no_event = Accounting("stock").figures(record([0.5, 0.8], events=0))
    one = Accounting("neuron", retokenize=lambda text: 1).figures(record([0.5, 0.8]))
    assert [each.inter_token_latency_s for each in (nothing, no_event, one)] == [0.0, 0.0, 0.0]


def test_failed_requests_are_counted_and_left_out() -> None:
    records = [record([0.1, 0.3], tokens=2), record([], end=0.5, error=ErrorKind.TIMEOUT)]
    written = written_of(records, Accounting("usage"), load_s=2.0)
    _, failed = json.loads(written[f"{STEM}_individual_responses.json"])
    assert {key: failed.pop(key) for key in ("error_code", "error_msg")} == {"error_code": -1, "error_msg": "broken"}
    assert failed.pop("number_input_tokens") == failed.pop("number_total_tokens") == 64
    assert set(failed.values()) == {0}
    summary = json.loads(written[f"{STEM}_summary.json"])
    assert summary["results_num_requests_started"] == 2
    assert summary["results_num_completed_requests"] == 1
    assert summary["results_error_rate"] == 0.5
    assert summary["results_error_code_frequency"] == "{-1: 1}"
    assert summary["results_ttft_s_mean"] == 0.1
    nothing = written_of([], Accounting("usage"), load_s=0.0)
    empty = json.loads(nothing[f"{STEM}_summary.json"])
    figures = {key: value for key, value in empty.items() if key.startswith("results_")}
    assert figures.pop("results_error_code_frequency") == "{}" and set(figures.values()) == {0}


def test_reasoning_is_no_text_for_llmperf() -> None:
    """Its client reads `content` alone: three words of reasoning, then two of content in the same stream."""
    chunks = (
        Chunk(at_s=0.1, chars=6, reasoning_chars=6),
        Chunk(at_s=0.2, chars=14, reasoning_chars=8),
        Chunk(at_s=0.3, chars=5, reasoning_chars=0),
    )
    request = record(output="I see, I think hello there", tokens=6, end=0.4, chunks=chunks)
    seen: list[str] = []
    figures = Accounting("neuron", retokenize=lambda text: seen.append(text) or 3).figures(request)
    assert seen == [request.output[14:25]]
    assert figures.ttft_s == 0.2, "of the first content"


def test_vllms_benchmark_takes_the_first_chunk_for_one_token() -> None:
    """Three tokens in the first chunk, four in the second, 0.6 s later: by vLLM six came after the first."""
    request = record([0.2, 0.8], tokens=7, chunk_tokens=[3, 4], end=0.8)
    latencies = [Accounting(mode).figures(request).inter_token_latency_s for mode in ("usage", "vllm")]
    assert latencies == pytest.approx([0.6 / 4, 0.6 / 6])
