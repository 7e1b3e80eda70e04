"""The input and the output of every rule."""

from collections.abc import Iterator
from dataclasses import dataclass

from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import EndpointExperiment, Experiment, ServedExperiment
from specdecode.experiment.variants import ModelRef


@dataclass(frozen=True)
class Case:
    """Input of a rule."""

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
    """Input of a rule about arms that the run serves."""

    experiment: ServedExperiment


@dataclass(frozen=True)
class EndpointCase(Case):
    """Input of a rule about servers that already run."""

    experiment: EndpointExperiment


Finding = tuple[str, str, str]
"""Field, message, fix."""
