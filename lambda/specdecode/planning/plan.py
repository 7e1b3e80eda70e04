"""The plan of a run: what is there, what is missing, in which order it is done, how long it takes, what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal

from specdecode import s3_keys
from specdecode.experiment.capacity import TERMS, Capacity, CapacityType
from specdecode.experiment.compiling import CompileOn
from specdecode.experiment.engine import Engine
from specdecode.experiment.errors import ExperimentError, Problem
from specdecode.experiment.loading import load_engine
from specdecode.experiment.model import (
    AnyExperiment,
    EndpointExperiment,
    Experiment,
    Frozen,
    ModelRef,
    ServedExperiment,
    Sweep,
)
from specdecode.experiment.shapes import COMPILERS
from specdecode.planning.compiling import CompileCost, ahead, ahead_fingerprints, compile_cost
from specdecode.planning.cost import CostPart, LevelCost, Range, levels, node_minutes, parts
from specdecode.planning.events import (
    Step,
    choose_looks,
    late_minutes,
    longest_node_minutes,
    make_steps,
    worst_case_events,
)
from specdecode.planning.few import check_requests
from specdecode.planning.inventory import Inventory
from specdecode.planning.room import check_claim, check_precision, check_room
from specdecode.planning.sweep import (
    FEW_STEPS,
    SweepPlan,
    SweepStep,
    first_steps,
    longest,
    most_steps,
    sweep_waves,
)
from specdecode.planning.warnings import (
    check_ahead,
    check_backstop,
    check_benchmark,
    check_endpoints,
    check_history,
    check_monitor,
    check_revisions,
    check_served,
    check_start,
    check_window,
)
from specdecode.planning.waves import Arm, Wave, make_waves


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
    """The first arm that serves it: what its compile Job is made from."""
    compiled: bool


class PlannedUnit(Frozen):
    """What one node of several measures, as a run of its own."""

    arms: tuple[str, ...]
    """Without the baselines that it measures beside them."""
    waves: int
    apart: tuple[str, ...] = ()
    """Those that are never on the node together with the arm that they are compared with."""
    node_hours: Range
    longest_node_hours: float
    """If every step lasts until its deadline."""
    most: float
    """US dollars for that, and for what CPU nodes compile for it."""


class Plan(Frozen):
    """Everything that is known before the first dollar is spent. Manifests are functions of it."""

    schema_version: Literal[1] = 1
    experiment: AnyExperiment
    engine: Engine
    waves: tuple[Wave, ...]
    """Of an adaptive sweep those of the steps so far; all that is estimated below counts the steps to come. None of a
    run on several nodes: its units have them."""
    units: tuple[PlannedUnit, ...] = ()
    """Of a run on several nodes."""
    sweep: SweepPlan | None = None
    """Of an adaptive sweep."""
    models: tuple[PlannedModel, ...]
    artifacts: tuple[PlannedArtifact, ...]
    """Empty if the engine compiles nothing."""
    steps: tuple[Step, ...]
    poll_seconds: int
    """How long the state machine waits between two looks."""
    attentive_seconds: int
    """The same while the end of work on the node is expected."""
    worst_case_events: int
    node_hours: Range
    more_rounds: Range = Range(low=0, high=0)
    """Node hours, of `node_hours`, that the rounds after the first take."""
    price_per_node_hour: float
    cost: Range
    """US dollars for the node."""
    compiling: CompileCost | None = None
    """Of what is missing, on either node; None where nothing is, or the engine compiles on the node alone."""
    parts: tuple[CostPart, ...] = ()
    """What the groups of cases take of it; the rest is starting, compiling, loading and stopping."""
    levels: tuple[LevelCost, ...] = ()
    """The same by load."""
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def served(self) -> ServedExperiment:
        """The experiment, for what is done to arms that are served here; TypeError of servers that already run."""
        if not isinstance(self.experiment, ServedExperiment):
            raise TypeError(f"{self.experiment.name}: its arms are servers that already run")
        return self.experiment

    @property
    def is_shared(self) -> bool:
        """Whether several nodes share the arms."""
        return self.experiment.nodes > 1

    @property
    def models_to_stage(self) -> tuple[ModelRef, ...]:
        """Weights that are missing in the bucket."""
        return tuple(item.model for item in self.models if not item.staged)

    @property
    def compiles_to_do(self) -> tuple[Arm, ...]:
        """One arm for each artifact that is missing in the bucket."""
        return tuple(item.arm for item in self.artifacts if not item.compiled)


def make_plan(
    experiment: Experiment,
    *,
    inventory: Inventory,
    engine: Engine | None = None,
    capacity: Capacity | None = None,
    now: datetime | None = None,
    sweep: tuple[SweepStep, ...] = (),
) -> Plan:
    """The plan of `experiment` given what lies in the bucket. Pure, but for the clock where `now` is not given.

    `sweep`: the steps of an adaptive sweep so far; without them it begins with the first arm. Raises ExperimentError
    where nobody knows what the node costs.
    """
    engine = (engine or load_engine(experiment.images_of)).on_node(experiment.node, experiment.devices)
    served = experiment if isinstance(experiment, ServedExperiment) else None
    given, capacity = capacity or Capacity(), (capacity or Capacity()).of(experiment.node)
    price = capacity.price_per_node_hour if served else 0.0
    if price is None:
        raise ExperimentError([_unpriced(experiment, capacity)])
    if experiment.sweep is Sweep.ADAPTIVE:
        sweep = sweep or first_steps(experiment)
        waves, fewest, most = (
            sweep_waves(experiment, engine, longest(experiment, sweep, limit=limit)) for limit in (0, FEW_STEPS, None)
        )
    else:
        waves = fewest = most = ahead(experiment, engine, make_waves(experiment, engine), inventory)
    first_arms: dict[str, Arm] = {}
    makes = bool(engine.artifact and served)
    for arm in (arm for wave in waves if makes for arm in wave.arms):
        first_arms.setdefault(arm.fingerprint, arm)
    artifacts = tuple(
        PlannedArtifact(
            fingerprint=arm.fingerprint,
            prefix=s3_keys.compiled_prefix(arm.fingerprint),
            arm=arm,
            compiled=inventory.has(s3_keys.compiled_prefix(arm.fingerprint)),
        )
        for arm in first_arms.values()
    )
    missing = frozenset(
        arm.fingerprint
        for wave in most
        for arm in wave.arms
        if makes and not inventory.has(s3_keys.compiled_prefix(arm.fingerprint))
    )
    beforehand = ahead_fingerprints(most)
    steps = make_steps(experiment, engine, most, missing)
    looks = choose_looks(steps)
    events = worst_case_events(steps, poll_s=looks.poll_s, attentive_s=looks.attentive_s)
    here = missing - beforehand
    hours = _node_hours(experiment, engine, (fewest, most), here)
    one_round = _node_hours(experiment, engine, (_first_rounds(experiment, w) for w in (fewest, most)), here)
    first_missing = {arm.fingerprint: arm.variant for wave in most for arm in wave.arms if arm.fingerprint in missing}
    return Plan(
        experiment=experiment,
        engine=engine,
        waves=waves,
        sweep=SweepPlan(
            steps=sweep,
            most_steps=most_steps(experiment),
            waves_to_come=len(most) - len(waves),
            compiles_to_come=len(missing - first_arms.keys()),
        )
        if experiment.sweep is Sweep.ADAPTIVE
        else None,
        models=tuple(PlannedModel(model=m, prefix=m.prefix, staged=inventory.has(m.prefix)) for m in experiment.staged),
        artifacts=artifacts,
        steps=steps,
        poll_seconds=looks.poll_s,
        attentive_seconds=looks.attentive_s,
        worst_case_events=events,
        node_hours=hours,
        more_rounds=Range(low=hours.low - one_round.low, high=hours.high - one_round.high),
        price_per_node_hour=price,
        cost=hours.scaled(price),
        compiling=compile_cost(
            served,
            engine,
            first_missing.values(),
            capacity=capacity,
            price=price,
            late_min=late_minutes(looks.poll_s),
        )
        if served
        else None,
        parts=parts(experiment, engine, most) if served else (),
        levels=levels(experiment, engine, most) if served else (),
        assumptions=_assumptions(experiment, engine, capacity, given) if served else ENDPOINTS_ASSUMED,
        warnings=(
            *(check_served(served, engine) if served else ()),
            *check_revisions(experiment.staged),
            *(_doubts_of_serving(served, engine, most, here, first_missing) if served else ()),
            *check_history(events),
            *check_precision(experiment, most),
            *check_requests(experiment, engine),
            *check_backstop(longest_node_minutes(steps, poll_s=looks.poll_s), hours, capacity),
            *check_window(hours, capacity, now=now or datetime.now(UTC)),
            *(check_endpoints(experiment) if isinstance(experiment, EndpointExperiment) else ()),
        ),
    )


def _doubts_of_serving(
    experiment: ServedExperiment,
    engine: Engine,
    waves: tuple[Wave, ...],
    compiles: frozenset[str],
    missing: Mapping[str, str],
) -> list[str]:
    """Whether the arms fit and are ready and measured in time. `compiles`: the missing fingerprints that the node
    compiles; `missing`: all of them, each with its first arm.
    """
    beforehand = ahead_fingerprints(waves)
    return [
        *check_monitor(experiment),
        *check_room(experiment, engine),
        *check_claim(experiment, engine),
        *check_start(experiment, engine, waves, compiles),
        *check_ahead(experiment, engine, [name for made, name in missing.items() if made in beforehand]),
        *check_benchmark(experiment, engine, arms=max(len(wave.arms) for wave in waves)),
    ]


def _node_hours(
    experiment: Experiment, engine: Engine, waves: Iterable[tuple[Wave, ...]], missing: frozenset[str]
) -> Range:
    """`waves`: the fewest and the most that the run may take."""
    fewest, most = (node_minutes(experiment, engine, item, missing) for item in waves)
    return Range(low=fewest.low, high=most.high).scaled(1 / 60)


def _first_rounds(experiment: Experiment, waves: tuple[Wave, ...]) -> tuple[Wave, ...]:
    """The waves without those that repeat what a wave before them measures (of a sweep: in the same step)."""
    if experiment.rounds == 1:
        return waves
    return tuple(wave for wave in waves if wave.round % experiment.rounds == 0)


ENDPOINTS_ASSUMED = (
    "the arms are servers that already run: no node is held for them, and what they cost is not known here",
)


NODE_TERMS: dict[CapacityType, str] = {
    "on-demand": "billed from its start to its end",
    "odcr": "billed from the reservation's making to its cancelling, whether a run uses it or not",
    "capacity-block": "paid for in advance, from the block's start to its end",
}


def _unpriced(experiment: Experiment, capacity: Capacity) -> Problem:
    return Problem(
        field="node",
        rule="node-price",
        message=f"AWS publishes no price of a {experiment.node} in {capacity.region} that is known here",
        fix="say what you pay for an hour: `specdecode plan --price`, in a deployment `-c price_per_node_hour=…`",
        source=experiment.shape.source,
    )


def _priced(experiment: Experiment, capacity: Capacity, given: Capacity) -> str:
    """Where the price of the node comes from."""
    published = experiment.shape.price_in(capacity.region)
    if given.price_per_node_hour is not None and given.node in (None, experiment.node):
        return "as you gave it" + ("" if published else ": AWS publishes none")
    seen = f"seen {published.seen}" if published and published.seen else "from public notes"
    return f"AWS's list price, {seen}"


def _assumptions(experiment: Experiment, engine: Engine, capacity: Capacity, given: Capacity) -> tuple[str, ...]:
    estimates = engine.estimates
    compiling = (
        f"compile {estimates.compile_minutes[0]:g}-{estimates.compile_minutes[1]:g} min and "
        f"{estimates.compile_minutes_per_gib[0]:g}-{estimates.compile_minutes_per_gib[1]:g} min for each GiB, "
        + (f"up to {COMPILERS} at a time on CPU nodes" if experiment.compile.on is CompileOn.CPU else "one at a time")
    )
    return (
        f"one {experiment.node} {TERMS[capacity.type]} at ${capacity.price_per_node_hour:.2f} an hour "
        f"({_priced(experiment, capacity, given)}), {NODE_TERMS[capacity.type]}",
        f"node start 5-15 min and release 3-10 min; {compiling if engine.artifact else 'nothing is compiled'}",
        f"{estimates.seconds_per_output_token[0] * 1000:g}-{estimates.seconds_per_output_token[1] * 1000:g} ms for "
        "each output token, whatever the speculation",
        f"source of the figures: {estimates.source}",
    )
