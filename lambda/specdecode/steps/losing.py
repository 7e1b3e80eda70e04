"""An adaptive sweep goes on without an arm that cannot be measured. Every other run fails with it."""

from specdecode.analysis.results.run_context import Failure
from specdecode.planning import Arm
from specdecode.runs.state import change_state
from specdecode.steps.diagnose import examine, short
from specdecode.steps.errors import StepFailed
from specdecode.steps.run import Run
from specdecode.steps.runtime import Progress, Runtime


def go_on_without(arm: Arm, error: StepFailed, *, run: Run, rt: Runtime) -> Progress:
    """Keep the arm's diagnosis, note the waves of its step as lost, and end this wave. The advisor then takes another
    arm.

    Raises `error` if the run cannot go on: if it is no adaptive sweep, if the arm is a baseline, or if no other arm is
    left and nothing is measured.
    """
    variants = run.plan.experiment.variants
    is_baseline = run.plan.experiment.variant(arm.variant).compare_to is None
    rest = {item.name for item in variants if item.compare_to is not None} - run.lost_arms - {arm.variant}
    if run.plan.sweep is None or is_baseline or not (rest or run.state.measured):
        raise error
    name, detail = type(error).__name__, short(str(error))
    where = f"diagnostics/{arm.variant}"
    _, paragraph, _ = examine(rt, run.state.run_id, error=name, detail=str(error), where=where)
    failure = Failure(stage=name, variant=arm.variant, message=f"{paragraph} ({detail})", diagnostics=f"{where}/")
    rounds = run.plan.experiment.rounds
    waves = {wave.index for wave in run.plan.waves if wave.round // rounds == arm.round // rounds}
    change_state(
        rt.store,
        run.state.run_id,
        lost=tuple(sorted(waves.union(run.state.lost).difference(run.state.measured))),
        failures=(*run.state.failures, failure),
    )
    return Progress(done=True, message=f"the sweep goes on without {arm.variant}: {paragraph}")
