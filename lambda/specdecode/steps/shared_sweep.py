"""An adaptive sweep on several nodes: each unit goes its own way by what all of them have measured (ADR 188).

A unit keeps its node, and compares each arm with the baseline that served beside it there. What is shared is the
ledger: there it writes how its arms ended, and takes the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from specdecode import names
from specdecode.analysis.advice.sweep import NOT_COMPARED, first_steps, observations, speculative, step_after
from specdecode.experiment import Experiment
from specdecode.planning import SweepPlan, SweepStep
from specdecode.planning.sweep import most_steps
from specdecode.runs.ledger import Ledger, LedgerEntry, Seen, StepOutcome, change_ledger, read_ledger
from specdecode.runs.state import RunUnit, StateDamaged
from specdecode.steps.errors import InvalidExperiment, ReportFailed
from specdecode.steps.measured_steps import comparisons
from specdecode.steps.run import Run
from specdecode.steps.runtime import Runtime
from specdecode.steps.units import run_of
from specdecode.store import Store

Bound = Callable[[SweepStep], SweepStep]
"""The step, or the end in its place where the unit can take no other."""


def first_entries(
    experiment: Experiment, run_id: str, inherited: Sequence[RunUnit], rt: Runtime
) -> tuple[LedgerEntry, ...]:
    """How the sweep of a new run begins: what it takes over is measured, and each node has an arm. An end alone where
    nothing is left that is worth one.
    """
    known = [(unit, run) for unit in inherited if (run := run_of(rt.store, unit))]
    before = Ledger().settled(entry for unit, run in known for entry in _ended(run, rt) if entry.arm in unit.finished)
    room = most_steps(experiment) - before.steps
    steps = first_steps(experiment, before.observations, count=min(experiment.nodes, room), lost=before.lost)
    if not steps:
        steps = (SweepStep(arm=None, reason=_no_more(experiment)),)
    found = [
        LedgerEntry(unit=names.unit_run_id(run_id, number), step=0, arm=step.arm, reason=step.reason)
        for number, step in enumerate(steps, start=len(inherited) + 1)
    ]
    return (*before.entries, *found)


def open_ledger(store: Store, run_id: str, entries: tuple[LedgerEntry, ...]) -> None:
    """Store how the sweep begins; a ledger that is there stays."""
    change_ledger(store, run_id, lambda ledger: ledger if ledger.entries else Ledger(entries=entries))


def begun(entries: Iterable[LedgerEntry], run_id: str) -> tuple[SweepStep, ...]:
    """The first steps of the run's own units."""
    own = (each for each in entries if names.parent_of(each.unit) == run_id and each.step == 0)
    return tuple(SweepStep(arm=each.arm, reason=each.reason) for each in own)


def step_of_unit(store: Store, parent: str, experiment: Experiment, unit: str) -> SweepStep:
    """The arm with which a unit begins, which its run took for it."""
    entry = _checked(read_ledger(store, parent), experiment, parent).entry(unit, 0)
    if entry is None or entry.arm is None:
        raise InvalidExperiment(f"run {parent} has taken no arm for {unit}: only that run starts its units")
    return SweepStep(arm=entry.arm, reason=entry.reason)


def next_step_of_unit(parent: str, run: Run, sweep: SweepPlan, bound: Bound, rt: Runtime) -> SweepStep:
    """Write how the unit's arms ended, and take its next. A unit that asks again gets the same answer."""
    unit, at, experiment = run.state.run_id, len(sweep.steps), run.plan.experiment
    known = read_ledger(rt.store, parent)
    ended = tuple(_ended(run, rt, but={each.step for each in known.of(unit) if each.outcome is not StepOutcome.TAKEN}))

    def change(ledger: Ledger) -> Ledger:
        after = _checked(ledger, experiment, parent).settled(ended)
        return after.plus(_entry(after, experiment, unit, at, bound))

    entry = change_ledger(rt.store, parent, change).entry(unit, at)
    assert entry is not None  # noqa: S101 (the change put it there, if it was not)
    return SweepStep(arm=entry.arm, reason=entry.reason)


