"""The per-request metrics that a comparison is made of: the benchmark's own, one value a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from specdecode.analysis.result import MetricInfo
from specdecode.benchmark import metrics as benchmark
from specdecode.benchmark.metrics import Direction, NoValue
from specdecode.benchmark.records import RequestRecord

BETTER: dict[Direction, Literal["lower", "higher", "neither"]] = {
    Direction.LOWER: "lower",
    Direction.HIGHER: "higher",
    Direction.NONE: "neither",
}


class Metric(NamedTuple):
    """A metric and how to get it from a record (None where it has no value there)."""

    info: MetricInfo
    of: Callable[[RequestRecord], float | None]


def _request(metric: type[benchmark.RequestMetric]) -> Metric:
    def value(record: RequestRecord) -> float | None:
        try:
            return metric.value(record)
        except NoValue:
            return None

    return Metric(_info(metric, metric.formula), value)


def _mean(metric: type[benchmark.SampleMetric]) -> Metric:
    def value(record: RequestRecord) -> float | None:
        try:
            values = metric.values(record)
        except NoValue:
            return None
        return sum(values) / len(values) if values else None

    return Metric(_info(metric, f"mean over a request of: {metric.formula}"), value)


def _info(metric: type[benchmark.Metric], formula: str) -> MetricInfo:
    return MetricInfo(
        name=metric.tag,
        label=metric.title,
        unit=str(metric.unit),
        formula=formula,
        better=BETTER[metric.direction],
    )


METRICS: tuple[Metric, ...] = (
    _request(benchmark.RequestOutputThroughput),
    _request(benchmark.TimePerOutputToken),
    _request(benchmark.EndToEndLatency),
    _request(benchmark.TimeToFirstToken),
    _request(benchmark.TokensPerStep),
    _mean(benchmark.InterChunkLatency),
    _request(benchmark.OutputTokens),
    _request(benchmark.InputTokens),
)

SPEEDUPS = ("request_output_throughput", "time_per_output_token", "end_to_end_latency", "ttft", "tokens_per_step")
"""Metrics that are compared between arms, the headline first."""

BY_NAME = {metric.info.name: metric for metric in METRICS}
