"""The way back to the node: if no server starts from an artifact of a CPU node, it is compiled where it serves.

Serve notes it and ends with ArtifactRefused. The state machine stops the wave's servers, which hold its devices, lets
Compile make the noted artifacts, and serves the wave again.
"""

from collections.abc import Sequence

from specdecode.analysis.results.run_context import Failure
from specdecode.exit_codes import Exit
from specdecode.kubernetes.pods import Kind, PodProblem
from specdecode.planning import Arm
from specdecode.runs.state import change_state
from specdecode.steps.diagnose import examine, short
from specdecode.steps.errors import ArtifactRefused
from specdecode.steps.run import Run
from specdecode.steps.runtime import Runtime

NOT_THE_ARTIFACTS_FAULT = (Exit.NO_DEVICE, Exit.NO_SPACE)
"""Exit codes with which a server's pod ends before it reads the artifact: another artifact would not help."""


def is_refused(arm: Arm, found: Sequence[PodProblem], *, run: Run) -> bool:
    """Whether the server of `arm` ends again and again with a CPU node's artifact, on a node that is as it must be.

    False if this run has measured an arm that was served from that artifact: it does load, so something else is wrong.
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
        failures=(*run.state.failures, failure),
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
