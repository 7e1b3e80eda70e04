"""The plan of a run on several nodes: each node's part is planned as a run of its own, and the whole is their sum."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import AnyExperiment, Frozen, Sweep
from specdecode.experiment.shares import share_of, shares
from specdecode.planning.bill import TRIES, Bill, make_bill
from specdecode.planning.compiling import CompileCost
from specdecode.planning.cost import CostPart, LevelCost, Range, total
from specdecode.planning.events import QUEUE_LIMIT, choose_looks, worst_case_events
from specdecode.planning.inventory import Inventory
from specdecode.planning.making import make_plan, planned_models
from specdecode.planning.plan import Plan, PlannedArtifact, PlannedUnit
from specdecode.planning.room import apart
from specdecode.planning.states import STOP_MINUTES, Step
from specdecode.planning.sweep import SweepPlan, SweepStep, first_steps, most_steps

COUNTS = (1, 2, 4, 8)
"""Numbers of nodes that a plan compares."""
QUEUE_HOURS = QUEUE_LIMIT.total_seconds() / 3600
"""How long a unit waits at most, also for a place in a full queue."""
MOST_WAITS = 3
"""How often a unit that never got a node is tried again: it costs nothing, but the run waits a day for each."""


def plan_run(
    experiment: AnyExperiment,
    *,
    inventory: Inventory,
    engine: Engine | None = None,
    capacity: Capacity | None = None,
    now: datetime | None = None,
    sweep: tuple[SweepStep, ...] = (),
    arms: Collection[str] | None = None,
    sharing: int = 1,
) -> Plan:
    """The plan of `experiment` on as many nodes as it asks for. On several nodes: `arms` are the compared ones that are
    still to measure, `sweep` is the first step of each node of an adaptive sweep. `sharing`: of one node's part of such
    a sweep, how many share it.

    A part's models count as staged: the whole run stages them, once. Raises ExperimentError as make_plan does.
    """
    if experiment.nodes == 1:
        return make_plan(
            experiment, inventory=inventory, engine=engine, capacity=capacity, now=now, sweep=sweep, nodes=sharing
        )
    staged = Inventory(prefixes=inventory.prefixes | {model.prefix for model in experiment.staged})
    make = partial(make_plan, inventory=staged, engine=engine, capacity=capacity, now=now)
    terms = (capacity or Capacity()).of(experiment.node)
    if experiment.sweep is Sweep.ADAPTIVE:
        division = _divide_sweep(experiment, make, terms, sweep)
    else:
        division = _divide_grid(experiment, make, terms, arms)
    return _whole(experiment, division, inventory)


class Division(NamedTuple):
    """What each node gets of a run."""

    arms: tuple[tuple[str, ...], ...]
    """Of each node, the arms that it begins with. Empty if nothing is left to measure."""
    plans: tuple[Plan, ...]
    """Of each node. If nothing is left to measure: one, for what all nodes have in common."""
    bills: tuple[Bill, ...]
    begun: tuple[SweepStep, ...] = ()
    """Of an adaptive sweep: the first step of each node."""


def _divide_sweep(
    experiment: AnyExperiment, make: Callable[..., Plan], terms: Capacity, sweep: tuple[SweepStep, ...]
) -> Division:
    begun = sweep or first_steps(experiment, experiment.nodes)
    one, nodes = share_of(experiment), experiment.nodes
    arms = tuple((step.arm,) for step in begun if step.arm is not None)
    plans = tuple(make(one, sweep=(step,), nodes=nodes) for step in begun if step.arm is not None) or (make(one),)
    # A node may take other arms than were foreseen: the bound is that of the most expensive ones.
    bill = make_bill(make(one, nodes=nodes), terms)
    return Division(arms, plans, (bill,) * len(plans), begun)


def _divide_grid(
    experiment: AnyExperiment, make: Callable[..., Plan], terms: Capacity, left: Collection[str] | None
) -> Division:
    """`left`: the compared arms that are still to measure."""
    arms = shares(experiment, experiment.nodes, arms=left)
    plans = tuple(make(share_of(experiment, part)) for part in arms or shares(experiment, 1))
    return Division(arms, plans, tuple(make_bill(plan, terms) for plan in plans))


def _whole(experiment: AnyExperiment, division: Division, inventory: Inventory) -> Plan:
    """The sum of the nodes' plans, with the steps of the run that starts them."""
    plans = division.plans
    first = plans[0]
    units = tuple(_unit(*each) for each in zip(division.arms, plans, division.bills, strict=False))
    if not units:
        plans = (first.model_copy(update={"node_hours": Range(low=0, high=0), "cost": Range(low=0, high=0)}),)
    begun, steps = division.begun, _steps(first, units)
    looks = choose_looks(steps)
    artifacts: dict[str, PlannedArtifact] = {}
    for item in (item for plan in plans for item in plan.artifacts):
        artifacts.setdefault(item.fingerprint, item)
    return first.model_copy(
        update={
            "experiment": experiment,
            "waves": (),
            "units": units,
            "sweep": _sweep(experiment, begun, plans if units else ()) if begun else None,
            "models": planned_models(experiment, inventory),
            "artifacts": tuple(artifacts.values()),
            "steps": steps,
            "poll_seconds": looks.poll_s,
            "attentive_seconds": looks.attentive_s,
            "worst_case_events": worst_case_events(steps, poll_s=looks.poll_s, attentive_s=looks.attentive_s),
            "node_hours": total(plan.node_hours for plan in plans),
            "more_rounds": total(plan.more_rounds for plan in plans),
            "cost": total(plan.cost for plan in plans),
            "compiling": _compiling([plan.compiling for plan in plans if plan.compiling]),
            "parts": _parts(plans),
            "levels": _levels(plans),
            "assumptions": (
                *first.assumptions,
                f"{len(units)} nodes at once; where fewer are free, parts of the run wait in the queue: "
                f"{QUEUE_HOURS:.0f} h at most, and {MOST_WAITS} more times if no node came",
            ),
            "warnings": _warnings(plans),
        }
    )


