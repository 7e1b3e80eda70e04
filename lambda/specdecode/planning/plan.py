"""The plan of a run: the data that exists, the data to make, the steps in order, the time and the cost."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeVar

from pydantic import ConfigDict

from specdecode import s3_keys
from specdecode.experiment.base import Frozen
from specdecode.experiment.capacity import Capacity
from specdecode.experiment.effective import on_node_of
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import AnyExperiment, ServedExperiment
from specdecode.experiment.sizing import arms_at_once
from specdecode.experiment.variants import ModelRef
from specdecode.experiment.workload import Level
from specdecode.planning.artifacts import Inventory, groups, taken, to_check
from specdecode.planning.events import choose_looks, longest_node_minutes, worst_case_events
from specdecode.planning.ranges import Range
from specdecode.planning.timeline import LoadTime, Step, Timeline, make_timeline
from specdecode.planning.warnings import (
    check_backstop,
    check_history,
    check_precision,
    check_times,
    check_window,
    doubts,
)
from specdecode.planning.waves import Arm, SweepStep, Wave, make_course, most_steps

Key = TypeVar("Key")


class PlannedModel(Frozen):
    """Weights that the run needs in the bucket."""

    model: ModelRef
    prefix: str
    staged: bool
    content: str | None = None
    """Hash of the folder in the bucket. None if it is not there, and in plans of earlier versions."""


class PlannedArtifact(Frozen):
    """A compiled artifact that the run needs in the bucket."""

    fingerprint: str
    prefix: str
    arm: Arm
    """The first arm that serves it. The compile Job is made from this arm."""
    compiled: bool
    content: str | None = None
    """As that of a model."""


class SweepPlan(Frozen):
    """The progress of an adaptive sweep, and its limit."""

    steps: tuple[SweepStep, ...]
    most_steps: int
    waves_to_come: int
    """Waves beyond those planned, if every step is taken."""
    compiles_to_come: int
    """Compiles beyond those of the planned waves, if every step is taken."""

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms of the steps so far, in order; one that is measured again appears again."""
        return tuple(step.arm for step in self.steps if step.arm is not None)

    @property
    def is_over(self) -> bool:
        return bool(self.steps) and self.steps[-1].arm is None


class CostPart(Frozen):
    """The part of a run for one group of cases (the public sample, a set of prompts)."""

    group: str
    cases: int
    requests: int
    """Measured requests of one arm in one round."""
    node_hours: Range
    """Node hours of all arms and rounds."""


class LevelCost(Frozen):
    """The part of a run for one load."""

    level: Level
    requests: int
    """Measured requests of one arm in one round."""
    node_hours: Range
    """Node hours of all cases, arms and rounds."""


