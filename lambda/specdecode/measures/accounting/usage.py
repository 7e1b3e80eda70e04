"""The server's own token counts: the default way, and vLLM's."""

from __future__ import annotations

from specdecode.measures.accounting.base import Figures, Mode
from specdecode.measures.metric import NoValue, RequestMetric, output_tokens
from specdecode.measures.metrics import (
    EndToEndLatency,
    InputTokens,
    OutputTokens,
    RequestOutputThroughput,
    TimePerOutputToken,
    TimeToFirstToken,
)
from specdecode.records import RequestRecord

_DESCRIPTIONS: dict[Mode, str] = {
    "usage": "tokens: the server's usage; inter-token latency: (last chunk - first chunk) / (tokens - tokens of the "
    "first chunk)",
    "vllm": "vLLM's benchmark (vllm bench serve); tokens: the server's usage; inter-token latency: its TPOT, (last "
    "chunk - first chunk) / (tokens - 1)",
}


class UsageAccounting:
    """Both modes. They differ in the tokens of the first chunk: vLLM assumes one."""

    def __init__(self, mode: Mode = "usage") -> None:
        self.mode: Mode = mode
        self.description = _DESCRIPTIONS[mode]

    def figures(self, request: RequestRecord) -> Figures:
        return Figures(
            ttft_s=_value(TimeToFirstToken, request),
            inter_token_latency_s=_value(TimePerOutputToken, request) if self.mode == "usage" else _tpot(request),
            end_to_end_latency_s=_value(EndToEndLatency, request),
            output_throughput=_value(RequestOutputThroughput, request),
            input_tokens=_count(InputTokens, request),
            output_tokens=_count(OutputTokens, request),
        )


def _tpot(request: RequestRecord) -> float | None:
    """`(latency - ttft) / (output_len - 1)` of vllm/benchmarks/serve.py, whose latency ends with the last chunk."""
    try:
        tokens = output_tokens(request)
    except NoValue:
        return None
    if tokens < 2 or not request.chunks:
        return None
    return (request.chunks[-1].at_s - request.chunks[0].at_s) / (tokens - 1)


def _value(metric: type[RequestMetric], request: RequestRecord) -> float | None:
    try:
        return metric.value(request)
    except NoValue:
        return None


def _count(metric: type[RequestMetric], request: RequestRecord) -> int | None:
    value = _value(metric, request)
    return None if value is None else int(value)
