"""The units of runs that have ended are stopped: nothing would read what they measure (ADR 188)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from botocore.exceptions import ClientError

from specdecode import names
from specdecode.runs.ended import note_end
from specdecode.runs.state import WITH_ITS_RUN, RunUnit, StateDamaged, load_state
from specdecode.steps import executions
from specdecode.steps.guarded import Guarded
from specdecode.steps.runtime import Runtime

UNITS = "the units of runs that have ended"


def stop_left_alone(
    rt: Runtime, running: Collection[str], parts: Guarded, *, machine: str, told: Iterable[str] = ()
) -> Iterator[str]:
    """Stop the units of runs that have ended, and yield those that were. `running`: all executions that run, as far as
    the list shows them; `told`: runs that somebody says have ended. One that cannot be stopped does not stop the
    others.
    """
    going = defaultdict[str, set[str]](set)
    for unit in running:
        if (parent := names.parent_of(unit)) is not None:
            going[parent].add(unit)
    # The list may lag: a run that it lacks is looked up by name.
    for run_id in sorted({*going.keys() - set(running), *(run for run in told if names.parent_of(run) is None)}):
        found: set[str] = set()
        with parts.part(UNITS):
            found = _left(rt, run_id, going[run_id], parts, machine=machine)
        for unit in sorted(found):
            with parts.part(UNITS):
                if _stop(rt, unit, machine=machine):
                    yield unit


def _left(rt: Runtime, run_id: str, going: set[str], parts: Guarded, *, machine: str) -> set[str]:
    """Units to stop: none if the run goes on; else those of `going`, and those that may be starting now.

    First the end is noted, then the run's list is read. A unit is put into the list before it is started, and looks for
    the note after that. So it is in this list, or finds the note. Units that a redrive of the run has started meanwhile
    are left.
    """
    run = executions.described(rt, run_id, machine=machine)
    if run is None or run["status"] in executions.GOES_ON:
        return set() if run else going
    redrives, listed = int(run.get("redriveCount", 0)), tuple[RunUnit, ...]()
    with parts.part(UNITS):
        if going or _listed(rt, run_id):
            note_end(rt.store, run_id, redrives)
            listed = _listed(rt, run_id)
    later = {unit.run_id for unit in listed if unit.redrives > redrives}
    return going.union(unit.run_id for unit in listed if unit.status is None) - later


def _listed(rt: Runtime, run_id: str) -> tuple[RunUnit, ...]:
    """The units in the run's record that are its own. None if it cannot be read."""
    try:
        state = load_state(rt.store, run_id)
    except StateDamaged:
        return ()
    return tuple(unit for unit in (state.units if state else ()) if names.parent_of(unit.run_id) == run_id)


def _stop(rt: Runtime, unit: str, *, machine: str) -> bool:
    """Whether the unit was stopped. It may have ended, or never have been started."""
    found = executions.described(rt, unit, machine=machine)
    if found is not None and found["status"] not in executions.GOES_ON:
        return False
    try:
        rt.clients("stepfunctions").stop_execution(
            executionArn=executions.arn_of(unit, machine=machine),
            error=WITH_ITS_RUN,
            cause="the run that it is a unit of has ended",
        )
    except ClientError as error:
        if error.response["Error"]["Code"] == "ExecutionDoesNotExist":
            return False
        raise
    return True
