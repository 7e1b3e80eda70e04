from itertools import pairwise

from specdecode.measures.metric import Direction, NoValue, SampleMetric, Unit
from specdecode.records import RequestRecord


class InterChunkLatency(SampleMetric):
    """Time between one streamed chunk and the next, however many tokens a chunk holds.

    With speculative decoding a chunk is a step of the engine and holds several tokens. So this time grows while the
    answer gets faster: never compare arms by it.
    """

    tag = "inter_chunk_latency"
    title = "Inter-chunk latency"
    unit = Unit.SECONDS
    direction = Direction.NONE
    formula = "t(chunk) - t(chunk before)"

    @classmethod
    def values(cls, request: RequestRecord) -> list[float]:
        if len(request.chunks) < 2:
            raise NoValue("the answer came in one chunk")
        return [after.at_s - before.at_s for before, after in pairwise(request.chunks)]
