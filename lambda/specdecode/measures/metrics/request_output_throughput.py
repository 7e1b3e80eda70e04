from specdecode.measures.metric import Direction, NoValue, RequestMetric, Unit, output_tokens
from specdecode.measures.metrics.end_to_end_latency import EndToEndLatency
from specdecode.records import RequestRecord


class RequestOutputThroughput(RequestMetric):
    """Output tokens of a request, divided by its end-to-end latency, which includes the processing of the prompt."""

    tag = "request_output_throughput"
    title = "Output throughput of a request"
    unit = Unit.TOKENS_PER_SECOND
    direction = Direction.HIGHER
    formula = "output tokens / end-to-end latency"

    @classmethod
    def value(cls, request: RequestRecord) -> float:
        latency = EndToEndLatency.value(request)
        if latency <= 0:
            raise NoValue("the answer took no time")
        return output_tokens(request) / latency
