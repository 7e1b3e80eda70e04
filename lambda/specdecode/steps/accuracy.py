"""Accuracy: lm-eval questions the arms while they still serve, and then people do (`hold`). Both are optional, and a
failure costs no measured benchmark.
"""

from typing import Any

from specdecode import manifests
from specdecode.analysis.results.run_context import Failure
from specdecode.kubernetes.resources import name_of
from specdecode.planning import first_served
from specdecode.planning.timeline import ACCURACY_MINUTES
from specdecode.runs.state import change_state
from specdecode.steps.acquire import on_the_node, require_node
from specdecode.steps.arms import check_alive
from specdecode.steps.errors import AccuracyFailed
from specdecode.steps.hold import hold
from specdecode.steps.jobs import advance_job, keep_failed_logs
from specdecode.steps.pace import attentive
from specdecode.steps.run import Run, load_run, render_context
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step


@on_the_node
def accuracy(given: StepInput, rt: Runtime) -> Progress:
    """Done when the wave's new arms are tested, and those that are served for the last time were held."""
    run = load_run(rt.store, given.run_id)
    tested = _test(given, rt, run)
    return hold(given, rt, run) or tested if tested.done else tested


def _test(given: StepInput, rt: Runtime, run: Run) -> Progress:
    """If AccuracyFailed is raised, it is first noted for the report."""
    if not run.plan.experiment.accuracy:
        return Progress(done=True, message="the experiment asks for no accuracy test")
    ctx = render_context(run, rt)
    wave = run.wave(given.wave)
    if given.wave in run.state.inherited:
        return Progress(done=True, message="the wave was measured by the resumed run; its arms are not served again")
    if given.wave in run.state.lost:
        return Progress(done=True, message="the sweep goes on without this arm")
    if not (new := first_served(run.plan.waves, wave)):
        return Progress(done=True, message="these arms had their test in an earlier wave")
    require_node(given, rt, run)
    job = manifests.accuracy_job(run.plan, wave, ctx)
    try:
        check_alive(rt.kube, given.run_id, wave, failure=AccuracyFailed)
        done, message, age = advance_job(
            run,
            rt,
            [job],
            rights=manifests.accuracy_rights(ctx),
            limit_min=ACCURACY_MINUTES * len(new),
            failure=AccuracyFailed,
        )
    except AccuracyFailed as error:
        keep_failed_logs(rt.kube, rt.store, run_id=given.run_id, job=name_of(job))
        failure = Failure(stage="Accuracy", message=str(error), diagnostics="diagnostics/logs/")
        change_state(rt.store, given.run_id, failures=(*run.state.failures, failure))
        raise
    expected = run.plan.timeline.most_minutes("Accuracy", given.wave)
    return Progress(done=done, message=message, wait_s=attentive(run.plan, age, expected_min=expected))


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(accuracy, event, context)
