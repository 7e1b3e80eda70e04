"""What the server produced: the metrics of amounts, rates and failures."""

from collections import Counter

from specdecode.experiment.workload import Slo
from specdecode.measures.metrics.latency import EndToEndLatency, TimePerOutputToken, TimeToFirstToken
from specdecode.measures.metrics.metric import (
    Block,
    BlockMetric,
    Direction,
    NoValue,
    RequestMetric,
    Unit,
    output_tokens,
)
from specdecode.records import RequestRecord


class InputTokens(RequestMetric):
    """Tokens of the prompt with its chat template, by the server's count."""

    tag = "input_tokens"
    title = "Input tokens"
    unit = Unit.TOKENS
    direction = Direction.NONE
    formula = "usage.prompt_tokens"

    @classmethod
    def value(cls, request: RequestRecord) -> float:
        if request.prompt_tokens is None:
            raise NoValue(request.usage_problem or "no token count")
        return request.prompt_tokens


class OutputTokens(RequestMetric):
    """Tokens of the answer, by the server's count. Speed-ups are a fair comparison only if the arms agree in it."""

    tag = "output_tokens"
    title = "Output tokens"
    unit = Unit.TOKENS
    direction = Direction.NONE
    formula = "usage.completion_tokens"

    @classmethod
    def value(cls, request: RequestRecord) -> float:
        return output_tokens(request)


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


class OutputThroughput(BlockMetric):
    """Output tokens of all completed requests, divided by the duration of the load: what the server produced."""

    tag = "output_throughput"
    title = "Output throughput of the server"
    unit = Unit.TOKENS_PER_SECOND
    direction = Direction.HIGHER
    formula = "sum of output tokens / (last end - first send)"

    @classmethod
    def block_value(cls, block: Block) -> float:
        if not block.completed or block.load_s <= 0:
            raise NoValue("no completed request")
        return sum(output_tokens(record) for record in block.completed) / block.load_s


class RequestThroughput(BlockMetric):
    """Completed requests, divided by the duration of the load."""

    tag = "request_throughput"
    title = "Request throughput"
    unit = Unit.REQUESTS_PER_SECOND
    direction = Direction.HIGHER
    formula = "completed requests / (last end - first send)"

    @classmethod
    def block_value(cls, block: Block) -> float:
        if not block.completed or block.load_s <= 0:
            raise NoValue("no completed request")
        return len(block.completed) / block.load_s


class Goodput(BlockMetric):
    """Requests per second that completed within every limit of the service-level objective."""

    tag = "goodput"
    title = "Goodput"
    unit = Unit.REQUESTS_PER_SECOND
    direction = Direction.HIGHER
    formula = "completed requests within the SLO / (last end - first send)"

    @classmethod
    def block_value(cls, block: Block) -> float:
        if not block.slo.asked:
            raise NoValue("no service-level objective was given")
        if not block.records or block.load_s <= 0:
            raise NoValue("no request was started")
        return good_requests(block) / block.load_s


def good_requests(block: Block) -> int:
    """Requests that completed within every limit."""
    return sum(_within(record, block.slo) for record in block.completed)


def _within(record: RequestRecord, slo: Slo) -> bool:
    limits = (
        (slo.ttft_s, TimeToFirstToken),
        (slo.tpot_s, TimePerOutputToken),
        (slo.e2e_s, EndToEndLatency),
    )
    try:
        return all(metric.value(record) <= limit for limit, metric in limits if limit is not None)
    except NoValue:
        return False


class ErrorRate(BlockMetric):
    """Share of the requests that did not complete. All other metrics are about the completed ones."""

    tag = "error_rate"
    title = "Error rate"
    unit = Unit.RATIO
    direction = Direction.LOWER
    formula = "failed requests / started requests"

    @classmethod
    def block_value(cls, block: Block) -> float:
        if not block.records:
            raise NoValue("no request was started")
        return 1 - len(block.completed) / len(block.records)

    @classmethod
    def by_kind(cls, block: Block) -> dict[str, int]:
        """Kind of error -> requests that ended so, most frequent first."""
        kinds = Counter(str(record.error.kind) for record in block.records if record.error is not None)
        return dict(kinds.most_common())
