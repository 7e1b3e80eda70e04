"""What the server produced: the metrics of amounts, rates and failures."""

from collections import Counter

from specdecode.experiment.workload import Slo
from specdecode.measures.metrics.latency import end_to_end_latency, time_per_output_token, ttft
from specdecode.measures.metrics.metric import Block, Direction, NoValue, Unit, metric, tokens_of
from specdecode.records import RequestRecord


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
    """Output tokens of all completed requests, divided by the duration of the load: what the server produced."""
    if not block.completed or block.load_s <= 0:
        raise NoValue("no completed request")
    return sum(tokens_of(record) for record in block.completed) / block.load_s


@metric(
    "Request throughput", Unit.REQUESTS_PER_SECOND, Direction.HIGHER, "completed requests / (last end - first send)"
)
def request_throughput(block: Block) -> float:
    """Completed requests, divided by the duration of the load."""
    if not block.completed or block.load_s <= 0:
        raise NoValue("no completed request")
    return len(block.completed) / block.load_s


@metric(
    "Goodput", Unit.REQUESTS_PER_SECOND, Direction.HIGHER, "completed requests within the SLO / (last end - first send)"
)
def goodput(block: Block) -> float:
    """Requests per second that completed within every limit of the service-level objective."""
    if not block.slo.asked:
        raise NoValue("no service-level objective was given")
    if not block.records or block.load_s <= 0:
        raise NoValue("no request was started")
    return good_requests(block) / block.load_s


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
