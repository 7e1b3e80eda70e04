"""The nodes of a run on several of them, as data."""

from __future__ import annotations

from pydantic import Field

from specdecode.analysis.results.parts import Estimate
from specdecode.experiment.model import Frozen


class PartResult(Frozen):
    """Results of one part of a run, on its node."""

    unit: int = Field(ge=0)
    """Number of the part, as in its records."""
    node: str
    """Name of the node. Empty if unknown."""
    variants: tuple[str, ...]
    """The arms that it measured."""
    baseline: str
    """Arm that most parts measured. The nodes are compared by it."""
    tokens_per_second: float | None
    """Tokens per second of the baseline's requests on this node: geometric mean over prompts, the cases with equal
    weight. None if none of them completed."""
    against_others: Estimate | None
    """The baseline's speed here over the mean of the other parts, paired by prompt: above 1 this node is faster. The
    interval covers the measured prompts. None if no other part completed any of these prompts."""

    @property
    def label(self) -> str:
        """`part 2 (ip-10-0-1-7)`."""
        return f"part {self.unit}" + (f" ({self.node})" if self.node else "")
