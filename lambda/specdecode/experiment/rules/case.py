"""The input and the output of every rule."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import EndpointExperiment, Experiment, ServedExperiment
from specdecode.experiment.variants import ModelRef, ServedVariant, Speculation

Finding = tuple[str, str, str]
"""Field, message, fix."""


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

    def given(self, name: str) -> Iterator[tuple[str, Any]]:
        """Field and value of a setting that both have, as `env`: of the serving, and of each variant."""
        yield f"serving.{name}", getattr(self.experiment.serving, name)
        for variant in self.experiment.variants:
            yield f"variants.{variant.name}.{name}", getattr(variant, name)

    def speculating(self) -> Iterator[tuple[str, ServedVariant, Speculation]]:
        """Field of the speculation, arm and speculation of each arm that speculates."""
        for variant in self.experiment.variants:
            if variant.speculation:
                yield f"variants.{variant.name}.speculation", variant, variant.speculation


@dataclass(frozen=True)
class EndpointCase(Case):
    """Input of a rule about servers that already run."""

    experiment: EndpointExperiment
