"""The registry of the metrics. A function of the modules here has its formula, unit and direction."""

from typing import Any

from specdecode.measures.metrics import formulas
from specdecode.measures.metrics.metric import BlockMetric, Metric, RequestMetric, SampleMetric

REQUEST_METRICS: tuple[RequestMetric, ...] = (
    formulas.ttft,
    formulas.time_per_output_token,
    formulas.end_to_end_latency,
    formulas.request_output_throughput,
    formulas.input_tokens,
    formulas.output_tokens,
    formulas.tokens_per_step,
    formulas.acceptance_length,
)
SAMPLE_METRICS: tuple[SampleMetric, ...] = (formulas.inter_token_latency, formulas.inter_chunk_latency)
BLOCK_METRICS: tuple[BlockMetric, ...] = (
    formulas.output_throughput,
    formulas.request_throughput,
    formulas.acceptance_rate,
    formulas.goodput,
    formulas.error_rate,
)
ALL_METRICS: tuple[Metric[Any, Any], ...] = (*REQUEST_METRICS, *SAMPLE_METRICS, *BLOCK_METRICS)
