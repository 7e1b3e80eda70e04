from specdecode.measures.metric import (
    Direction,
    Impossible,
    NoValue,
    RequestMetric,
    Unit,
    first_chunk_tokens,
    output_tokens,
)
from specdecode.records import RequestRecord

SHORTEST_GAP_S = 2e-4
"""Least mean time between two chunks, in seconds. Below it the chunks are no steps of an engine: the text was complete
before and came in one go. The fastest service that is independently measured gives 2,522 tokens/s to one user, 0.4 ms a
token (Artificial Analysis, May 2025: Llama 4 Maverick on Cerebras); a step of a tiny model on a CPU takes 2 ms
(benchmarks/results)."""


class TimePerOutputToken(RequestMetric):
    """Mean time per output token after the first chunk, one value a request: the pace at which an answer is written.

    It uses the server's token count, so that any chunk, the first one too, may hold any number of tokens. It has no
    value for an answer that came in one chunk, and none if chunks came less than 0.2 ms apart on average (something
    between server and client buffers the stream).
    """

    tag = "time_per_output_token"
    title = "Time per output token"
    unit = Unit.SECONDS
    direction = Direction.LOWER
    formula = "(t(last chunk) - t(first chunk)) / (output tokens - tokens of the first chunk)"

    @classmethod
    def value(cls, request: RequestRecord) -> float:
        tokens = output_tokens(request)
        if tokens < 2:
            raise NoValue("fewer than two output tokens")
        if len(request.chunks) < 2:
            raise NoValue("the answer came in one chunk")
        later = tokens - first_chunk_tokens(request, tokens)
        if later < 1:
            raise NoValue("the first chunk held the whole answer")
        written_s = request.chunks[-1].at_s - request.chunks[0].at_s
        if written_s < SHORTEST_GAP_S * (len(request.chunks) - 1):
            raise Impossible(
                f"{len(request.chunks)} chunks came within {written_s * 1e6:.0f} µs: something between server and "
                "client buffers the stream (a proxy?), so that no time per token can be told"
            )
        return written_s / later
