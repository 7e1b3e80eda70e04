"""What a run does about an arm or a folder that is no good, before it fails: three ways on.

- A folder of the bucket that is not what its COMPLETE.json says is set aside, so that it is made anew.
- An artifact of a CPU node from which no server starts is compiled where it serves: Serve notes it and ends with
  ArtifactRefused. The state machine stops the wave's servers, which hold its devices, lets Compile make the noted
  artifacts, and serves the wave again.
- An adaptive sweep goes on without an arm that cannot be measured.
"""

from collections.abc import Iterable, Sequence

from specdecode import finished, s3_keys
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


def is_there(prefix: str, rt: Runtime) -> bool:
    """Whether the folder is finished. One of which a listing shows damage is set aside."""
    seen = finished.find(rt.store, prefix)
    if seen.damage:
        finished.set_aside(rt.store, prefix)
    return seen.content is not None


def note_contents(prefixes: Iterable[str], run: Run, rt: Runtime) -> None:
    """Note the hash of each folder in the run's record: servers compare it, and the report shows it."""
    seen = {prefix: finished.find(rt.store, prefix).content for prefix in prefixes}
    contents = run.state.contents | {prefix: content for prefix, content in seen.items() if content}
    change_state(rt.store, run.state.run_id, contents=contents)


def set_aside(codes: Iterable[int | None], name: str, run: Run, rt: Runtime, *, artifact: str = "") -> str:
    """Set aside what the containers of arm `name` found damaged, by their exit codes. Returns what was done, or "".

    `artifact`: fingerprint of the artifact that they read, if they read one. Of several models it is not known which:
    staging keeps the files of the others, whose hashes are noted. Where a file is missing, a listing shows it.
    """
    found, models = set(codes), [each.prefix for each in run.plan.served.models_of(run.plan.served.variant(name))]
    damaged = [s3_keys.compiled_prefix(artifact)] if artifact and Exit.DAMAGED_ARTIFACT in found else []
    if Exit.DAMAGED_MODEL in found:
        damaged += models
    elif Exit.NOT_FOUND in found:
        damaged += [prefix for prefix in models if finished.find(rt.store, prefix).damage]
    return put_aside(damaged, run, rt)


def put_aside(damaged: Iterable[str], run: Run, rt: Runtime) -> str:
    """Set aside folders that a pod found damaged. Returns what was done, or "".

    A folder that is no longer the one in the run's record stays: another run has made it anew, and nobody found that
    damaged.
    """
    seen = {prefix: finished.find(rt.store, prefix).content for prefix in damaged}
    anew = [prefix for prefix, now in seen.items() if now and run.state.contents.get(prefix, now) != now]
    aside = [prefix for prefix in seen if prefix not in anew]
    for prefix in aside:
        finished.set_aside(rt.store, prefix)
    done = {"set aside, and made anew by the next run": aside, "made anew by another run meanwhile": anew}
    return "".join(f"; {what}: {', '.join(prefixes)}" for what, prefixes in done.items() if prefixes)


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
