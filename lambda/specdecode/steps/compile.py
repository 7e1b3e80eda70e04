"""Compile: make the artifacts that the wave's arms need and that do not exist yet, one at a time."""

from __future__ import annotations

from typing import Any

from specdecode import manifests, names, s3_keys
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.resources import name_of
from specdecode.kubernetes.teardown import run_selector
from specdecode.planning import Arm
from specdecode.planning.cost import compile_minutes
from specdecode.steps.acquire import require_node
from specdecode.steps.compile_ahead import compile_ahead
from specdecode.steps.errors import CompileFailed
from specdecode.steps.going_back import is_back
from specdecode.steps.jobs import advance_job, keep_failed_logs
from specdecode.steps.losing import go_on_without
from specdecode.steps.made_elsewhere import made_elsewhere
from specdecode.steps.pace import attentive
from specdecode.steps.run import Run, load_run, render_context
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step
from specdecode.steps.sessions import Sessions


def compile_arms(given: StepInput, rt: Runtime) -> Progress:
    """Done when the artifact of every arm of the wave is complete in the bucket, or the engine has none.

    Artifacts that another run compiles come last. With `ahead`: the artifacts of all waves, on CPU nodes and without
    the node.
    """
    if given.ahead:
        return compile_ahead(given, rt)
    run = load_run(rt.store, given.run_id)
    ctx = render_context(run, rt)
    if why := run.settled(given.wave):
        return Progress(done=True, message=why)
    require_node(given, rt, run)
    if run.plan.engine.artifact is None:
        return Progress(done=True, message=f"{run.plan.engine.name} compiles nothing")
    arms = {arm.fingerprint: arm for arm in run.wave(given.wave).arms}
    missing = [arm for arm in arms.values() if not rt.store.is_complete(s3_keys.compiled_prefix(arm.fingerprint))]
    if ending := _ending(rt.kube, given.run_id, still_to_do={arm.variant for arm in missing}):
        text = f"{ending} has stored its artifact and still holds its devices"
        return Progress(done=False, message=text, wait_s=run.plan.attentive_seconds)
    waits: list[str] = []
    for arm in _begun_first(missing, run, rt):
        job = manifests.compile_job(run.plan, arm, ctx)
        keep_failed_logs(rt.kube, rt.store, run_id=given.run_id, job=name_of(job))
        try:
            if other := made_elsewhere(arm, run, rt, limit_min=_limit_min(run, given.wave)):
                waits.append(f"{arm.variant}: {other} compiles the same artifact; this run waits for it")
                continue
            done, message, age = advance_job(
                Sessions(rt, ctx, manifests.compile_rights(run.plan, arm)),
                [job],
                root=manifests.run_root(run.plan, ctx),
                limit_min=run.plan.experiment.deadlines.compile,
                failure=CompileFailed,
            )
        except CompileFailed as error:
            return go_on_without(arm, error, run=run, rt=rt)
        if not done:
            expected = compile_minutes(run.plan.served, run.plan.engine, arm.variant).high
            wait_s = attentive(run.plan, age, expected_min=expected)
            return Progress(done=False, message=f"{arm.variant}: {message}", wait_s=wait_s)
        if not rt.store.is_complete(s3_keys.compiled_prefix(arm.fingerprint)):
            raise CompileFailed(f"the Job for {arm.variant} is complete but its artifact {arm.fingerprint} is not")
    if waits:
        return Progress(done=False, message="; ".join(waits), wait_s=run.plan.poll_seconds)
    is_back(run, given.wave, rt=rt)
    return Progress(done=True, message=f"{len(arms)} artifacts are ready")


def _limit_min(run: Run, wave: int) -> int:
    """Minutes for everything that the wave compiles, one after the other, and for its waits."""
    planned = [step.deadline_minutes for step in run.plan.steps if (step.name, step.wave) == ("Compile", wave)]
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
    """Name of a compile pod that has stored its artifact and still exists, or None. A pod that starts beside it would
    get another device group than planned.
    """
    selector = f"{run_selector(run_id)},{names.COMPONENT_LABEL}=compile"
    for pod in kube.list("Pod", namespace=names.NAMESPACE, selector=selector):
        is_active = pod.get("status", {}).get("phase", "Pending") in {"Pending", "Running"}
        if is_active and pod["metadata"]["labels"].get(names.VARIANT_LABEL) not in still_to_do:
            return name_of(pod)
    return None


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(compile_arms, event, context)
