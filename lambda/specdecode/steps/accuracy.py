"""Accuracy: lm-eval questions the arms while they still serve, and then people do. Both are optional, and a failure
costs no measured benchmark.

Held arms stay for a while after their last benchmark, and a pod beside them answers `specdecode ask` (ADR 202). The
state machine's own looks end it, so it ends at its bound when nobody watches.
"""

from datetime import timedelta
from functools import partial

from specdecode import manifests
from specdecode.analysis.results.run_context import Failure
from specdecode.kubernetes.resources import name_of
from specdecode.manifests import StepJob
from specdecode.planning import first_served, last_served
from specdecode.planning.events import JOB_GRACE_MINUTES
from specdecode.runs.state import change_state
from specdecode.steps.acquire import looks_twice, require_node
from specdecode.steps.errors import AccuracyFailed, HoldFailed, StepFailed
from specdecode.steps.jobs import Advance, advance_job, check_alive, keep_failed_logs
from specdecode.steps.run import Run, attentive, load_run, render_context
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step


@looks_twice
def accuracy(given: StepInput, rt: Runtime) -> Progress:
    """Done when the wave's new arms are tested, and those that are served for the last time were held."""
    run = load_run(rt.store, given.run_id)
    tested = _test(given, rt, run)
    return _hold(given, rt, run) or tested if tested.done else tested


def _test(given: StepInput, rt: Runtime, run: Run) -> Progress:
    if not run.plan.experiment.accuracy:
        return Progress(done=True, message="the experiment asks for no accuracy test")
    wave = run.wave(given.wave)
    new = first_served(run.plan.waves, wave)
    if not (new and run.is_served(given.wave)):
        return Progress(done=True, message="no arm of this wave is tested: it was in an earlier one, or is not served")
    work = manifests.accuracy_job(run.plan, wave, render_context(run, rt))
    found = _advance(work, given, rt, run, failure=AccuracyFailed)
    expected = run.plan.timeline.most_minutes("Accuracy", given.wave)
    return Progress(
        done=found.done, message=found.message, wait_s=attentive(run.plan, found.age, expected_min=expected)
    )


def _hold(given: StepInput, rt: Runtime, run: Run) -> Progress | None:
    """Done after the experiment's minutes, or when somebody ends it before. None if no arm of the wave is held."""
    wave, minutes = run.wave(given.wave), run.plan.experiment.holds_arms
    arms = last_served(run.plan.waves, wave)
    if not (minutes and arms and run.is_served(given.wave)):
        return None
    work = manifests.hold_job(run.plan, wave, render_context(run, rt))._replace(minutes=minutes + JOB_GRACE_MINUTES)
    done, _, age, _ = _advance(work, given, rt, run, failure=HoldFailed)
    left = timedelta(minutes=minutes) - age
    if done or left <= timedelta():
        change_state(rt.store, given.run_id, answering=(), answers_until=None)
        return Progress(done=True, message=f"the arms were held for {age.total_seconds() / 60:.0f} of {minutes} min")
    until, names = rt.now() + left, tuple(arm.variant for arm in arms)
    if run.state.answering != names:
        change_state(rt.store, given.run_id, answering=names, answers_until=until)
    message = f"{', '.join(names)} until {until:%H:%M} UTC: specdecode ask {given.run_id} {names[0]}"
    return Progress(done=False, message=message, wait_s=attentive(run.plan, age, expected_min=minutes))


def _advance(work: StepJob, given: StepInput, rt: Runtime, run: Run, *, failure: type[StepFailed]) -> Advance:
    """One look at a Job beside the servers. If it raises `failure`, that is first noted for the report."""
    require_node(given, rt, run)
    try:
        check_alive(rt.kube, given.run_id, run.wave(given.wave), failure=failure)
        return advance_job(run, rt, work, failure=failure)
    except failure as error:
        keep_failed_logs(rt.kube, rt.store, run_id=given.run_id, job=name_of(work.job))
        stage = failure.__name__.removesuffix("Failed")
        told = Failure(stage=stage, message=str(error), diagnostics="diagnostics/logs/")
        change_state(rt.store, given.run_id, failure=told, answering=(), answers_until=None)
        raise


handler = partial(run_step, accuracy)
