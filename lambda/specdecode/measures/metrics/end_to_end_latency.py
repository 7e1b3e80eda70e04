from specdecode.measures.metric import Direction, RequestMetric, Unit, waited_s
from specdecode.records import RequestRecord


class EndToEndLatency(RequestMetric):
    """Time from sending a request until its answer was complete. With an open loop it starts when
    the request was due.
    """

    tag = "end_to_end_latency"
    title = "End-to-end latency"
    unit = Unit.SECONDS
    direction = Direction.LOWER
    formula = "t(end of the answer) - t(sent)"

    @classmethod
    def value(cls, request: RequestRecord) -> float:
        return waited_s(request) + request.end_s
