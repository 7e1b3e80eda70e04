"""The per-request metrics that a comparison is made of, each with unit and formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from specdecode.analysis.result import MetricInfo
from specdecode.benchmark.records import RequestRecord


class Metric(NamedTuple):
    """A metric and how to get it from a record (None where it is not defined)."""

    info: MetricInfo
    of: Callable[[RequestRecord], float | None]


def _ttft(record: RequestRecord) -> float | None:
    return record.chunks[0].at_s if record.chunks else None


def _tpot(record: RequestRecord) -> float | None:
    tokens = record.completion_tokens
    if not record.chunks or tokens is None or tokens < 2:
        return None
    return (record.chunks[-1].at_s - record.chunks[0].at_s) / (tokens - 1)


def _chunk_gap(record: RequestRecord) -> float | None:
    if len(record.chunks) < 2:
        return None
    return (record.chunks[-1].at_s - record.chunks[0].at_s) / (len(record.chunks) - 1)


def _throughput(record: RequestRecord) -> float | None:
    return record.completion_tokens / record.end_s if record.completion_tokens else None


def _tokens_per_step(record: RequestRecord) -> float | None:
    return record.completion_tokens / len(record.chunks) if record.completion_tokens and record.chunks else None


METRICS: tuple[Metric, ...] = (
    Metric(
        MetricInfo(
            name="request_output_throughput",
            label="Output throughput per request",
            unit="tokens/s",
            formula="usage.completion_tokens / end-to-end latency",
            better="higher",
        ),
        _throughput,
    ),
    Metric(
        MetricInfo(
            name="time_per_output_token",
            label="Time per output token (TPOT)",
            unit="s",
            formula="(last chunk - first chunk) / (usage.completion_tokens - 1)",
            better="lower",
        ),
        _tpot,
    ),
    Metric(
        MetricInfo(
            name="end_to_end_latency",
            label="End-to-end latency",
            unit="s",
            formula="last byte - request sent",
            better="lower",
        ),
        lambda record: record.end_s,
    ),
    Metric(
        MetricInfo(
            name="ttft",
            label="Time to first token (TTFT)",
            unit="s",
            formula="first chunk with text - request sent",
            better="lower",
        ),
        _ttft,
    ),
    Metric(
        MetricInfo(
            name="tokens_per_step",
            label="Tokens per step",
            unit="tokens",
            formula="usage.completion_tokens / chunks with text (one chunk = one engine step)",
            better="higher",
        ),
        _tokens_per_step,
    ),
    Metric(
        MetricInfo(
            name="inter_chunk_latency",
            label="Inter-chunk latency",
            unit="s",
            formula="(last chunk - first chunk) / (chunks - 1): the duration of a step, not of a token",
            better="neither",
        ),
        _chunk_gap,
    ),
    Metric(
        MetricInfo(
            name="output_tokens",
            label="Output tokens",
            unit="tokens",
            formula="usage.completion_tokens (the server's count)",
            better="neither",
        ),
        lambda record: float(record.completion_tokens) if record.completion_tokens is not None else None,
    ),
    Metric(
        MetricInfo(
            name="input_tokens",
            label="Input tokens",
            unit="tokens",
            formula="usage.prompt_tokens (the server's count, chat template included)",
            better="neither",
        ),
        lambda record: float(record.prompt_tokens) if record.prompt_tokens is not None else None,
    ),
)

SPEEDUPS = ("request_output_throughput", "time_per_output_token", "end_to_end_latency", "ttft", "tokens_per_step")
"""Metrics that are compared between arms, the headline first."""

BY_NAME = {metric.info.name: metric for metric in METRICS}
