"""The registry of the metrics. A function of the modules here has its formula, unit and direction."""

from typing import Any

from specdecode.measures.metrics import latency, steps, throughput
from specdecode.measures.metrics.metric import BlockMetric, Metric, RequestMetric, SampleMetric

REQUEST_METRICS: tuple[RequestMetric, ...] = (
    latency.ttft,
    latency.time_per_output_token,
    latency.end_to_end_latency,
    throughput.request_output_throughput,
    throughput.input_tokens,
    throughput.output_tokens,
    steps.tokens_per_step,
    steps.acceptance_length,
)
SAMPLE_METRICS: tuple[SampleMetric, ...] = (latency.inter_token_latency, latency.inter_chunk_latency)
BLOCK_METRICS: tuple[BlockMetric, ...] = (
    throughput.output_throughput,
    throughput.request_throughput,
    steps.acceptance_rate,
    throughput.goodput,
    throughput.error_rate,
)
ALL_METRICS: tuple[Metric[Any, Any], ...] = (*REQUEST_METRICS, *SAMPLE_METRICS, *BLOCK_METRICS)
