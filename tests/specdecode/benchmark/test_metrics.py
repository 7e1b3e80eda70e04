from __future__ import annotations

import random
from pathlib import Path

import pytest
from specdecode.benchmark.metrics import (
    ALL_METRICS,
    AcceptanceRate,
    Block,
    EndToEndLatency,
    ErrorRate,
    Goodput,
    InputTokens,
    InterChunkLatency,
    InterTokenLatency,
    NoValue,
    OutputThroughput,
    RequestOutputThroughput,
    RequestThroughput,
    Slo,
    TimePerOutputToken,
    TimeToFirstToken,
    TokensPerStep,
)
from specdecode.benchmark.metrics.document import document
from specdecode.benchmark.metrics.tokens_per_step import histogram
from specdecode.benchmark.records import ErrorKind
from specdecode.benchmark.statistics import Distribution
from specdecode.benchmark.summary import block_summary

from tests.specdecode.benchmark.making import record

ROOT = Path(__file__).resolve().parents[3]


def test_formulas_of_a_request() -> None:
    request = record([0.5, 0.8, 0.9], chunk_tokens=[1, 6, 2], tokens=9, end=1.0)
    assert TimeToFirstToken.value(request) == 0.5
    assert TimePerOutputToken.value(request) == pytest.approx(0.4 / 8)
    assert EndToEndLatency.value(request) == 1.0
    assert RequestOutputThroughput.value(request) == 9.0
    assert InputTokens.value(request) == 64
    assert TokensPerStep.value(request) == 4.0
    assert InterTokenLatency.values(request) == pytest.approx([0.05] * 6 + [0.05] * 2)
    assert InterChunkLatency.values(request) == pytest.approx([0.3, 0.1])
    assert histogram([request]) == {2: 1, 6: 1}


def test_packing_tokens_into_chunks_changes_no_token_metric() -> None:
    """The same tokens at the same times, sent one by one or four at a time with the last of them."""
    single = record([0.1 + 0.01 * n for n in range(41)], tokens=41)
    packed = record([0.1] + [0.1 + 0.01 * n for n in range(4, 41, 4)], tokens=41)
    assert TimePerOutputToken.value(packed) == pytest.approx(TimePerOutputToken.value(single))
    assert RequestOutputThroughput.value(packed) == pytest.approx(RequestOutputThroughput.value(single))
    assert TokensPerStep.value(single) == 1
    assert TokensPerStep.value(packed) == 4


def test_open_loop_latencies_begin_when_the_request_was_due() -> None:
    late = record([0.5, 1.0], end=1.0, scheduled_s=3.0, sent_s=5.0)
    assert TimeToFirstToken.value(late) == 2.5
    assert EndToEndLatency.value(late) == 3.0
    assert TimePerOutputToken.value(late) == 0.5


def test_no_value_is_said_and_not_made_up() -> None:
    with pytest.raises(NoValue, match="one chunk"):
        TimePerOutputToken.value(record([0.5], tokens=9))
    with pytest.raises(NoValue, match="fewer than two"):
        TimePerOutputToken.value(record([0.5, 0.6], tokens=1))
    with pytest.raises(NoValue, match="the server sent none"):
        RequestOutputThroughput.value(record(completion_tokens=None, usage_problem="the server sent none"))
    with pytest.raises(NoValue, match="every chunk"):
        InterTokenLatency.values(record([0.1, 0.2]))
    with pytest.raises(NoValue, match="no text"):
        TimeToFirstToken.value(record([]))


def test_block_metrics_count_every_request_and_use_the_completed_ones() -> None:
    records = [
        record([1.0, 2.0], tokens=10, end=2.0, sent_s=0.0),
        record([0.5, 3.0], tokens=20, end=3.0, sent_s=1.0),
        record([], end=5.0, sent_s=0.0, error=ErrorKind.TIMEOUT),
        record([], end=0.1, sent_s=0.0, error=ErrorKind.CONNECT),
    ]
    block = Block(records=records, slo=Slo(ttft_s=0.8))
    assert block.window_s == 5.0
    assert OutputThroughput.block_value(block) == 6.0
    assert RequestThroughput.block_value(block) == pytest.approx(0.4)
    assert Goodput.block_value(block) == pytest.approx(0.2)
    assert ErrorRate.block_value(block) == 0.5
    assert ErrorRate.by_kind(block) == {"timeout": 1, "connect": 1}
    summary = block_summary(block)
    requests = summary["requests"]
    assert requests["started"] == requests["completed"] + requests["failed"] == 4
    assert summary["metrics"]["ttft"]["count"] == 2


def test_a_pause_between_sessions_is_not_load() -> None:
    first = record([1.0, 2.0], tokens=10, sent_s=0.0)
    resumed = record([1.0, 2.0], tokens=10, sent_s=1000.0, session=1)
    assert OutputThroughput.block_value(Block(records=[first, resumed])) == 5.0


def test_acceptance_from_counters_or_estimated() -> None:
    records = [record([0.1 * n for n in range(1, 12)], chunk_tokens=[1] + [5] * 10, tokens=51)]
    counted = Block(records=records, drafted_tokens=70, accepted_tokens=40, speculative_tokens=7)
    assert AcceptanceRate.block_value(counted) == pytest.approx(40 / 70)
    assert AcceptanceRate.source(counted) == "counters"
    estimated = Block(records=records, speculative_tokens=7)
    assert AcceptanceRate.block_value(estimated) == pytest.approx(4 / 7)
    assert AcceptanceRate.source(estimated) == "estimated"
    with pytest.raises(NoValue):
        AcceptanceRate.block_value(Block(records=records))


def test_a_block_without_any_answer_has_reasons_and_no_numbers() -> None:
    summary = block_summary(Block(records=[record([], end=1.0, error=ErrorKind.RESET)]))
    assert set(summary["metrics"]) == {"error_rate"}
    assert summary["no_value"]["ttft"] == "no completed request"


def test_distribution_is_the_linear_one() -> None:
    values = list(range(1, 101))
    random.Random(1).shuffle(values)
    distribution = Distribution.of([float(value) for value in values])
    assert (distribution.p25, distribution.p50, distribution.p99) == pytest.approx((25.75, 50.5, 99.01))
    assert distribution.stddev == pytest.approx(29.011, abs=1e-3)
    assert Distribution.of([]) is None
    assert Distribution.of([3.0]).stddev == 0.0


def test_every_metric_is_defined() -> None:
    assert len({metric.tag for metric in ALL_METRICS}) == len(ALL_METRICS)
    for metric in ALL_METRICS:
        assert metric.__doc__ and metric.formula and metric.title and metric.unit and metric.direction


def test_the_page_of_formulas_is_current() -> None:
    written = (ROOT / "docs" / "metrics.md").read_text()
    assert document() in written, "run: python -m specdecode.benchmark.metrics.document docs/metrics.md"
