from specdecode.benchmark.metrics.base import Direction, NoValue, RequestMetric, Unit, output_tokens
from specdecode.benchmark.records import RequestRecord


class TimePerOutputToken(RequestMetric):
    """Mean time per output token after the first, one value a request: the pace at which an answer is written.

    By the server's token count, so that a chunk may hold any number of tokens. No value for answers of one token
    and for answers that came in one chunk.
    """

    tag = "time_per_output_token"
    title = "Time per output token"
    unit = Unit.SECONDS
    direction = Direction.LOWER
    formula = "(t(last chunk) - t(first chunk)) / (output tokens - 1)"

    @classmethod
    def value(cls, request: RequestRecord) -> float:
        tokens = output_tokens(request)
        if tokens < 2:
            raise NoValue("fewer than two output tokens")
        if len(request.chunks) < 2:
            raise NoValue("the answer came in one chunk")
        return (request.chunks[-1].at_s - request.chunks[0].at_s) / (tokens - 1)
