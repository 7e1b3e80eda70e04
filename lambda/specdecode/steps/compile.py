"""Compile: make the missing artifacts of the wave's arms, one at a time; or those of CPU nodes, before the queue."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from specdecode import manifests, names, s3_keys
from specdecode.experiment.shapes import COMPILERS
from specdecode.experiment.sizing import arms_at_once
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.node_room import DRA_DRIVER
from specdecode.kubernetes.pods import Phase, created_at, job_state
from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.kubernetes.teardown import run_selector
from specdecode.planning import Arm
from specdecode.planning.artifacts import groups
from specdecode.planning.timeline import COMPILE, ON_CPU, cpu_deadline
from specdecode.runs.state import change_state
from specdecode.steps.acquire import looks_twice, on_the_node, require_node
from specdecode.steps.damage import is_there, note_contents, set_aside
from specdecode.steps.errors import CompileFailed, DamagedFolder, StartCheckFailed
from specdecode.steps.jobs import Advance, advance_job, keep_failed_logs
from specdecode.steps.paid import note_compiles
from specdecode.steps.run import Run, attentive, load_run, render_context
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step
from specdecode.steps.setbacks import go_on_without, is_back

INSTEAD = "on a CPU node, before the node was taken; --set compile.on=accelerator compiles on the node"


def compile_arms(given: StepInput, rt: Runtime) -> Progress:
    """The start check, or what is compiled on CPU nodes (`ahead`) or on the node, as `given` says."""
    if given.start_check:
        return start_check(given, rt)
    return _compile_ahead(load_run(rt.store, given.run_id), rt) if given.ahead else _on_the_node(given, rt)


@partial(on_the_node, makes_servers=True)
def _on_the_node(given: StepInput, rt: Runtime, run: Run) -> Progress:
    """Done when the artifact of every arm of the wave is complete in the bucket, or the engine has none.

    Artifacts of CPU nodes count as there: Serve finds out whether they load. Those that another run compiles come last.
    """
    if run.plan.engine.artifact is None:
        return Progress(done=True, message=f"{run.plan.engine.name} compiles nothing")
    arms = {arm.fingerprint: arm for arm in run.wave(given.wave).arms if not arm.fallback}
    missing = _missing(arms, run, rt)
    note_compiles(COMPILE, missing, run, rt, wave=given.wave)
    if ending := _ending(rt.kube, given.run_id, still_to_do={arm.variant for arm in missing}):
        text = f"{ending} has stored its artifact and still holds its devices"
        return Progress(done=False, message=text, wait_s=run.plan.attentive_seconds)
    waits: list[str] = []
    for arm in _begun_first(missing, run, rt):
        try:
            found = _advance(arm, run, rt, awaited_min=_limit_min(run, given.wave))
        except CompileFailed as error:
            return go_on_without(arm, error, run=run, rt=rt)
        if found.is_elsewhere:
            waits.append(found.message)
            continue
        if not found.done:
            expected = run.plan.timeline.most_minutes_to_compile(arm.variant)
            wait_s = attentive(run.plan, found.age, expected_min=expected)
            return Progress(done=False, message=found.message, wait_s=wait_s)
        _require_artifact(arm, run, rt)
    if waits:
        return Progress(done=False, message="; ".join(waits), wait_s=run.plan.poll_seconds)
    note_contents(map(s3_keys.compiled_prefix, {arm.fingerprint for arm in run.wave(given.wave).arms}), run, rt)
    if run.state.awaited:  # a later wave that finds an artifact damaged waits anew
        change_state(rt.store, given.run_id, awaited={})
    is_back(run, given.wave, rt=rt)
    return Progress(done=True, message=f"{len(arms)} artifacts are ready" if arms else "CPU nodes have compiled all")


def _compile_ahead(run: Run, rt: Runtime) -> Progress:
    """Done when every artifact that CPU nodes compile is there. A failure fails the run: no node was paid for yet."""
    waves = [run.wave(wave.index) for wave in run.plan.waves if run.settled(wave.index) is None]
    arms = {arm.fingerprint: arm for wave in waves for arm in wave.arms if arm.fallback}
    if not arms:
        return Progress(done=True, message="nothing is compiled on CPU nodes")
    missing = _missing(arms, run, rt)
    note_compiles(ON_CPU, missing, run, rt)
    messages = [f"{len(missing) - COMPILERS} wait for a CPU node"] if len(missing) > COMPILERS else []
    limit = cpu_deadline(run.plan.served, run.plan.engine)
    for arm in missing[:COMPILERS]:
        try:
            found = _advance(arm, run, rt, awaited_min=limit)
        except CompileFailed as error:
            raise CompileFailed(f"{arm.variant}: {error} ({INSTEAD})") from None
        if found.done:
            _require_artifact(arm, run, rt)
        else:
            messages.append(found.message)
    if messages:
        return Progress(done=False, message="; ".join(messages), wait_s=run.plan.poll_seconds)
    return Progress(done=True, message=f"{len(arms)} artifacts are ready, compiled on CPU nodes")


def _advance(arm: Arm, run: Run, rt: Runtime, *, awaited_min: int) -> Advance:
    """One look at the artifact of `arm`. `awaited_min`: limit for another run's and the own compilation together."""
    work = manifests.compile_job(run.plan, arm, render_context(run, rt))
    keep_failed_logs(rt.kube, rt.store, run_id=run.state.run_id, job=name_of(work.job))
    if other := made_elsewhere(arm, run, rt, limit_min=awaited_min):
        text = f"{arm.variant}: {other} compiles the same artifact; this run waits for it"
        return Advance(False, text, is_elsewhere=True)
    try:
        found = advance_job(run, rt, work, failure=CompileFailed)
    except CompileFailed as error:
        raise CompileFailed(
            f"{error}{set_aside(error.exit_codes, arm.variant, run, rt, artifact=arm.fingerprint)}"
        ) from None
    return found._replace(message=f"{arm.variant}: {found.message}")


