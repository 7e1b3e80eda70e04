"""The plan of a run: what is there, what is missing, in which order it is done, how long it takes, what it costs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

from specdecode import layout
from specdecode.experiment.capacity import TERMS, Capacity, CapacityType
from specdecode.experiment.compiling import CompileOn
from specdecode.experiment.engine import Engine
from specdecode.experiment.errors import ExperimentError, Problem
from specdecode.experiment.loading import load_engine
from specdecode.experiment.model import Experiment, Frozen, ModelRef, Sweep
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
    check_alike,
    check_backstop,
    check_benchmark,
    check_endpoints,
    check_families,
    check_forced,
    check_history,
    check_levels,
    check_monitor,
    check_revisions,
    check_start,
    check_support,
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


class Plan(Frozen):
    """Everything that is known before the first dollar is spent. Manifests are functions of it."""

    schema_version: Literal[1] = 1
    experiment: Experiment
    engine: Engine
    waves: tuple[Wave, ...]
    """Of an adaptive sweep those of the steps so far; all that is estimated below counts the steps to come."""
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
    engine = (engine or load_engine(experiment.engine)).on_node(experiment.node, experiment.serving.devices)
    given, capacity = capacity or Capacity(), (capacity or Capacity()).of(experiment.node)
    price = 0.0 if experiment.has_endpoints else capacity.price_per_node_hour
    if price is None:
        raise ExperimentError([_unpriced(experiment, capacity)])
    if experiment.sweep is Sweep.ADAPTIVE:
        sweep = sweep or first_steps(experiment)
        waves, fewest, most = (
            sweep_waves(experiment, engine, longest(experiment, sweep, limit=limit)) for limit in (0, FEW_STEPS, None)
        )
    else:
        waves = fewest = most = ahead(experiment, engine, make_waves(experiment, engine), inventory)
    models = {model.prefix: model for variant in experiment.variants for model in experiment.models_of(variant)}
    if experiment.has_endpoints:
        models = {}
    first_arms: dict[str, Arm] = {}
    makes = bool(engine.artifact) and not experiment.has_endpoints
    for arm in (arm for wave in waves if makes for arm in wave.arms):
        first_arms.setdefault(arm.fingerprint, arm)
    artifacts = tuple(
        PlannedArtifact(
            fingerprint=arm.fingerprint,
            prefix=layout.compiled_prefix(arm.fingerprint),
            arm=arm,
            compiled=inventory.has(layout.compiled_prefix(arm.fingerprint)),
        )
        for arm in first_arms.values()
    )
    missing = frozenset(
        arm.fingerprint
        for wave in most
        for arm in wave.arms
        if makes and not inventory.has(layout.compiled_prefix(arm.fingerprint))
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
        models=tuple(PlannedModel(model=m, prefix=p, staged=inventory.has(p)) for p, m in models.items()),
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
            experiment,
            engine,
            first_missing.values(),
            capacity=capacity,
            price=price,
            late_min=late_minutes(looks.poll_s),
        ),
        parts=() if experiment.has_endpoints else parts(experiment, engine, most),
        levels=() if experiment.has_endpoints else levels(experiment, engine, most),
        assumptions=ENDPOINTS_ASSUMED
        if experiment.has_endpoints
        else _assumptions(experiment, engine, capacity, given),
        warnings=(
            *check_support(experiment, engine),
            *check_families(experiment, engine),
            *check_alike(experiment, engine),
            *check_forced(experiment, engine),
            *check_revisions(models.values()),
            *check_monitor(experiment),
            *check_history(events),
            *check_room(experiment, engine),
            *check_claim(experiment, engine),
            *check_precision(experiment, most),
            *check_start(experiment, engine, most, here),
            *check_ahead(experiment, engine, [name for made, name in first_missing.items() if made in beforehand]),
            *check_levels(experiment),
            *check_requests(experiment, None if experiment.has_endpoints else engine),
            *check_benchmark(experiment, engine, arms=max(len(wave.arms) for wave in most)),
            *check_backstop(longest_node_minutes(steps, poll_s=looks.poll_s), hours, capacity),
            *check_window(hours, capacity, now=now or datetime.now(UTC)),
            *check_endpoints(experiment),
        ),
    )


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
