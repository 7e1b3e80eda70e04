from specdecode.measures.metric import Direction, NoValue, SampleMetric, Unit
from specdecode.records import RequestRecord


class InterTokenLatency(SampleMetric):
    """Time between one token and the next, one value a token: a chunk of n tokens that came g seconds after the last
    one gives n values of g / n. It needs a server that counts tokens with every chunk.

    The mean over an answer is its time per output token. The percentiles show stalls that the mean hides. LLMPerf's
    metric of this name is another one (docs/reference/metrics.md).
    """

    tag = "inter_token_latency"
    title = "Inter-token latency"
    unit = Unit.SECONDS
    direction = Direction.LOWER
    formula = "(t(chunk) - t(chunk before)) / n, counted n times, for each chunk of n tokens after the first"

    @classmethod
    def values(cls, request: RequestRecord) -> list[float]:
        if len(request.chunks) < 2:
            raise NoValue("the answer came in one chunk")
        latencies: list[float] = []
        since = request.chunks[0].at_s
        for chunk in request.chunks[1:]:
            if chunk.tokens is None:
                raise NoValue("the server does not count tokens with every chunk")
            if chunk.tokens:
                latencies += [(chunk.at_s - since) / chunk.tokens] * chunk.tokens
                since = chunk.at_s
        return latencies
