"""Hold: the arms stay for a while after their last benchmark, and a pod beside them answers `specdecode ask` (ADR 202).

The state machine's own looks end it, so it ends at its bound when nobody watches.
"""

from datetime import timedelta

from specdecode import manifests
from specdecode.analysis.results.run_context import Failure
from specdecode.kubernetes.resources import name_of
from specdecode.planning import last_served
from specdecode.planning.events import JOB_GRACE_MINUTES
from specdecode.runs.state import change_state
from specdecode.steps.acquire import require_node
from specdecode.steps.arms import check_alive
from specdecode.steps.errors import HoldFailed
from specdecode.steps.jobs import advance_job, keep_failed_logs
from specdecode.steps.pace import attentive
from specdecode.steps.run import Run, render_context
from specdecode.steps.runtime import Progress, Runtime, StepInput


def hold(given: StepInput, rt: Runtime, run: Run) -> Progress | None:
    """Done after the experiment's minutes, or when somebody ends it before. None if no arm of the wave is to be held.

    If HoldFailed is raised, it is first noted for the report.
    """
    wave, minutes = run.wave(given.wave), run.plan.experiment.holds_arms
    arms = last_served(run.plan.waves, wave)
    if not (minutes and arms) or given.wave in {*run.state.inherited, *run.state.lost}:
        return None
    require_node(given, rt, run)
    ctx = render_context(run, rt)
    job = manifests.hold_job(run.plan, wave, ctx)
    try:
        check_alive(rt.kube, given.run_id, wave, failure=HoldFailed)
        done, _, age = advance_job(
            run,
            rt,
            [job],
            rights=manifests.hold_rights(ctx),
            limit_min=minutes + JOB_GRACE_MINUTES,
            failure=HoldFailed,
        )
    except HoldFailed as error:
        keep_failed_logs(rt.kube, rt.store, run_id=given.run_id, job=name_of(job))
        failure = Failure(stage="Hold", message=str(error), diagnostics="diagnostics/logs/")
        change_state(rt.store, given.run_id, failures=(*run.state.failures, failure), answering=(), answers_until=None)
        raise
    left = timedelta(minutes=minutes) - age
    if done or left <= timedelta():
        change_state(rt.store, given.run_id, answering=(), answers_until=None)
        return Progress(done=True, message=f"the arms were held for {age.total_seconds() / 60:.0f} of {minutes} min")
    until, names = rt.now() + left, tuple(arm.variant for arm in arms)
    if run.state.answering != names:
        change_state(rt.store, given.run_id, answering=names, answers_until=until)
    message = f"{', '.join(names)} until {until:%H:%M} UTC: specdecode ask {given.run_id} {names[0]}"
    return Progress(done=False, message=message, wait_s=attentive(run.plan, age, expected_min=minutes))
