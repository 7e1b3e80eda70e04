from specdecode.experiment.slo import Slo
from specdecode.measures.metric import Block, BlockMetric, Direction, NoValue, Unit
from specdecode.measures.metrics.end_to_end_latency import EndToEndLatency
from specdecode.measures.metrics.time_per_output_token import TimePerOutputToken
from specdecode.measures.metrics.ttft import TimeToFirstToken
from specdecode.records import RequestRecord


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
