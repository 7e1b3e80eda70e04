"""What each arm carries at the service-level objective, as data."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from specdecode.experiment.model import Frozen
from specdecode.experiment.workload import Level
from specdecode.measures.distribution import Count


class GoodAtLoad(Frozen):
    """One arm at one load, all its cases together. A request that failed is not good."""

    level: Level
    requests: int = Field(ge=1)
    good: Count
    """Requests that completed within every limit."""
    goodput: float | None
    """Good requests / seconds of load."""
    enough: bool = True
    """False if an open loop ended long after the last request was sent (SENT_OVER). Such a load does not count as
    kept."""
    doubtful: bool = False
    """The load generator fell behind, so that the times behind `good` are partly its own."""

    @property
    def share(self) -> float:
        """Of all requests."""
        return self.good / self.requests


class Objective(Frozen):
    """Which loads one arm carries within the objective."""

    variant: str
    loads: tuple[GoodAtLoad, ...] = Field(min_length=1)
    """The smallest first."""
    keeps: Level | None
    """Largest measured load up to which every load is shown to keep the objective. None: not even the smallest is."""

    @model_validator(mode="after")
    def _of_its_loads(self) -> Self:
        if self.keeps is not None and self.keeps not in [each.level for each in self.loads]:
            raise ValueError(f"{self.variant} keeps a load that it has no figures of: {self.keeps}")
        return self
