"""The metrics: one a file. The class has its formula, unit and direction."""

from specdecode.measures.metric import (
    Block,
    BlockMetric,
    Direction,
    Metric,
    NoValue,
    RequestMetric,
    SampleMetric,
    Unit,
)
from specdecode.measures.metrics.acceptance_length import AcceptanceLength
from specdecode.measures.metrics.acceptance_rate import AcceptanceRate
from specdecode.measures.metrics.end_to_end_latency import EndToEndLatency
from specdecode.measures.metrics.error_rate import ErrorRate
from specdecode.measures.metrics.goodput import Goodput
from specdecode.measures.metrics.inter_chunk_latency import InterChunkLatency
from specdecode.measures.metrics.inter_token_latency import InterTokenLatency
from specdecode.measures.metrics.output_throughput import OutputThroughput
from specdecode.measures.metrics.request_output_throughput import RequestOutputThroughput
from specdecode.measures.metrics.request_throughput import RequestThroughput
from specdecode.measures.metrics.time_per_output_token import TimePerOutputToken
from specdecode.measures.metrics.token_counts import InputTokens, OutputTokens
from specdecode.measures.metrics.tokens_per_step import TokensPerStep
from specdecode.measures.metrics.ttft import TimeToFirstToken

REQUEST_METRICS: tuple[type[RequestMetric], ...] = (
    TimeToFirstToken,
    TimePerOutputToken,
    EndToEndLatency,
    RequestOutputThroughput,
    InputTokens,
    OutputTokens,
    TokensPerStep,
    AcceptanceLength,
)
SAMPLE_METRICS: tuple[type[SampleMetric], ...] = (InterTokenLatency, InterChunkLatency)
BLOCK_METRICS: tuple[type[BlockMetric], ...] = (
    OutputThroughput,
    RequestThroughput,
    AcceptanceRate,
    Goodput,
    ErrorRate,
)
ALL_METRICS: tuple[type[Metric], ...] = (*REQUEST_METRICS, *SAMPLE_METRICS, *BLOCK_METRICS)

__all__ = [
    "ALL_METRICS",
    "BLOCK_METRICS",
    "REQUEST_METRICS",
    "SAMPLE_METRICS",
    "AcceptanceLength",
    "AcceptanceRate",
    "Block",
    "BlockMetric",
    "Direction",
    "EndToEndLatency",
    "ErrorRate",
    "Goodput",
    "InputTokens",
    "InterChunkLatency",
    "InterTokenLatency",
    "Metric",
    "NoValue",
    "OutputThroughput",
    "OutputTokens",
    "RequestMetric",
    "RequestOutputThroughput",
    "RequestThroughput",
    "SampleMetric",
    "TimePerOutputToken",
    "TimeToFirstToken",
    "TokensPerStep",
    "Unit",
]
