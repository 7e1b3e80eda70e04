"""The registry of the metrics. A class of the modules here has its formula, unit and direction."""

from specdecode.measures.metrics.latency import (
    EndToEndLatency,
    InterChunkLatency,
    InterTokenLatency,
    TimePerOutputToken,
    TimeToFirstToken,
)
from specdecode.measures.metrics.metric import BlockMetric, Metric, RequestMetric, SampleMetric
from specdecode.measures.metrics.steps import AcceptanceLength, AcceptanceRate, TokensPerStep
from specdecode.measures.metrics.throughput import (
    ErrorRate,
    Goodput,
    InputTokens,
    OutputThroughput,
    OutputTokens,
    RequestOutputThroughput,
    RequestThroughput,
)

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