def _missing(arms: Mapping[str, Arm], run: Run, rt: Runtime) -> list[Arm]:
    return [arm for made, arm in arms.items() if not is_there(s3_keys.compiled_prefix(made), run, rt)]


def _require_artifact(arm: Arm, run: Run, rt: Runtime) -> None:
    if not is_there(s3_keys.compiled_prefix(arm.fingerprint), run, rt):
        raise CompileFailed(f"the Job for {arm.variant} is complete but its artifact {arm.fingerprint} is not")


def _limit_min(run: Run, wave: int) -> int:
    """Minutes for everything that the wave compiles, and for its waits."""
    planned = [step.deadline_minutes for step in run.plan.steps if (step.name, step.wave) == (COMPILE, wave)]
    return max(run.plan.experiment.deadlines.compile, *planned, 0)


def _begun_first(missing: list[Arm], run: Run, rt: Runtime) -> list[Arm]:
    """`missing`, with artifacts that this run compiles already before the rest.

    So one is compiled at a time, even if another run's Job for an earlier arm has failed meanwhile. The run waits for
    artifacts of other runs only when nothing else is left to do.
    """
    selector = f"{run_selector(run.state.run_id)},{names.COMPONENT_LABEL}=compile"
    jobs = rt.kube.list("Job", namespace=names.NAMESPACE, selector=selector)
    begun = {job["metadata"]["labels"].get(names.ARTIFACT_LABEL) for job in jobs}
    return sorted(missing, key=lambda arm: arm.fingerprint not in begun)


def _ending(kube: Kubernetes, run_id: str, *, still_to_do: set[str]) -> str | None:
    """A compile pod that has stored its artifact and still exists. One beside it would get other devices."""
    selector = f"{run_selector(run_id)},{names.COMPONENT_LABEL}=compile"
    for pod in kube.list("Pod", namespace=names.NAMESPACE, selector=selector):
        is_active = pod.get("status", {}).get("phase", "Pending") in {"Pending", "Running"}
        if is_active and pod["metadata"]["labels"].get(names.VARIANT_LABEL) not in still_to_do:
            return name_of(pod)
    return None


