"""What a run does about an arm that is no good, before it fails: two ways on.

- An artifact of a CPU node from which no server starts is compiled where it serves: Serve notes it and ends with
  ArtifactRefused. The state machine stops the wave's servers, which hold its devices, lets Compile make the noted
  artifacts, and serves the wave again.
- An adaptive sweep goes on without an arm that cannot be measured.
"""

from collections.abc import Sequence

from specdecode.analysis.results.run_context import Failure
from specdecode.exit_codes import Exit
from specdecode.kubernetes.pods import Kind, PodProblem
from specdecode.planning import Arm
from specdecode.runs.state import change_state
from specdecode.steps.diagnose import examine, short
from specdecode.steps.errors import ArtifactRefused, StepFailed
from specdecode.steps.run import Run
from specdecode.steps.runtime import Progress, Runtime

NOT_THE_ARTIFACTS_FAULT = (Exit.NO_DEVICE, Exit.NO_SPACE)
"""Exit codes with which a server's pod ends before it reads the artifact: another artifact would not help."""


def is_refused(arm: Arm, found: Sequence[PodProblem], *, run: Run) -> bool:
    """Whether the server of `arm` ends again and again with a CPU node's artifact, on a node that is as it must be.

    Not if this run has measured an arm with that artifact: it does load, so something else is wrong.
    """
    if not arm.fallback:
        return False
    own = set(run.state.measured).difference(run.state.inherited)
    if any(other.fingerprint == arm.fingerprint for index in own for other in run.wave(index).arms):
        return False
    return any(p.kind is Kind.CRASH_LOOP and p.exit_code not in NOT_THE_ARTIFACTS_FAULT for p in found)


def go_back(arm: Arm, why: str, *, run: Run, rt: Runtime) -> ArtifactRefused:
    """Keep the server's logs and note that the node compiles for `arm`. Returns the error to end the step with."""
    where = f"diagnostics/{arm.variant}-compiled-on-cpu"
    message = (
        f"{arm.variant} does not start from the artifact {arm.fingerprint}, which a CPU node compiled: it is compiled "
        "on the node"
    )
    examine(rt, run.state.run_id, error=ArtifactRefused.__name__, detail=f"{message} ({why})", where=where)
    failure = Failure(
        stage=ArtifactRefused.__name__,
        variant=arm.variant,
        message=f"{message} ({short(why)})",
        diagnostics=f"{where}/",
    )
    change_state(
        rt.store,
        run.state.run_id,
        refused_artifacts=(*run.state.refused_artifacts, arm.fingerprint),
        sent_back=(*run.state.sent_back, arm.wave),
        failure=failure,
    )
    return ArtifactRefused(message)


def must_go_back(run: Run, wave: int) -> ArtifactRefused | None:
    """The same error again, if Serve has noted it but could not raise it: Compile has not run yet."""
    if wave not in run.state.sent_back:
        return None
    return ArtifactRefused(f"an artifact of wave {wave} did not load: it is compiled on the node first")


def is_back(run: Run, wave: int, *, rt: Runtime) -> None:
    """Note that Compile has made the noted artifacts of `wave`."""
    if wave in run.state.sent_back:
        left = tuple(other for other in run.state.sent_back if other != wave)
        change_state(rt.store, run.state.run_id, sent_back=left)


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
        failure=failure,
    )
    return Progress(done=True, message=f"the sweep goes on without {arm.variant}: {paragraph}")
