"""Advise: after the last wave of an adaptive sweep, plan one more from what is measured so far, or end the sweep."""

from collections.abc import Collection
from datetime import timedelta
from functools import partial

from pydantic import BaseModel

from specdecode import s3_keys
from specdecode.analysis import Comparison, compare
from specdecode.analysis.advice.sweep import next_step
from specdecode.experiment import Capacity
from specdecode.planning import Plan, SweepPlan, SweepStep, make_plan, needed_prefixes, read_inventory
from specdecode.planning.waves import FEW_STEPS
from specdecode.runs.state import PLAN
from specdecode.steps.acquire import outside_window
from specdecode.steps.report import read_records, run_context
from specdecode.steps.run import Run, load_run, read_servers
from specdecode.steps.runtime import Runtime, StepInput, run_step


class Advised(BaseModel):
    waves: int
    adaptive: bool
    """Whether the advisor is asked again after the last of them."""
    message: str


def advise(given: StepInput, rt: Runtime) -> Advised:
    plan = grow(given.run_id, rt)
    if plan.sweep is None:
        return Advised(waves=len(plan.waves), adaptive=False, message="the experiment is no adaptive sweep")
    return Advised(waves=len(plan.waves), adaptive=not plan.sweep.is_over, message=plan.sweep.steps[-1].reason)


def grow(run_id: str, rt: Runtime) -> Plan:
    """The run's plan, stored with its next step and the reason for it if everything planned is measured or lost."""
    run = load_run(rt.store, run_id)
    sweep = run.plan.sweep
    if sweep is None or sweep.is_over or not run.is_all_settled:
        return run.plan
    capacity = Capacity.model_validate_json(rt.environ["CAPACITY"])
    step = _next(run, sweep, capacity, rt)
    experiment, engine = run.plan.experiment, run.plan.engine
    plan = make_plan(
        experiment,
        engine,
        inventory=read_inventory(rt.store.s3, bucket=rt.store.bucket, prefixes=needed_prefixes(experiment, engine)),
        capacity=capacity,
        now=rt.now(),
        sweep=(*sweep.steps, step),
    )
    rt.store.write(s3_keys.run_key(run_id, PLAN), plan.model_dump_json(indent=1))
    return plan


def _next(run: Run, sweep: SweepPlan, capacity: Capacity, rt: Runtime) -> SweepStep:
    """By what the run has measured."""
    measured = comparisons(run, run.measured_steps, rt)
    step = next_step(run.plan.experiment, list(measured.values()), lost=run.lost_arms)
    return _bounded(step, sweep, run, capacity, rt)


def _bounded(step: SweepStep, sweep: SweepPlan, run: Run, capacity: Capacity, rt: Runtime) -> SweepStep:
    """The step. Or the end, if the sweep has had all its steps or the reservation ends before the next is measured."""
    if step.arm is None:
        return step
    if len(sweep.arms) >= sweep.most_steps:
        text = f"Stop: {sweep.most_steps} steps are the most that a sweep takes. Left undone: {step.reason}"
        return SweepStep(arm=None, reason=text)
    one = run.plan.node_hours.low / max(FEW_STEPS, len(sweep.arms))
    closed = outside_window(capacity.of(run.plan.experiment.node), rt.now() + timedelta(hours=one))
    if closed:
        return SweepStep(arm=None, reason=f"Stop: another step would not fit, since {closed}.")
    return step


def comparisons(run: Run, steps: Collection[int], rt: Runtime) -> dict[int, Comparison]:
    """Of each of `steps`, of its own rounds: its arm against the baseline that served beside it."""
    if not steps:
        return {}
    records = list(read_records(rt.store, run.state.run_id))
    context = run_context(run.plan, run.state, rt, read_servers(rt.store, run.state.run_id))
    rounds = run.plan.experiment.rounds
    return {
        step: compare(
            experiment=run.plan.experiment,
            records=[record for record in records if record.round // rounds == step],
            context=context,
        )
        for step in steps
    }


handler = partial(run_step, advise)
