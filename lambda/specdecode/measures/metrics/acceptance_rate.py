from specdecode.measures.metric import Block, BlockMetric, Direction, NoValue, Unit
from specdecode.measures.metrics.tokens_per_step import mean_tokens_per_step


class AcceptanceRate(BlockMetric):
    """Share of the verified draft tokens that the target model accepted (vLLM's acceptance rate, not the per-token
    probability of the theory).

    It comes from the engine's counters if they can be trusted, else from the answers' own counts. Else it is estimated
    from tokens per step and the number of drafts that a step verifies: k, or k - 1 on an engine that yields at most k
    tokens a step. The report says which.
    """

    tag = "acceptance_rate"
    title = "Draft acceptance rate"
    unit = Unit.RATIO
    direction = Direction.HIGHER
    formula = "accepted / drafted tokens; estimated: (tokens per step - 1) / verified drafts a step"

    @classmethod
    def block_value(cls, block: Block) -> float:
        if block.drafted_tokens and block.accepted_tokens is not None:
            return block.accepted_tokens / block.drafted_tokens
        if not block.k:
            raise NoValue("no trusted counters, and k is not known" if block.k is None else "the arm drafts nothing")
        if not block.verified:
            raise NoValue("the arm drafts one token a step, and its engine verifies k - 1")
        rate = (mean_tokens_per_step(block) - 1) / block.verified
        if rate < 0:
            raise NoValue("fewer tokens than chunks came: a chunk is no step of this engine")
        return rate