def _warnings(plans: Sequence[Plan]) -> tuple[str, ...]:
    """Each once: of those that differ in their hours alone, that of the longest part."""
    found: dict[str, str] = {}
    for plan in sorted(plans, key=lambda plan: -plan.node_hours.high):
        for text in plan.warnings:
            found.setdefault(re.sub(r"[\d.]+ h\b", "", text), text)
    return tuple(found.values())


def _steps(first: Plan, units: Sequence[PlannedUnit]) -> tuple[Step, ...]:
    """The steps of the run that starts `units`. It waits for the longest unit with all its tries."""
    longest = max((unit.longest_node_hours for unit in units), default=0)
    waiting = TRIES * longest + (TRIES + MOST_WAITS) * QUEUE_HOURS
    return (
        Step(name="Plan"),
        next(step for step in first.steps if step.name == "StageModels"),
        Step(name="MeasureUnits", deadline_minutes=round(60 * waiting)),
        Step(name="StopArms", deadline_minutes=STOP_MINUTES),
        Step(name="ReleaseCapacity"),
        Step(name="Report"),
    )


class ByNodes(Frozen):
    """What a run would take on a number of nodes, all of them there at once."""

    nodes: int
    hours: Range
    """Until the last node is given back."""
    cost: Range
    """US dollars for all of them."""


def by_nodes(experiment: AnyExperiment, *, inventory: Inventory, capacity: Capacity) -> tuple[ByNodes, ...]:
    """For each of COUNTS that arms and deployment are enough for, the experiment's own number, and all reserved nodes
    that the arms are enough for. Arms that run already are of one.
    """
    one = not experiment.holds_node or not experiment.shape.has_devices
    most = 1 if one else len(shares(experiment, len(experiment.variants)))
    reserved = 1 if capacity.type == "on-demand" else min(capacity.nodes, most)
    there = min(most, capacity.known_nodes or most)
    asked = sorted({*(count for count in COUNTS if count <= there), experiment.nodes, reserved})
    found = []
    for count in asked:
        plan = plan_run(experiment.model_copy(update={"nodes": count}), inventory=inventory, capacity=capacity)
        spans = [unit.node_hours for unit in plan.units] or [plan.node_hours]
        hours = Range(low=max(span.low for span in spans), high=max(span.high for span in spans))
        found.append(ByNodes(nodes=count, hours=hours, cost=plan.cost))
    return tuple(found)


def best_nodes(rows: Sequence[ByNodes], capacity: Capacity) -> ByNodes:
    """The cheapest on demand; the fastest on nodes that are paid for anyway."""
    if capacity.type == "on-demand":
        return min(rows, key=lambda row: (row.cost.high, row.nodes))
    return min((row for row in rows if row.nodes <= capacity.nodes), key=lambda row: (row.hours.high, row.nodes))


def _unit(arms: tuple[str, ...], plan: Plan, bill: Bill) -> PlannedUnit:
    return PlannedUnit(
        arms=arms,
        waves=len(plan.waves) + (plan.sweep.waves_to_come if plan.sweep else 0),
        apart=apart(plan.experiment, plan.waves),
        node_hours=plan.node_hours,
        longest_node_hours=bill.longest_node_hours,
        most=bill.most,
    )


def _sweep(experiment: AnyExperiment, begun: tuple[SweepStep, ...], plans: Sequence[Plan]) -> SweepPlan:
    """How all nodes of an adaptive sweep begin, and how far they can go together."""
    found, arms = [plan.sweep for plan in plans if plan.sweep], {step.arm for step in begun}
    left = sum(variant.compare_to is not None and variant.name not in arms for variant in experiment.variants)
    return SweepPlan(
        steps=begun,
        nodes=experiment.nodes,
        most_steps=most_steps(experiment),
        waves_to_come=sum(sweep.waves_to_come for sweep in found),
        compiles_to_come=min(left, sum(sweep.compiles_to_come for sweep in found)),
    )


def _compiling(costs: Sequence[CompileCost]) -> CompileCost | None:
    if not costs:
        return None
    return costs[0].model_copy(
        update={
            "artifacts": sum(cost.artifacts for cost in costs),
            "here": total(cost.here for cost in costs),
            "on_cpu": total(cost.on_cpu for cost in costs),
            "on_cpu_at_most": sum(cost.on_cpu_at_most for cost in costs),
        }
    )


def _parts(plans: Sequence[Plan]) -> tuple[CostPart, ...]:
    return tuple(
        item[0].model_copy(update={"node_hours": total(part.node_hours for part in item)})
        for item in zip(*(plan.parts for plan in plans), strict=True)
    )


def _levels(plans: Sequence[Plan]) -> tuple[LevelCost, ...]:
    return tuple(
        item[0].model_copy(update={"node_hours": total(level.node_hours for level in item)})
        for item in zip(*(plan.levels for plan in plans), strict=True)
    )
