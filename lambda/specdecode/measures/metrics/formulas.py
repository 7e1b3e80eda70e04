"""The formulas: of time, of what speculation did, and of what the server produced."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from specdecode.experiment.base import MOST_DRAFTED
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.workload import Slo
from specdecode.measures.distribution import Often
from specdecode.measures.metrics.metric import (
    Block,
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

SLACK = 1.02
"""Factor above the ceiling up to which a mean is accepted: a server that is late may send two steps in one chunk."""


@metric("Time to first token", Unit.SECONDS, Direction.LOWER, "t(first chunk with text) - t(sent)")
def ttft(request: RequestRecord) -> float:
    """Time from sending a request (open loop: from when it was due) until its first text, reasoning or content."""
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
    """Time from sending a request (open loop: from when it was due) until its answer was complete."""
    return waited_s(request) + request.end_s


@metric(
    "Inter-token latency",
    Unit.SECONDS,
    Direction.LOWER,
    "(t(chunk) - t(chunk before)) / n, counted n times, for each chunk of n tokens after the first",
)
def inter_token_latency(request: RequestRecord) -> list[Often]:
    """Time between one token and the next, one value a token: a chunk of n tokens that came g seconds after the last
    one gives g / n, n times. It needs a server that counts tokens with every chunk.

    The mean over an answer is its time per output token. The percentiles show stalls that the mean hides. LLMPerf's
    metric of this name is another one (docs/reference/metrics.md).
    """
    if len(request.chunks) < 2:
        raise NoValue("the answer came in one chunk")
    latencies: list[Often] = []
    since = request.chunks[0].at_s
    for chunk in request.chunks[1:]:
        if chunk.tokens is None:
            raise NoValue("the server does not count tokens with every chunk")
        if chunk.tokens:
            latencies.append(Often((chunk.at_s - since) / chunk.tokens, chunk.tokens))
            since = chunk.at_s
    return latencies


@metric("Inter-chunk latency", Unit.SECONDS, Direction.NONE, "t(chunk) - t(chunk before)")
def inter_chunk_latency(request: RequestRecord) -> list[Often]:
    """Time between one streamed chunk and the next, however many tokens a chunk holds.

    With speculative decoding a chunk is a step of the engine and holds several tokens. So this time grows while the
    answer gets faster: never compare arms by it.
    """
    if len(request.chunks) < 2:
        raise NoValue("the answer came in one chunk")
    return [Often(after.at_s - before.at_s) for before, after in pairwise(request.chunks)]


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
    """Mean over all steps of the completed requests. Raises NoValue; Impossible if it is more than an engine gives."""
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
    """Tokens in a chunk -> such chunks after each answer's first. Empty if the server counts no tokens by chunk."""
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


@metric("Input tokens", Unit.TOKENS, Direction.NONE, "usage.prompt_tokens")
def input_tokens(request: RequestRecord) -> float:
    """Tokens of the prompt with its chat template, by the server's count."""
    if request.prompt_tokens is None:
        raise NoValue(request.usage_problem or "no token count")
    return request.prompt_tokens


@metric("Output tokens", Unit.TOKENS, Direction.NONE, "usage.completion_tokens")
def output_tokens(request: RequestRecord) -> float:
    """Tokens of the answer, by the server's count. Speed-ups are a fair comparison only if the arms agree in it."""
    return tokens_of(request)


@metric(
    "Output throughput of a request", Unit.TOKENS_PER_SECOND, Direction.HIGHER, "output tokens / end-to-end latency"
)
def request_output_throughput(request: RequestRecord) -> float:
    """Output tokens of a request, divided by its end-to-end latency, which includes the processing of the prompt."""
    latency = end_to_end_latency.value(request)
    if latency <= 0:
        raise NoValue("the answer took no time")
    return tokens_of(request) / latency


@metric(
    "Output throughput of the server",
    Unit.TOKENS_PER_SECOND,
    Direction.HIGHER,
    "sum of output tokens / (last end - first send)",
)
def output_throughput(block: Block) -> float:
    """Output tokens of all completed requests, divided by the duration of the load: what the server produced. An open
    loop has none: its rate says how much a server that keeps up produces.
    """
    return sum(tokens_of(record) for record in block.completed) / _pace_s(block)


@metric(
    "Request throughput", Unit.REQUESTS_PER_SECOND, Direction.HIGHER, "completed requests / (last end - first send)"
)
def request_throughput(block: Block) -> float:
    """Completed requests, divided by the duration of the load. An open loop has none."""
    return len(block.completed) / _pace_s(block)


def _pace_s(block: Block) -> float:
    """Duration of a load that sends as fast as the server answers. Raises NoValue."""
    if block.rate is not None:
        raise NoValue("what is sent at a rate does not depend on the server")
    if not block.completed or block.load_s <= 0:
        raise NoValue("no completed request")
    return block.load_s


@metric(
    "Goodput",
    Unit.REQUESTS_PER_SECOND,
    Direction.HIGHER,
    "completed requests within the SLO / (last end - first send); open loop: / (requests / rate)",
)
def goodput(block: Block) -> float:
    """Requests per second that completed within every limit of the service-level objective. Of an open loop: per second
    of sending, which does not end with the last answer.
    """
    if not block.slo.asked:
        raise NoValue("no service-level objective was given")
    if not block.records or block.load_s <= 0:
        raise NoValue("no request was started")
    return good_requests(block) / (block.sending_s or block.load_s)


def good_requests(block: Block) -> int:
    """Requests that completed within every limit."""
    return sum(_within(record, block.slo) for record in block.completed)


def _within(record: RequestRecord, slo: Slo) -> bool:
    limits = ((slo.ttft_s, ttft), (slo.tpot_s, time_per_output_token), (slo.e2e_s, end_to_end_latency))
    try:
        return all(of.value(record) <= limit for limit, of in limits if limit is not None)
    except NoValue:
        return False


@metric("Error rate", Unit.RATIO, Direction.LOWER, "failed requests / started requests")
def error_rate(block: Block) -> float:
    """Share of the requests that did not complete. All other metrics are about the completed ones."""
    if not block.records:
        raise NoValue("no request was started")
    return 1 - len(block.completed) / len(block.records)


def errors_by_kind(block: Block) -> dict[str, int]:
    """Kind of error -> requests that ended so, most frequent first."""
    return dict(Counter(str(each.error.kind) for each in block.records if each.error is not None).most_common())
