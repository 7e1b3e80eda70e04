from specdecode.measures.metric import Direction, NoValue, RequestMetric, Unit, waited_s
from specdecode.records import RequestRecord


class TimeToFirstToken(RequestMetric):
    """Time from sending a request until its first text, content or reasoning, arrived. With an open loop it starts when
    the request was due.
    """

    tag = "ttft"
    title = "Time to first token"
    unit = Unit.SECONDS
    direction = Direction.LOWER
    formula = "t(first chunk with text) - t(sent)"

    @classmethod
    def value(cls, request: RequestRecord) -> float:
        if not request.chunks:
            raise NoValue("no text came")
        return waited_s(request) + request.chunks[0].at_s
