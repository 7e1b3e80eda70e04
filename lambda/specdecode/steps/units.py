"""The units of a run on several nodes: their list, and what each has measured (ADR 188)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from specdecode import names
from specdecode.experiment.model import AnyExperiment, Sweep
from specdecode.experiment.shares import baselines_of, share_of
from specdecode.planning import Plan
from specdecode.runs.ended import has_ended
from specdecode.runs.state import RunState, RunUnit, StateDamaged, load_state
from specdecode.steps.errors import InvalidExperiment, StoppedWithItsRun
from specdecode.steps.request import RunRequest
from specdecode.steps.run import Run, load_run
from specdecode.store import Store

NO_ERROR = {"error": "", "cause": ""}


def check_id(run_id: str, request: RunRequest) -> None:
    """Refuse a unit's id for another run, so that an id tells which run it belongs to."""
    if request.unit_of != (parent := names.parent_of(run_id)):
        told = "" if parent is None else "; names that end in -n and a number are for them: choose another"
        raise InvalidExperiment(f"only a run on several nodes starts its own units{told}")


def check_length(run_id: str) -> None:
    """Refuse an id that is too long: the ids of a run's units are made from it."""
    if len(run_id) > names.LONGEST_PARENT:
        raise InvalidExperiment(
            f"the execution's name has {len(run_id)} characters: one that runs on several nodes has at most "
            f"{names.LONGEST_PARENT}, for those of its units are longer"
        )


def unit_experiment(store: Store, parent: str, run_id: str) -> tuple[AnyExperiment, int]:
    """What the unit `run_id` of the run `parent` measures, and how many nodes share that run's sweep.

    Raises StoppedWithItsRun if that run has ended: it was started while its run was stopped.
    """
    run = load_run(store, parent)
    experiment = run.plan.experiment
    for unit in run.state.units:
        if unit.run_id == run_id:
            if has_ended(store, parent, unit.redrives):
                raise StoppedWithItsRun(f"run {parent} had ended when it started this unit")
            any_arm = experiment.sweep is Sweep.ADAPTIVE
            return share_of(experiment, None if any_arm else unit.arms), experiment.nodes
    raise InvalidExperiment(f"run {parent} has no unit {run_id}: only that run starts its units")


def first_units(run_id: str, plan: Plan, inherited: tuple[RunUnit, ...]) -> tuple[RunUnit, ...]:
    """The units that a run on several nodes begins with: those that it takes over, and one for each node."""
    begins = len(inherited) + 1
    return inherited + tuple(
        RunUnit(
            number=number, run_id=names.unit_run_id(run_id, number), arms=part.arms, accept_cost=math.ceil(part.most)
        )
        for number, part in enumerate(plan.units, start=begins)
    )


def inherited_units(store: Store, old: RunState) -> tuple[RunUnit, ...]:
    """What a resumed run has measured whole, unit by unit. Its records stay where they are."""
    found = [
        unit.model_copy(
            update={"arms": arms, "finished": arms, "after": None, "status": unit.status or "ABORTED", **NO_ERROR}
        )
        for unit in old.units
        if (arms := unit.finished or finished_arms(store, unit))
    ]
    return tuple(unit.model_copy(update={"number": number}) for number, unit in enumerate(found, start=1))


def next_id(run_id: str, units: Sequence[RunUnit]) -> tuple[int, str]:
    """Number and run id of one more unit."""
    number = max(unit.number for unit in units) + 1
    return number, names.unit_run_id(run_id, number)


def next_unit(run_id: str, units: Sequence[RunUnit], lost: RunUnit, *, arms: tuple[str, ...]) -> RunUnit:
    """The unit that measures `arms` in the place of `lost`, on another node."""
    number, unit_id = next_id(run_id, units)
    return RunUnit(
        number=number,
        run_id=unit_id,
        arms=arms,
        accept_cost=lost.accept_cost,
        after=lost.number,
    )


def finished_arms(store: Store, unit: RunUnit) -> tuple[str, ...]:
    """The arms that the unit measured in all their rounds, beside a baseline that it measured too."""
    run = run_of(store, unit)
    if run is None:
        return ()
    blocks = set(measured_blocks(run))
    if run.plan.sweep is not None:
        return tuple(dict.fromkeys(arm for arm in run.plan.sweep.arms if arm in {name for name, _ in blocks}))
    planned = [(arm.variant, wave.round) for wave in run.plan.waves for arm in wave.arms]
    whole = {name for name, _ in planned} - {name for name, round_ in planned if (name, round_) not in blocks}
    seen = {name for name, _ in blocks}
    experiment = run.plan.experiment
    return tuple(arm for arm in unit.arms if arm in whole and baselines_of(experiment, [arm]) <= seen)


def measured_blocks(run: Run) -> Iterator[tuple[str, int]]:
    """Variant and round of everything that a run measured to the end; of an adaptive sweep those of whole steps."""
    whole = None if run.plan.sweep is None else set(run.measured_steps)
    for wave in run.plan.waves:
        if run.is_measured(wave.index) if whole is None else run.step_of(wave) in whole:
            yield from ((arm.variant, wave.round) for arm in wave.arms)


def run_of(store: Store, unit: RunUnit) -> Run | None:
    """The unit's own plan and record. None if it has none yet, or they cannot be read."""
    try:
        return load_run(store, unit.run_id) if load_state(store, unit.run_id) else None
    except (InvalidExperiment, StateDamaged):
        return None