def take_for(store: Store, parent: str, experiment: Experiment, unit: str) -> str | None:
    """The arm with which a unit begins that is to take the place of a lost one; None where no other is worth it."""

    def change(ledger: Ledger) -> Ledger:
        entry = _entry(_checked(ledger, experiment, parent), experiment, unit, 0, lambda step: step)
        return ledger if entry.arm is None else ledger.plus(entry)

    found = change_ledger(store, parent, change).entry(unit, 0)
    return found.arm if found else None


def give_up(parent: str, units: Sequence[RunUnit], rt: Runtime) -> None:
    """Write how the arms of units that have ended ended, and free what they had taken and not finished: a unit may have
    lost its node after it measured an arm and before it asked for the next.
    """
    ended = tuple(entry for unit in units if (run := run_of(rt.store, unit)) for entry in _readable(run, rt))
    gone = {unit.run_id for unit in units}
    change_ledger(rt.store, parent, lambda ledger: ledger.settled(ended).given_up(gone))


def _readable(run: Run, rt: Runtime) -> tuple[LedgerEntry, ...]:
    """How the steps of a unit ended; nothing where its records are damaged, which the report says."""
    try:
        return tuple(_ended(run, rt))
    except ReportFailed:
        return ()


def _checked(ledger: Ledger, experiment: Experiment, run_id: str) -> Ledger:
    """The ledger. Raises StateDamaged if a step is of no arm of the experiment, or shows what is not of its arm."""
    arms = {
        variant.name: (spec.draft.id, spec.num_speculative_tokens)
        for variant in speculative(experiment)
        if (spec := variant.speculation)
    }
    for each in ledger.entries:
        wrong = each.arm is not None and each.arm not in arms
        if wrong or any((seen.draft, seen.k) != arms.get(each.arm or "") for seen in each.seen):
            raise StateDamaged(
                f"sweep.json of run {run_id}: step {each.step} of {each.unit} is of no arm of the experiment; "
                f"`specdecode run --resume {run_id}` goes on from what was measured"
            )
    return ledger


def _entry(ledger: Ledger, experiment: Experiment, unit: str, at: int, bound: Bound) -> LedgerEntry:
    """The unit's next step, by all that is known."""
    own, taken = ledger.entry(unit, at - 1), ledger.taken
    if own and own.outcome is StepOutcome.MEASURED and not own.seen:
        return LedgerEntry(unit=unit, step=at, arm=None, reason=NOT_COMPARED, left_open=True)
    step = step_after(experiment, ledger.observations, lost=ledger.lost, in_flight=taken)
    if step.arm is not None and ledger.steps >= most_steps(experiment):
        step = SweepStep(arm=None, reason=f"{_no_more(experiment)} Left undone: {step.reason}")
    held = bound(step)
    left_open = held.arm is None and (bool(taken) or held != step)
    return LedgerEntry(unit=unit, step=at, arm=held.arm, reason=held.reason, left_open=left_open)


def _no_more(experiment: Experiment) -> str:
    return f"Stop: {most_steps(experiment)} steps are the most that a sweep takes."


def _ended(run: Run, rt: Runtime, but: Collection[int] = ()) -> Iterator[LedgerEntry]:
    """How the steps of a unit ended, but for some."""
    sweep, unit = run.plan.sweep, run.state.run_id
    steps = [step for step in (sweep.steps if sweep else ()) if step.arm is not None]
    lost = run.lost_steps
    measured = comparisons(run, [at for at in run.measured_steps if at not in but], rt)
    for at, step in enumerate(steps):
        if at in lost and at not in but:
            yield LedgerEntry(unit=unit, step=at, arm=step.arm, reason=step.reason, outcome=StepOutcome.LOST)
        elif at in measured:
            seen = tuple(
                Seen(level=level, **item._asdict())
                for level, found in observations([measured[at]]).items()
                for item in found
            )
            yield LedgerEntry(
                unit=unit, step=at, arm=step.arm, reason=step.reason, outcome=StepOutcome.MEASURED, seen=seen
            )
