"""Serve: start the wave's arms one after the other, so that device groups are given out in the plan's order."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from specdecode import manifests, names
from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.exit_codes import Exit
from specdecode.kubernetes.pods import PodProblem, created_at, is_ready
from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.planning import Arm
from specdecode.runs.state import change_state
from specdecode.steps.acquire import on_the_node
from specdecode.steps.damage import set_aside
from specdecode.steps.errors import DamagedFolder, ServeNotReady
from specdecode.steps.jobs import apply_missing, arm_pods, claims_of, device_group, is_allocated
from specdecode.steps.run import Run, attentive, render_context, soon
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step
from specdecode.steps.setbacks import go_back, go_on_without, is_refused, must_go_back
from specdecode.steps.used import keep_words


@partial(on_the_node, makes_servers=True)
def serve(given: StepInput, rt: Runtime, run: Run) -> Progress:
    """Done when every arm of the wave is ready and its devices are noted."""
    ctx = render_context(run, rt)
    if back := must_go_back(run, given.wave):
        raise back
    groups: list[DeviceGroup] = []
    serving, messages = list[tuple[str, str]](), list[str]()
    for arm in run.wave(given.wave).arms:
        key = manifests.api_key_secret(arm, ctx, key=manifests.new_api_key())
        objects = [key, *manifests.serving(run.plan, arm, ctx)]
        apply_missing(rt.kube, objects, root=manifests.run_root(run.plan, ctx))
        pods, found = arm_pods(rt.kube, given.run_id, arm, owner=manifests.serving_name(arm, ctx), now=rt.now())
        age = _age(objects, rt)
        codes = {problem.exit_code for problem in found}
        if done := set_aside(codes, arm.variant, run, rt, artifact=arm.fingerprint):
            why = f"{next(problem for problem in found if problem.exit_code)}{done}"
            if arm.fallback and Exit.DAMAGED_ARTIFACT in codes:
                raise go_back(arm, why, run=run, rt=rt)
            raise DamagedFolder(f"arm {arm.variant}: {why}")
        if failure := _hopeless(arm, found, age=age, limit_min=run.plan.experiment.deadlines.serve):
            if is_refused(arm, found, run=run):
                raise go_back(arm, str(failure), run=run, rt=rt)
            return go_on_without(arm, failure, run=run, rt=rt)
        claims = rt.kube.list("ResourceClaim", namespace=names.NAMESPACE)
        own = [claim for pod in pods for claim in claims_of(pod, claims)]
        if run.plan.experiment.devices and not (own and all(is_allocated(claim) for claim in own)):
            why = f": {found[0]}" if found else ""
            wait_s = soon(age, then_s=run.plan.poll_seconds)
            return Progress(done=False, message=f"{arm.variant} has no devices yet{why}", wait_s=wait_s)
        serving += [(arm.variant, name_of(pod)) for pod in pods if is_ready(pod)][:1]
        messages += [str(problem) for problem in found[:1]]
        groups.append(device_group(arm, own, rt.kube.list("ResourceSlice")))
    wanted = len(run.wave(given.wave).arms)
    if len(serving) < wanted:
        text = "; ".join([f"{len(serving)} of {wanted} arms are ready", *messages])
        expected = run.plan.timeline.most_minutes("Serve", given.wave)
        return Progress(done=False, message=text, wait_s=attentive(run.plan, age, expected_min=expected))
    others = [known for known in run.state.device_groups if (known.variant, known.round) not in _keys(groups)]
    change_state(rt.store, given.run_id, device_groups=(*others, *groups))
    for variant, pod in serving:
        keep_words(rt.kube, rt.store, run_id=given.run_id, variant=variant, pod=pod)
    return Progress(done=True, message=f"all {wanted} arms are ready")


def _hopeless(arm: Arm, found: Sequence[PodProblem], *, age: timedelta, limit_min: int) -> ServeNotReady | None:
    """Why the arm will never be ready, or is late. None if it may still become ready."""
    for problem in found:
        if problem.fatal:
            return ServeNotReady(f"arm {arm.variant}: {problem}")
    if age > timedelta(minutes=limit_min):
        return ServeNotReady(f"arm {arm.variant} is not ready after {age}{f': {found[0]}' if found else ''}")
    return None


def _keys(groups: Sequence[DeviceGroup]) -> set[tuple[str, int]]:
    return {(group.variant, group.round) for group in groups}


def _age(objects: Sequence[KubeObject], rt: Runtime) -> timedelta:
    """Age of the arm's Deployment."""
    (deployment,) = [obj for obj in objects if obj["kind"] == "Deployment"]
    live = rt.kube.get("Deployment", name_of(deployment), namespace=names.NAMESPACE)
    return timedelta() if live is None else rt.now() - created_at(live)


handler = partial(run_step, serve)
