from specdecode.measures.metric import Block, BlockMetric, Direction, NoValue, Unit, output_tokens


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
