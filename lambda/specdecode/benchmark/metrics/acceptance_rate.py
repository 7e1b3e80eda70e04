from specdecode.benchmark.metrics.base import Block, BlockMetric, Direction, NoValue, Unit
from specdecode.benchmark.metrics.tokens_per_step import TokensPerStep


class AcceptanceRate(BlockMetric):
    """Share of the drafted tokens that the target model accepted (vLLM's acceptance rate, not the per-token
    probability of the theory).

    From the engine's counters where they can be trusted; else estimated from tokens per step and the number of
    drafted tokens a step; `source` says which.
    """

    tag = "acceptance_rate"
    title = "Acceptance rate"
    unit = Unit.RATIO
    direction = Direction.HIGHER
    formula = "accepted / drafted tokens; estimated: (tokens per step - 1) / k"

    @classmethod
    def block_value(cls, block: Block) -> float:
        if block.drafted_tokens and block.accepted_tokens is not None:
            return block.accepted_tokens / block.drafted_tokens
        if block.speculative_tokens is None:
            raise NoValue("no trusted counters, and k is not known")
        steps = sum(len(record.chunks) - 1 for record in block.completed)
        if steps < 1:
            raise NoValue("no answer of more than one chunk")
        weighted = sum(TokensPerStep.value(r) * (len(r.chunks) - 1) for r in block.completed if len(r.chunks) > 1)
        return (weighted / steps - 1) / block.speculative_tokens

    @classmethod
    def source(cls, block: Block) -> str:
        """`counters` or `estimated`."""
        return "counters" if block.drafted_tokens and block.accepted_tokens is not None else "estimated"
