"""MeasureUnits: start each unit of a run on several nodes as a run of its own, and wait until all have ended.

A unit whose node went away is measured again on another node, once. Other failures are raised at the end, after the
other units have measured their arms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from specdecode import s3_keys
from specdecode.planning.bill import TRIES
from specdecode.planning.units import MOST_WAITS
from specdecode.runs.ledger import Ledger, readable_ledger
from specdecode.runs.state import LARGEST, WITH_ITS_RUN, RunUnit, StateDamaged, change_state, load_state
from specdecode.steps import executions
from specdecode.steps.errors import CapacityUnavailable, NodeLost
from specdecode.steps.run import Run, load_run
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step
from specdecode.steps.shared_sweep import give_up, take_for
from specdecode.steps.units import finished_arms, next_id, next_unit
from specdecode.untrusted import Unreadable, parse_json

ANOTHER_NODE_HELPS = (NodeLost.__name__, CapacityUnavailable.__name__, WITH_ITS_RUN)
NODE_LOST = "node-lost"
"""Row of assets/diagnosis.yaml for a lost node. Servers may fail before their node is seen to be gone."""


def measure_units(given: StepInput, rt: Runtime) -> Progress:
    """Done when every unit has ended, well or badly.

    The list of units to start is stored first. A repeated look starts the same executions, and Step Functions takes
    both starts for one as long as it runs (StartExecution is idempotent by name and input). If the run is stopped
    meanwhile, a unit that starts late ends by itself (left_alone).
    """
    run, machine = load_run(rt.store, given.run_id), executions.machine_of(given.execution_arn)
    going = [unit.run_id for unit in run.state.units if unit.status is None]
    asked = {unit: executions.described(rt, unit, machine=machine) for unit in going}
    # Read after all have been asked: what an ended unit had taken is in it.
    ledger = readable_ledger(rt.store, given.run_id) if run.plan.is_shared_sweep else None
    units = [_looked_at(unit, asked.get(unit.run_id), ledger, rt) for unit in run.state.units]
    change_state(rt.store, given.run_id, units=tuple(units))
    ended = {unit.run_id for unit in units if unit.status is not None}
    if ledger is not None and (left := [unit for unit in units if ledger.unfinished_of({unit.run_id} & ended)]):
        with suppress(StateDamaged):
            give_up(given.run_id, left, rt)
    for lost in [unit for unit in units if _is_tried_again(unit, units, rt)]:
        if arms := _arms_again(run, units, lost, rt):
            units.append(next_unit(given.run_id, units, lost, arms=arms))
    starting = {unit.run_id for unit in units if unit.status is None and asked.get(unit.run_id) is None}
    now = {"redrives": given.redrives}
    units = [unit.model_copy(update=now) if unit.run_id in starting else unit for unit in units]
    change_state(rt.store, given.run_id, units=tuple(units))
    for unit in units:
        if unit.run_id in starting:
            _start(unit, run, rt, machine=machine)
    done = all(unit.status is not None for unit in units)
    return Progress(done=done, message="; ".join(_said(units)), wait_s=run.plan.poll_seconds)


def _looked_at(unit: RunUnit, found: dict[str, Any] | None, ledger: Ledger | None, rt: Runtime) -> RunUnit:
    """The unit, with its end if it has ended. The arms of one of an adaptive sweep are those that it measured, and the
    one that it was at.
    """
    if found is None or found["status"] in executions.GOES_ON:
        return unit
    finished = finished_arms(rt.store, unit)
    if ledger is not None:
        left = ledger.unfinished_of({unit.run_id})
        unit = unit.model_copy(update={"arms": tuple(dict.fromkeys((*finished, *left)))})
    return unit.model_copy(
        update={
            "status": found["status"],
            "error": str(found.get("error") or ""),
            "cause": str(found.get("cause") or ""),
            "finished": finished,
            "held": _held(rt, unit),
        }
    )


def _is_tried_again(unit: RunUnit, units: list[RunUnit], rt: Runtime) -> bool:
    """Whether the unit is tried again, which another node must be able to help: once if its node was lost, MOST_WAITS
    times if it never had one.
    """
    left = set(unit.arms).difference(unit.finished)
    again = any(other.after == unit.number for other in units)
    if again or not (left and unit.error) or not _another_node_helps(unit, rt):
        return False
    tries = list(_tries(unit, units))
    lost = sum(each.held for each in tries)
    return lost < TRIES and len(tries) - lost <= MOST_WAITS


def _tries(unit: RunUnit | None, units: list[RunUnit]) -> Iterator[RunUnit]:
    """The unit, the one in whose place it was started, and so on."""
    while unit is not None:
        yield unit
        unit = next((each for each in units if each.number == unit.after), None)


def _held(rt: Runtime, unit: RunUnit) -> bool:
    """Whether the unit had a node, or its record cannot be read. It has none if it ended before it was planned."""
    try:
        own = load_state(rt.store, unit.run_id)
    except StateDamaged:
        return True
    return own is not None and own.held_since is not None


def _another_node_helps(unit: RunUnit, rt: Runtime) -> bool:
    """Whether the unit lost its node, by how it ended or by its diagnosis."""
    if unit.error in ANOTHER_NODE_HELPS:
        return True
    data = rt.store.read(s3_keys.run_key(unit.run_id, "diagnostics", "diagnosis.json"), at_most=LARGEST)
    try:
        found = parse_json(data or b"{}")
    except Unreadable:
        return False
    return isinstance(found, dict) and found.get("row") == NODE_LOST


def _arms_again(run: Run, units: list[RunUnit], lost: RunUnit, rt: Runtime) -> tuple[str, ...]:
    """What another unit measures in the place of a lost one; nothing where no arm of an adaptive sweep is worth it."""
    if not run.plan.is_shared_sweep:
        return tuple(arm for arm in lost.arms if arm not in lost.finished)
    _, unit = next_id(run.state.run_id, units)
    try:
        arm = take_for(rt.store, run.state.run_id, run.plan.experiment, unit)
    except StateDamaged:
        return ()
    return (arm,) if arm else ()


def _start(unit: RunUnit, run: Run, rt: Runtime, *, machine: str) -> None:
    """Start the unit's run. Its input is always the same: under one name Step Functions refuses another input."""
    said = {"unit_of": run.state.run_id, "accept_cost": unit.accept_cost, "started_by": run.state.started_by}
    text = json.dumps({key: value for key, value in said.items() if value is not None})
    rt.clients("stepfunctions").start_execution(stateMachineArn=machine, name=unit.run_id, input=text)


def _said(units: list[RunUnit]) -> Iterator[str]:
    going = [unit.run_id for unit in units if unit.status is None]
    whole = sum(set(unit.arms) == set(unit.finished) for unit in units)
    yield f"{whole} of {len(units)} units are measured"
    if going:
        yield f"{', '.join(going)} {'goes' if len(going) == 1 else 'go'} on"
    for unit in units:
        if unit.error:
            yield f"{unit.run_id} ended with {unit.error}"


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(measure_units, event, context)
