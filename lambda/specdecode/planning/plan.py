"""The plan of a run: the data that exists, the data to make, the steps in order, the time and the cost."""

from __future__ import annotations

from typing import Literal

from specdecode import s3_keys
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import AnyExperiment, Frozen, ModelRef, ServedExperiment
from specdecode.planning.compiling import CompileCost
from specdecode.planning.cost import CostPart, LevelCost, Range
from specdecode.planning.inventory import Inventory
from specdecode.planning.states import Step
from specdecode.planning.sweep import SweepPlan
from specdecode.planning.waves import Arm, Wave


class PlannedModel(Frozen):
    """Weights that the run needs in the bucket."""

    model: ModelRef
    prefix: str
    staged: bool


class PlannedArtifact(Frozen):
    """A compiled artifact that the run needs in the bucket."""

    fingerprint: str
    prefix: str
    arm: Arm
    """The first arm that serves it. The compile Job is made from this arm."""
    compiled: bool


class Plan(Frozen):
    """Everything that is known about a run before it costs anything. Manifests are functions of the plan."""

    schema_version: Literal[1] = 1
    experiment: AnyExperiment
    engine: Engine
    waves: tuple[Wave, ...]
    """For an adaptive sweep: the waves of the steps so far; the estimates below count the steps to come too."""
    sweep: SweepPlan | None = None
    """Set for an adaptive sweep; else None."""
    models: tuple[PlannedModel, ...]
    artifacts: tuple[PlannedArtifact, ...]
    """Empty if the engine compiles nothing."""
    start_checks: tuple[str, ...] = ()
    """Arms whose engine starts once with a tiny model before anything is compiled: one of each kind that was never
    served from this bucket."""
    steps: tuple[Step, ...]
    poll_seconds: int
    """How long the state machine waits between two looks."""
    attentive_seconds: int
    """The same, while work on the node is expected to end."""
    worst_case_events: int
    node_hours: Range
    more_rounds: Range = Range(low=0, high=0)
    """Node hours, of `node_hours`, that the rounds after the first take."""
    price_per_node_hour: float
    cost: Range
    """US dollars for the node."""
    compiling: CompileCost | None = None
    """Compile cost of the missing artifacts, on either kind of node. None if nothing is missing, or if the engine
    cannot compile on CPU nodes."""
    parts: tuple[CostPart, ...] = ()
    """Node hours of each group of cases. The rest is starting, compiling, loading and stopping."""
    levels: tuple[LevelCost, ...] = ()
    """Node hours of each load."""
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def served(self) -> ServedExperiment:
        """The experiment, if the run serves its arms. Raises TypeError if they are servers that already run."""
        if not isinstance(self.experiment, ServedExperiment):
            raise TypeError(f"{self.experiment.name}: its arms are servers that already run")
        return self.experiment

    @property
    def models_to_stage(self) -> tuple[ModelRef, ...]:
        """Weights that are missing in the bucket."""
        return tuple(item.model for item in self.models if not item.staged)

    @property
    def compiles_to_do(self) -> tuple[Arm, ...]:
        """One arm for each artifact that is missing in the bucket."""
        return tuple(item.arm for item in self.artifacts if not item.compiled)


def artifacts_of(engine: Engine, waves: tuple[Wave, ...], inventory: Inventory) -> tuple[PlannedArtifact, ...]:
    """The artifacts of `waves`, each once, with its first arm. Empty if the engine compiles nothing."""
    first: dict[str, Arm] = {}
    for arm in (arm for wave in waves if engine.artifact for arm in wave.arms):
        first.setdefault(arm.fingerprint, arm)
    return tuple(
        PlannedArtifact(
            fingerprint=arm.fingerprint,
            prefix=s3_keys.compiled_prefix(arm.fingerprint),
            arm=arm,
            compiled=inventory.has(s3_keys.compiled_prefix(arm.fingerprint)),
        )
        for arm in first.values()
    )


def missing_artifacts(engine: Engine, waves: tuple[Wave, ...], inventory: Inventory) -> dict[str, str]:
    """Fingerprints of the artifacts that are not in the bucket, each with one of its arms."""
    return {
        arm.fingerprint: arm.variant
        for wave in waves
        for arm in wave.arms
        if engine.artifact and not inventory.has(s3_keys.compiled_prefix(arm.fingerprint))
    }
