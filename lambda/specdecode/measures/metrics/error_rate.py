from collections import Counter

from specdecode.measures.metric import Block, BlockMetric, Direction, NoValue, Unit


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
