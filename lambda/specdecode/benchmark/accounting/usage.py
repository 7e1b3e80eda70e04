"""The default: the server's own token counts, and times that do not depend on how tokens are packed into chunks."""

from __future__ import annotations

from specdecode.benchmark.accounting.base import Figures, Mode
from specdecode.benchmark.metrics import (
    EndToEndLatency,
    InputTokens,
    NoValue,
    OutputTokens,
    RequestMetric,
    RequestOutputThroughput,
    TimePerOutputToken,
    TimeToFirstToken,
)
from specdecode.benchmark.records import RequestRecord


class UsageAccounting:
    """Inter-token latency is the time per output token: (t(last chunk) - t(first chunk)) / (usage tokens - 1)."""

    mode: Mode = "usage"
    description = "tokens: the server's usage; inter-token latency: (last chunk - first chunk) / (tokens - 1)"

    def figures(self, request: RequestRecord) -> Figures:
        return Figures(
            ttft_s=_value(TimeToFirstToken, request),
            inter_token_latency_s=_value(TimePerOutputToken, request),
            end_to_end_latency_s=_value(EndToEndLatency, request),
            output_throughput=_value(RequestOutputThroughput, request),
            input_tokens=_count(InputTokens, request),
            output_tokens=_count(OutputTokens, request),
        )


def _value(metric: type[RequestMetric], request: RequestRecord) -> float | None:
    try:
        return metric.value(request)
    except NoValue:
        return None


def _count(metric: type[RequestMetric], request: RequestRecord) -> int | None:
    value = _value(metric, request)
    return None if value is None else int(value)
