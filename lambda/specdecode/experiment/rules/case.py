"""What every rule sees and says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import Experiment, ModelRef


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


Finding = tuple[str, str, str]
"""Field, message, fix."""
Rule = Callable[[Case], Iterator[Finding]]
