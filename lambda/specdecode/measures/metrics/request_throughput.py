from specdecode.measures.metric import Block, BlockMetric, Direction, NoValue, Unit


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
