"""The nodes of a run on several of them, as data."""

from __future__ import annotations

from pydantic import Field

from specdecode.analysis.results.parts import Estimate
from specdecode.experiment.model import Frozen


class PartResult(Frozen):
    """What one part of a run did, on its node."""

    unit: int = Field(ge=0)
    """Its number, as of its records."""
    node: str
    """Name of the node; empty where unknown."""
    variants: tuple[str, ...]
    """The arms that it measured."""
    baseline: str
    """The arm that most parts measured, by which nodes are told apart."""
    tokens_per_second: float | None
    """Of a request of the baseline, here: geometric mean over prompts, the cases with equal weight. None where nothing
    of it completed."""
    against_others: Estimate | None
    """The same over the mean of the other parts, paired by prompt: above 1 this node is faster. Its interval is of the
    measured prompts. None where no other part completed any of them."""

    @property
    def label(self) -> str:
        """`part 2 (ip-10-0-1-7)`."""
        return f"part {self.unit}" + (f" ({self.node})" if self.node else "")
