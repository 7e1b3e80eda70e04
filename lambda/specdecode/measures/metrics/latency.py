"""How long an answer takes: the metrics of time."""

from itertools import pairwise

from specdecode.measures.metrics.metric import (
    Direction,
    Impossible,
    NoValue,
    Unit,
    first_chunk_tokens,
    metric,
    tokens_of,
    waited_s,
)
from specdecode.measures.plausibility import read_late, too_near
from specdecode.records import RequestRecord


@metric("Time to first token", Unit.SECONDS, Direction.LOWER, "t(first chunk with text) - t(sent)")
def ttft(request: RequestRecord) -> float:
    """Time from sending a request until its first text, content or reasoning, arrived. With an open loop it starts when
    the request was due.
    """
    if not request.chunks:
        raise NoValue("no text came")
    return waited_s(request) + request.chunks[0].at_s


@metric(
    "Time per output token",
    Unit.SECONDS,
    Direction.LOWER,
    "(t(last chunk) - t(first chunk)) / (output tokens - tokens of the first chunk)",
)
def time_per_output_token(request: RequestRecord) -> float:
    """Mean time per output token after the first chunk, one value a request: the pace at which an answer is written.

    It uses the server's token count, so that any chunk, the first one too, may hold any number of tokens. It has no
    value for an answer that came in one chunk, and none if chunks came less than 0.2 ms apart on average (this client
    read them late, or something between server and client buffers the stream).
    """
    tokens = tokens_of(request)
    if tokens < 2:
        raise NoValue("fewer than two output tokens")
    if len(request.chunks) < 2:
        raise NoValue("the answer came in one chunk")
    later = tokens - first_chunk_tokens(request, tokens)
    if later < 1:
        raise NoValue("the first chunk held the whole answer")
    written_s = request.chunks[-1].at_s - request.chunks[0].at_s
    if read_late(request):
        raise NoValue("this client was late and read several chunks at once")
    if too_near(request):
        raise Impossible(
            f"{len(request.chunks)} chunks came within {written_s * 1e6:.0f} µs: something between server and "
            "client buffers the stream (a proxy?), so that no time per token can be told"
        )
    return written_s / later


@metric("End-to-end latency", Unit.SECONDS, Direction.LOWER, "t(end of the answer) - t(sent)")
def end_to_end_latency(request: RequestRecord) -> float:
    """Time from sending a request until its answer was complete. With an open loop it starts when
    the request was due.
    """
    return waited_s(request) + request.end_s


@metric(
    "Inter-token latency",
    Unit.SECONDS,
    Direction.LOWER,
    "(t(chunk) - t(chunk before)) / n, counted n times, for each chunk of n tokens after the first",
)
def inter_token_latency(request: RequestRecord) -> list[float]:
    """Time between one token and the next, one value a token: a chunk of n tokens that came g seconds after the last
    one gives n values of g / n. It needs a server that counts tokens with every chunk.

    The mean over an answer is its time per output token. The percentiles show stalls that the mean hides. LLMPerf's
    metric of this name is another one (docs/reference/metrics.md).
    """
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


@metric("Inter-chunk latency", Unit.SECONDS, Direction.NONE, "t(chunk) - t(chunk before)")
def inter_chunk_latency(request: RequestRecord) -> list[float]:
    """Time between one streamed chunk and the next, however many tokens a chunk holds.

    With speculative decoding a chunk is a step of the engine and holds several tokens. So this time grows while the
    answer gets faster: never compare arms by it.
    """
    if len(request.chunks) < 2:
        raise NoValue("the answer came in one chunk")
    return [after.at_s - before.at_s for before, after in pairwise(request.chunks)]
