"""The way back to the node: an artifact that a CPU node compiled and no server starts from is compiled where it serves.

Serve notes it and ends with ArtifactRefused; the state machine stops the wave's servers, which hold its devices, lets
Compile make what is noted, and serves the wave again.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.analysis.results.context import Failure
from specdecode.exit_codes import Exit
from specdecode.kubernetes.pods import Kind, PodProblem
from specdecode.planning import Arm
from specdecode.runs.state import change_state
from specdecode.steps.diagnose import examine, short
from specdecode.steps.errors import ArtifactRefused
from specdecode.steps.run import Run
from specdecode.steps.runtime import Runtime

NOT_THE_ARTIFACTS_FAULT = (Exit.NO_DEVICE, Exit.NO_SPACE)
"""With which a server's pod ends before it looks at the artifact: another one would help nothing."""


def is_refused(arm: Arm, found: Sequence[PodProblem], *, run: Run) -> bool:
    """Whether the server of `arm` ends again and again though its node is as it must be, with a CPU node's artifact.

    Not where this run has measured an arm that was served from it: it loads, so that something else is wrong.
    """
    if not arm.fallback:
        return False
    own = set(run.state.measured).difference(run.state.inherited)
    if any(other.fingerprint == arm.fingerprint for index in own for other in run.wave(index).arms):
        return False
    return any(p.kind is Kind.CRASH_LOOP and p.exit_code not in NOT_THE_ARTIFACTS_FAULT for p in found)


def go_back(arm: Arm, why: str, *, run: Run, rt: Runtime) -> ArtifactRefused:
    """Keep the server's logs and note that the node compiles for `arm`; the error to end the step with."""
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
    """The same error where Serve has noted it and did not get to say it, for Compile has not been there yet."""
    if wave not in run.state.sent_back:
        return None
    return ArtifactRefused(f"an artifact of wave {wave} did not load: it is compiled on the node first")


def is_back(run: Run, wave: int, *, rt: Runtime) -> None:
    """Compile has made what was noted of `wave`."""
    if wave in run.state.sent_back:
        left = tuple(other for other in run.state.sent_back if other != wave)
        change_state(rt.store, run.state.run_id, sent_back=left)
