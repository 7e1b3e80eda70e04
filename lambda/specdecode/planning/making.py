"""From an experiment and what lies in the bucket to the plan of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from datetime import UTC, datetime
from typing import NamedTuple

from specdecode.experiment import affinity
from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Engine
from specdecode.experiment.files import load_engine
from specdecode.experiment.model import AnyExperiment, EndpointExperiment, ServedExperiment, Sweep
from specdecode.experiment.problems import ExperimentError
from specdecode.planning.assumptions import ENDPOINTS_ASSUMED, assumptions, unpriced
from specdecode.planning.compiling import ahead, ahead_fingerprints, compile_cost
from specdecode.planning.cost import Range, levels, node_minutes, parts, total
from specdecode.planning.events import choose_looks, late_minutes, longest_node_minutes, worst_case_events
from specdecode.planning.few import check_bursts, check_requests
from specdecode.planning.inventory import Inventory, compiled_arms
from specdecode.planning.plan import Plan, PlannedModel, artifacts_of, missing_artifacts
from specdecode.planning.room import check_claim, check_precision, check_room
from specdecode.planning.start_check import expected_minutes, groups, to_check
from specdecode.planning.states import endpoint_steps, make_steps
from specdecode.planning.sweep import FEW_STEPS, SweepPlan, SweepStep, first_step, longest, most_steps, sweep_waves
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
from specdecode.planning.waves import Wave, endpoint_waves, make_waves


class Course(NamedTuple):
    """The waves of a run, and how many may follow."""

    waves: tuple[Wave, ...]
    """The planned waves. For an adaptive sweep: the waves of its steps so far."""
    fewest: tuple[Wave, ...]
    """The planned waves and the fewest that may follow."""
    most: tuple[Wave, ...]
    """The planned waves and the most that may follow."""
    sweep: tuple[SweepStep, ...] = ()
    """Set for an adaptive sweep: its steps so far."""


def make_plan(
    experiment: AnyExperiment,
    *,
    inventory: Inventory,
    engine: Engine | None = None,
    capacity: Capacity | None = None,
    now: datetime | None = None,
    sweep: tuple[SweepStep, ...] = (),
) -> Plan:
    """The plan of `experiment` given what lies in the bucket. Pure, but for the clock if `now` is not given.

    `sweep`: the steps of an adaptive sweep so far; without them it begins with an arm that costs most.
    Raises ExperimentError if nobody knows what the node costs.
    """
    engine = (engine or load_engine(experiment.images_of)).on_node(experiment.node, experiment.devices)
    if isinstance(experiment, ServedExperiment):
        experiment = affinity.on_node_of(capacity or Capacity(), experiment, engine)
        course = _grid(experiment, engine, inventory)
        if experiment.sweep is Sweep.ADAPTIVE:
            course = _adaptive(experiment, engine, sweep, inventory)
        return _served(
            experiment, engine, course, inventory=inventory, given=capacity or Capacity(), now=now or datetime.now(UTC)
        )
    return _endpoints(experiment, engine)


def _grid(experiment: ServedExperiment, engine: Engine, inventory: Inventory) -> Course:
    waves = ahead(experiment, engine, make_waves(experiment, engine), inventory)
    return Course(waves, waves, waves)


def _adaptive(
    experiment: ServedExperiment, engine: Engine, steps: tuple[SweepStep, ...], inventory: Inventory
) -> Course:
    made = compiled_arms(experiment, engine, inventory)
    steps = steps or (first_step(experiment, last=made),)
    waves, fewest, most = (
        sweep_waves(experiment, engine, longest(experiment, steps, limit=limit, last=made))
        for limit in (0, FEW_STEPS, most_steps(experiment))
    )
    return Course(waves, fewest, most, steps)


def _served(
    experiment: ServedExperiment,
    engine: Engine,
    course: Course,
    *,
    inventory: Inventory,
    given: Capacity,
    now: datetime,
) -> Plan:
    """The plan of a run that serves its arms on the node. `given`: the terms of the deployment."""
    capacity = given.of(experiment.node)
    price = capacity.price_per_node_hour
    if price is None:
        raise ExperimentError([unpriced(experiment, capacity)])
    artifacts = artifacts_of(engine, course.waves, inventory)
    missing = missing_artifacts(engine, course.most, inventory)
    here = missing.keys() - ahead_fingerprints(course.most)
    checks = to_check(experiment, engine, inventory.prefixes)
    steps = make_steps(experiment, engine, course.most, frozenset(missing), checks)
    looks = choose_looks(steps)
    events = worst_case_events(steps, poll_s=looks.poll_s, attentive_s=looks.attentive_s)
    checking = expected_minutes(engine).scaled(len(groups(experiment, engine, checks)) / 60)
    measuring = _node_hours(experiment, engine, course, here)
    hours = total((checking, measuring))
    one_round = _node_hours(experiment, engine, _first_rounds(experiment, course), here)
    return Plan(
        experiment=experiment,
        engine=engine,
        waves=course.waves,
        sweep=_sweep_plan(experiment, course, to_compile=missing.keys() - {item.fingerprint for item in artifacts}),
        models=tuple(
            PlannedModel(model=model, prefix=model.prefix, staged=inventory.has(model.prefix))
            for model in experiment.staged
        ),
        artifacts=artifacts,
        start_checks=checks,
        steps=steps,
        poll_seconds=looks.poll_s,
        attentive_seconds=looks.attentive_s,
        worst_case_events=events,
        node_hours=hours,
        more_rounds=Range(low=measuring.low - one_round.low, high=measuring.high - one_round.high),
        price_per_node_hour=price,
        cost=hours.scaled(price),
        compiling=compile_cost(
            experiment,
            engine,
            missing.values(),
            capacity=capacity,
            price=price,
            late_min=late_minutes(looks.poll_s),
        ),
        parts=parts(experiment, engine, course.most),
        levels=levels(experiment, engine, course.most),
        assumptions=assumptions(experiment, engine, capacity, given),
        warnings=(
            *check_served(experiment, engine),
            *check_revisions(experiment.staged),
            *_doubts_of_serving(experiment, engine, course.most, here, missing),
            *check_history(events),
            *check_precision(experiment, course.most),
            *check_requests(experiment),
            *check_bursts(experiment, engine),
            *check_backstop(longest_node_minutes(steps, poll_s=looks.poll_s), hours, capacity),
            *check_window(hours, capacity, now=now),
        ),
    )


def _endpoints(experiment: EndpointExperiment, engine: Engine) -> Plan:
    """The plan of a run whose arms are servers that already run: it holds no node, and it stages and compiles nothing.

    `engine`: the one whose images the pods of the benchmark use.
    """
    waves = endpoint_waves(experiment)
    steps = endpoint_steps(experiment, engine, waves)
    looks = choose_looks(steps)
    events = worst_case_events(steps, poll_s=looks.poll_s, attentive_s=looks.attentive_s)
    return Plan(
        experiment=experiment,
        engine=engine,
        waves=waves,
        models=(),
        artifacts=(),
        steps=steps,
        poll_seconds=looks.poll_s,
        attentive_seconds=looks.attentive_s,
        worst_case_events=events,
        node_hours=Range(low=0, high=0),
        price_per_node_hour=0,
        cost=Range(low=0, high=0),
        assumptions=ENDPOINTS_ASSUMED,
        warnings=(
            *check_history(events),
            *check_precision(experiment, waves),
            *check_requests(experiment),
            *check_endpoints(experiment),
        ),
    )


def _sweep_plan(experiment: ServedExperiment, course: Course, *, to_compile: Collection[str]) -> SweepPlan | None:
    """`to_compile`: missing artifacts of the steps to come. None if the sweep is not adaptive."""
    if experiment.sweep is not Sweep.ADAPTIVE:
        return None
    return SweepPlan(
        steps=course.sweep,
        most_steps=most_steps(experiment),
        waves_to_come=len(course.most) - len(course.waves),
        compiles_to_come=len(to_compile),
    )


def _doubts_of_serving(
    experiment: ServedExperiment,
    engine: Engine,
    waves: tuple[Wave, ...],
    compiles: Set[str],
    missing: Mapping[str, str],
) -> list[str]:
    """Warnings if the arms may not fit, or may not be ready or measured in time. `compiles`: the missing fingerprints
    that the node compiles; `missing`: all of them, each with its first arm.
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


def _node_hours(experiment: ServedExperiment, engine: Engine, course: Course, missing: Set[str]) -> Range:
    """`missing`: fingerprints that the node compiles."""
    fewest, most = (node_minutes(experiment, engine, waves, missing) for waves in (course.fewest, course.most))
    return Range(low=fewest.low, high=most.high).scaled(1 / 60)


def _first_rounds(experiment: ServedExperiment, course: Course) -> Course:
    """The waves without those that repeat what a wave before them measures (of a sweep: in the same step)."""
    if experiment.rounds == 1:
        return course
    waves, fewest, most = (
        tuple(wave for wave in waves if wave.round % experiment.rounds == 0)
        for waves in (course.waves, course.fewest, course.most)
    )
    return Course(waves, fewest, most, course.sweep)
