"""What every rule sees and says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import EndpointExperiment, Experiment, ModelRef, ServedExperiment


@dataclass(frozen=True)
class Case:
    """What a rule looks at."""

    experiment: Experiment
    engine: Engine
    capacity: Capacity

    def targets(self) -> Iterator[tuple[str, ModelRef]]:
        """Field and weights of every target."""
        yield "target", self.experiment.target
        for variant in self.experiment.variants:
            if variant.target:
                yield f"variants.{variant.name}.target", variant.target


@dataclass(frozen=True)
class ServedCase(Case):
    """What a rule of arms that are served here looks at."""

    experiment: ServedExperiment


@dataclass(frozen=True)
class EndpointCase(Case):
    """What a rule of servers that already run looks at."""

    experiment: EndpointExperiment


Finding = tuple[str, str, str]
"""Field, message, fix."""
