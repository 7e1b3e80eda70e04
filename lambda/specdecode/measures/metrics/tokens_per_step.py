from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from specdecode.experiment.model import MOST_DRAFTED
from specdecode.experiment.most_tokens import MostTokens
from specdecode.measures.metric import (
    Block,
    Direction,
    Impossible,
    NoValue,
    RequestMetric,
    Unit,
    first_chunk_tokens,
    output_tokens,
)
from specdecode.records import RequestRecord

SLACK = 1.02
"""A mean is accepted up to this factor above the ceiling: a server that falls behind now and then sends two steps in
one chunk."""


def most_tokens_per_step(k: int | None, most: MostTokens) -> float:
    """Every verified draft accepted, and the target's own token. Of an unknown k, the largest that can be asked for.

    Leviathan, Kalman, Matias 2023 (arXiv 2211.17192, section 2.1): a step that verifies n drafts yields 1 to n + 1
    tokens; 1 without drafts. `most`: whether the engine verifies k or k - 1 of them.
    """
    return (MOST_DRAFTED if k is None else most.verified(k)) + 1.0


class TokensPerStep(RequestMetric):
    """Mean tokens per engine step, if each streamed chunk is a step: 1 without speculation, up to k + 1 with it (up to
    k on an engine that verifies k - 1 of k drafts). The first chunk is the prompt's step and is left out.

    Under load it is an upper estimate: an engine that falls behind its own output sends two steps in one chunk. If the
    mean of an arm in a case is above what its engine can give, it has no value.
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
        tokens = output_tokens(request)
        return (tokens - first_chunk_tokens(request, tokens)) / (len(request.chunks) - 1)


def mean_tokens_per_step(block: Block) -> float:
    """Mean over all steps of the completed requests. Raises NoValue, and Impossible if it is above what the arm's
    engine can give.
    """
    tokens = steps = 0.0
    for record in block.completed:
        if len(record.chunks) > 1:
            steps += len(record.chunks) - 1
            tokens += TokensPerStep.value(record) * (len(record.chunks) - 1)
    if not steps:
        raise NoValue("no answer of more than one chunk")
    ceiling = most_tokens_per_step(block.k, block.most)
    if tokens / steps > ceiling * SLACK:
        raise Impossible(
            f"{tokens / steps:.2f} tokens a chunk came, but an arm that {_drafts(block)} gives {ceiling:g} a step at "
            "most: something between server and client merges chunks (a proxy?), or its k is another one"
        )
    return tokens / steps


def _drafts(block: Block) -> str:
    if block.k is None:
        return f"drafts {MOST_DRAFTED} tokens a step, the most there is,"
    if not block.k:
        return "does not speculate"
    verified = "" if block.verified == block.k else f" and verifies {block.verified} of them"
    return f"drafts {block.k} tokens a step{verified}"


def histogram(requests: Iterable[RequestRecord]) -> dict[int, int]:
    """Tokens in a chunk -> number of such chunks, without the first chunk of each answer. Empty if the server does not
    count tokens by chunk.
    """
    counts = Counter(
        chunk.tokens
        for request in requests
        if request.error is None
        for chunk in request.chunks[1:]
        if chunk.tokens is not None
    )
    return dict(sorted(counts.items()))