class Plan(Frozen):
    """Everything that is known about a run before it costs anything. Manifests are functions of the plan."""

    model_config = ConfigDict(extra="ignore")  # plans of earlier versions had other fields

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
    """Arms that start once with a tiny model before any compile: one of each kind that is new to this bucket."""
    timeline: Timeline = Timeline()
    """Empty in plans of earlier versions."""
    poll_seconds: int
    """How long the state machine waits between two looks."""
    attentive_seconds: int
    """The same, while work on the node is expected to end."""
    worst_case_events: int
    node_hours: Range
    more_rounds: Range = Range()
    """Node hours, of `node_hours`, that the rounds after the first take."""
    price_per_node_hour: float
    cost: Range
    """US dollars for the node."""
    parts: tuple[CostPart, ...] = ()
    """Node hours of each group of cases. The rest is starting, compiling, loading and stopping."""
    levels: tuple[LevelCost, ...] = ()
    """Node hours of each load."""
    warnings: tuple[str, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.timeline.steps

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


def make_plan(
    experiment: AnyExperiment,
    engine: Engine,
    *,
    inventory: Inventory,
    capacity: Capacity | None = None,
    now: datetime | None = None,
    sweep: tuple[SweepStep, ...] = (),
) -> Plan:
    """The plan of `experiment` given what lies in the bucket. Pure, but for the clock if `now` is not given. `engine`
    has the sizes of the experiment's node (`engine_of`). `sweep`: the steps of an adaptive sweep so far; without them
    it begins with an arm that costs most. Raises ExperimentError if nobody knows what the node costs.
    """
    given = capacity or Capacity()
    if isinstance(experiment, ServedExperiment):
        experiment = on_node_of(given, experiment, engine)
    terms, size = given.of(experiment.node), arms_at_once(experiment, engine)
    price = terms.price() if experiment.holds_node else 0
    found = taken(experiment, engine, inventory)
    course = make_course(experiment, found, size=size, steps=sweep)
    checks = to_check(experiment, engine, inventory.prefixes)
    missing = {item.fingerprint for item in found.values() if item.is_missing}
    checking = len(groups(checks, size=size))
    timeline = make_timeline(experiment, engine, course.waves, missing=missing, checks=checking, certain=course.certain)
    attentive_s, poll_s = choose_looks(timeline.steps)
    events = worst_case_events(timeline.steps, poll_s=poll_s, attentive_s=attentive_s)
    longest = longest_node_minutes(timeline.steps, poll_s=poll_s)
    hours, once = timeline.node_hours(), timeline.node_hours(rounds=experiment.rounds)
    loads = timeline.loads if timeline.holds_node else ()
    waves = course.waves[: course.planned]
    first: dict[str, Arm] = {}
    for arm in (arm for wave in waves for arm in wave.served if engine.artifact):
        first.setdefault(arm.fingerprint, arm)
    artifacts = tuple(
        PlannedArtifact(
            fingerprint=made,
            prefix=(prefix := s3_keys.compiled_prefix(made)),
            arm=arm,
            compiled=made not in missing,
            content=inventory.contents.get(prefix),
        )
        for made, arm in first.items()
    )
    sweep_plan = SweepPlan(
        steps=course.steps,
        most_steps=most_steps(experiment),
        waves_to_come=len(course.waves) - course.planned,
        compiles_to_come=len({arm.missing for arm in timeline.to_compile} - first.keys()),
    )
    return Plan(
        experiment=experiment,
        engine=engine,
        waves=waves,
        sweep=sweep_plan if course.steps else None,
        models=tuple(
            PlannedModel(
                model=model,
                prefix=model.prefix,
                staged=inventory.has(model.prefix),
                content=inventory.contents.get(model.prefix),
            )
            for model in experiment.staged
        ),
        artifacts=artifacts,
        start_checks=checks,
        timeline=timeline,
        poll_seconds=poll_s,
        attentive_seconds=attentive_s,
        worst_case_events=events,
        node_hours=hours,
        more_rounds=hours - once,
        price_per_node_hour=price,
        cost=hours.scaled(price),
        parts=tuple(
            CostPart(group=group, cases=cases, requests=requests, node_hours=each)
            for group, cases, requests, each in _by(lambda load: load.group, loads)
        ),
        levels=tuple(
            LevelCost(level=level, requests=requests, node_hours=each)
            for level, _, requests, each in _by(lambda load: load.level, loads)
        ),
        warnings=(
            *doubts(experiment, engine),
            *check_times(timeline, experiment.deadlines),
            *check_history(events),
            *check_precision(experiment, course.waves),
            *check_backstop(longest, hours, terms),
            *check_window(hours, terms, now=now or datetime.now(UTC)),
        ),
    )


def _by(key: Callable[[LoadTime], Key], loads: Sequence[LoadTime]) -> Iterator[tuple[Key, int, int, Range]]:
    """Key, cases, requests and node hours of the loads that have it, in the experiment's order."""
    for name in dict.fromkeys(map(key, loads)):
        own = [load for load in loads if key(load) == name]
        hours = sum((load.takes for load in own), Range()).scaled(1 / 60)
        yield name, own[0].cases, sum(load.requests for load in own), hours
