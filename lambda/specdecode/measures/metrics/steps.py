"""What speculation did: tokens per step of the engine, and how many drafts were accepted."""

from collections import Counter
from collections.abc import Iterable

from specdecode.experiment.base import MOST_DRAFTED
from specdecode.experiment.most_tokens import MostTokens
from specdecode.measures.metrics.metric import (
    Block,
    Direction,
    Impossible,
    NoValue,
    Unit,
    first_chunk_tokens,
    metric,
    tokens_of,
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


@metric(
    "Tokens per step",
    Unit.TOKENS_PER_STEP,
    Direction.HIGHER,
    "(output tokens - tokens of the first chunk) / (chunks with text - 1)",
)
def tokens_per_step(request: RequestRecord) -> float:
    """Mean tokens per engine step, if each streamed chunk is a step: 1 without speculation, up to k + 1 with it (up to
    k on an engine that verifies k - 1 of k drafts). The first chunk is the prompt's step and is left out.

    Under load it is an upper estimate: an engine that falls behind its own output sends two steps in one chunk. If the
    mean of an arm in a case is above what its engine can give, it has no value.
    """
    if len(request.chunks) < 2:
        raise NoValue("the answer came in one chunk")
    tokens = tokens_of(request)
    return (tokens - first_chunk_tokens(request, tokens)) / (len(request.chunks) - 1)


def mean_tokens_per_step(block: Block) -> float:
    """Mean over all steps of the completed requests. Raises NoValue, and Impossible if it is above what the arm's
    engine can give.
    """
    tokens = steps = 0.0
    for record in block.completed:
        if len(record.chunks) > 1:
            steps += len(record.chunks) - 1
            tokens += tokens_per_step.value(record) * (len(record.chunks) - 1)
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


@metric("Acceptance length", Unit.TOKENS_PER_STEP, Direction.HIGHER, "1 + accepted tokens / drafts")
def acceptance_length(request: RequestRecord) -> float:
    """Mean tokens of an answer's steps that had drafts to verify: the accepted drafts and the target model's own token.

    The server gives it for each answer (vLLM's `mean_acceptance_length`, `--per-request-spec-decode-metrics`). It is at
    most k + 1. On an engine that verifies k - 1 of k drafts it is at most k, and is taken from tokens per step.
    """
    if request.drafted is None:
        raise NoValue("the server does not say how the drafts of an answer fared")
    if not request.drafted.drafts:
        raise NoValue("nothing was drafted")
    return 1 + request.drafted.accepted_tokens / request.drafted.drafts


@metric(
    "Draft acceptance rate",
    Unit.RATIO,
    Direction.HIGHER,
    "accepted / drafted tokens; estimated: (tokens per step - 1) / verified drafts a step",
)
def acceptance_rate(block: Block) -> float:
    """Share of the verified draft tokens that the target model accepted (vLLM's acceptance rate, not the per-token
    probability of the theory).

    It comes from the engine's counters if they can be trusted, else from the answers' own counts. Else it is estimated
    from tokens per step and the number of drafts that a step verifies: k, or k - 1 on an engine that yields at most k
    tokens a step. The report says which.
    """
    if block.drafted and block.drafted.draft_tokens:
        return block.drafted.accepted_tokens / block.drafted.draft_tokens
    if not block.k:
        raise NoValue("no trusted counters, and k is not known" if block.k is None else "the arm drafts nothing")
    if not block.verified:
        raise NoValue("the arm drafts one token a step, and its engine verifies k - 1")
    rate = (mean_tokens_per_step(block) - 1) / block.verified
    if rate < 0:
        raise NoValue("fewer tokens than chunks came: a chunk is no step of this engine")
    return rate
