from collections import Counter
from collections.abc import Iterable

from specdecode.benchmark.metrics.base import Direction, NoValue, RequestMetric, Unit, output_tokens
from specdecode.benchmark.records import RequestRecord


class TokensPerStep(RequestMetric):
    """Mean tokens per engine step, taking a streamed chunk for a step: 1 without speculation, up to k + 1 with it.

    The first chunk is the prompt's step and is left out. An upper estimate under load: an engine that falls behind
    its own output sends two steps in one chunk.
    """

    tag = "tokens_per_step"
    title = "Tokens per step"
    unit = Unit.TOKENS_PER_STEP
    direction = Direction.HIGHER
    formula = "(output tokens - tokens of the first chunk) / (chunks with text - 1)"

    @classmethod
    def value(cls, request: RequestRecord) -> float:
        if len(request.chunks) < 2:
            raise NoValue("the answer came in one chunk")
        first = request.chunks[0].tokens
        return (output_tokens(request) - (1 if first is None else first)) / (len(request.chunks) - 1)


def histogram(requests: Iterable[RequestRecord]) -> dict[int, int]:
    """Tokens in a chunk -> how many chunks, without the first of each answer; empty where the server does not say."""
    counts = Counter(
        chunk.tokens
        for request in requests
        if request.error is None
        for chunk in request.chunks[1:]
        if chunk.tokens is not None
    )
    return dict(sorted(counts.items()))