def made_elsewhere(arm: Arm, run: Run, rt: Runtime, *, limit_min: int) -> str | None:
    """The run that compiles the arm's artifact now, so that this run waits. None if no other run does.

    The Job that was made first goes on. If two were made between two looks, each sees the other at the next look, long
    before one has anything to store; the later one is deleted.

    Raises CompileFailed if waiting and compiling together took longer than `limit_min`, the step's deadline. So a wait
    costs no more than the compilation would.
    """
    own = names.run_label(run.state.run_id)
    jobs = rt.kube.list("Job", namespace=names.NAMESPACE, selector=f"{names.ARTIFACT_LABEL}={arm.fingerprint}")
    active = [
        job for job in jobs if job_state(job).phase is Phase.ACTIVE and "deletionTimestamp" not in job["metadata"]
    ]
    first = min(active, key=lambda job: (created_at(job), name_of(job)), default=None)
    waited = run.state.awaited.get(arm.fingerprint)
    if waited is not None and rt.now() - waited > timedelta(minutes=limit_min):
        raise CompileFailed(f"{arm.fingerprint} was not made within {limit_min} min, by another run or by this one")
    if first is None or _run_of(first) == own:
        return None
    for job in active:
        if _run_of(job) == own:
            rt.kube.delete("Job", name_of(job), namespace=names.NAMESPACE)
    if waited is None:
        change_state(rt.store, run.state.run_id, awaited={**run.state.awaited, arm.fingerprint: rt.now()})
    return _run_of(first)


def _run_of(job: KubeObject) -> str:
    return str(job["metadata"]["labels"].get(names.RUN_LABEL, ""))


# --- the start check: each kind of arm starts once with a tiny model before anything is compiled (ADR 198)


@looks_twice
def start_check(given: StepInput, rt: Runtime) -> Progress:
    """Done when the arms that the plan names have started and answered. The message says what it cost.

    Arms that fit on the node together start together. Raises StartCheckFailed if one does not start or answer, or if a
    group takes longer than its deadline, and DamagedFolder if it is for a model that is not as it was stored.
    """
    run = load_run(rt.store, given.run_id)
    if not run.plan.start_checks or run.is_all_settled:
        return Progress(done=True, message="no kind of arm must be checked")
    if run.state.start_check_minutes is None:
        require_node(given, rt, run)
        _require_devices(run, rt)
        size = arms_at_once(run.plan.experiment, run.plan.engine)
        oldest, checks = timedelta(), groups(run.plan.start_checks, size=size)
        for group in checks:
            found = {name: _advance_check(name, run, rt) for name in group}
            if waits := [f"{name}: {each.message}" for name, each in found.items() if not each.done]:
                age = max(each.age for each in found.values())
                expected = run.plan.timeline.most_minutes("StartCheck") / len(checks)
                wait_s = attentive(run.plan, age, expected_min=expected)
                return Progress(done=False, message="; ".join(waits), wait_s=wait_s)
            oldest = max(oldest, *(each.age for each in found.values()))
        change_state(rt.store, given.run_id, start_check_minutes=round(oldest.total_seconds() / 60, 2))
        return start_check(given, rt)
    arms = " and ".join(run.plan.start_checks)
    return Progress(done=True, message=f"{arms} started with a tiny model: {what_it_cost(run)}")


def what_it_cost(run: Run) -> str:
    """Minutes and dollars of the check that has passed. Empty without one."""
    minutes = run.state.start_check_minutes
    if minutes is None:
        return ""
    return f"{minutes:.1f} min of the node, ${minutes / 60 * run.plan.price_per_node_hour:.2f}"


def _require_devices(run: Run, rt: Runtime) -> None:
    """Refuse a node with fewer devices than the arms need that are served together: small models need not show it."""
    need = arms_at_once(run.plan.served, run.plan.engine) * run.plan.experiment.devices
    node = run.state.node
    if not need or node is None:
        return
    slices = [item["spec"] for item in rt.kube.list("ResourceSlice")]
    offered = sum(
        len(it.get("devices") or ()) for it in slices if (it["driver"], it.get("nodeName")) == (DRA_DRIVER, node)
    )
    if offered < need:
        raise StartCheckFailed(f"node {node} offers {offered} Neuron devices, and the arms need {need}")


def _advance_check(name: str, run: Run, rt: Runtime) -> Advance:
    """One look at the Job of the arm. Raises StartCheckFailed or DamagedFolder, which name the arm."""
    work = manifests.start_check_job(run.plan, run.plan.served.variant(name), render_context(run, rt))
    keep_failed_logs(rt.kube, rt.store, run_id=run.state.run_id, job=name_of(work.job))
    try:
        return advance_job(run, rt, work, failure=StartCheckFailed)
    except StartCheckFailed as error:
        done = set_aside(error.exit_codes, name, run, rt)
        raise (DamagedFolder if done else StartCheckFailed)(f"{name}: {error}{done}") from None


handler = partial(run_step, compile_arms)
