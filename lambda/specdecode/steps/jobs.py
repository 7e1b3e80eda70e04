"""Brings a Job to completion, one look at a time: the common part of staging, compiling, smoke test and benchmark."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from specdecode import names, s3_keys
from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.kubernetes.client import Kubernetes, KubernetesError
from specdecode.kubernetes.pods import (
    Kind,
    Phase,
    PodProblem,
    container_statuses,
    created_at,
    is_ready,
    job_state,
    problems,
    refusals,
    restarts,
)
from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.manifests import RenderContext, Rights, StepJob, owned, run_root, session_policy, session_secret
from specdecode.planning import Arm, Wave
from specdecode.steps import logs
from specdecode.steps.errors import AccessRefused, StepFailed
from specdecode.steps.run import Run, render_context
from specdecode.steps.runtime import Runtime
from specdecode.store import Store


def apply_missing(
    kube: Kubernetes, objects: Sequence[KubeObject], *, root: KubeObject, fresh: Sequence[KubeObject] = ()
) -> None:
    """Apply the objects of `objects` that do not exist, owned by the run's `root`. Objects that an earlier try made
    stay as they are. `fresh` objects are applied with them, in place of existing ones.

    Objects that pods refer to (Services, ConfigMaps, Secrets) come before objects that make pods. The step may create
    Secrets and not read them: they are made if anything else is missing, unless they exist.
    """
    secrets = [obj for obj in objects if obj["kind"] == "Secret"]
    others = [obj for obj in objects if obj["kind"] != "Secret"]
    missing = [obj for obj in others if kube.get(obj["kind"], name_of(obj), namespace=names.NAMESPACE) is None]
    if not missing:
        return
    owner = kube.apply(root)
    for secret in secrets:
        kube.create(owned(secret, owner))
    for obj in fresh:
        kube.replace(owned(obj, owner))
    for obj in sorted(missing, key=lambda obj: obj["kind"] in {"Deployment", "Job"}):
        kube.apply(owned(obj, owner))


def look_at_pods(
    kube: Kubernetes, *, selector: str, owner: str = "", now: datetime | None = None
) -> tuple[list[KubeObject], list[PodProblem]]:
    """The pods that match, and their problems at `now`; first why their Job or Deployment `owner` may make no other."""
    pods = kube.list("Pod", namespace=names.NAMESPACE, selector=selector)
    events = kube.list("Event", namespace=names.NAMESPACE, fields="type=Warning")
    refused = refusals(owner, events, pods=pods, now=now)
    if not pods:
        return [], refused
    return pods, refused + problems(pods, nodes=kube.list("Node"), events=events, now=now)


class Advance(NamedTuple):
    done: bool
    message: str
    age: timedelta = timedelta()
    is_elsewhere: bool = False
    """Whether another run does it."""


def advance_job(
    run: Run,
    rt: Runtime,
    work: StepJob,
    *,
    failure: type[StepFailed],
) -> Advance:
    """Make the Job exist, with a session of its rights for its pods; its state.

    Raises `failure` if it failed, if its pod cannot start, or if it is older than its minutes.
    """
    kube, now, ctx = rt.kube, rt.now(), render_context(run, rt)
    sessions, job = Sessions(rt, ctx, work.rights), work.job
    live = kube.get("Job", name_of(job), namespace=names.NAMESPACE)
    if live is None:
        apply_missing(kube, work.objects, root=run_root(run.plan, ctx), fresh=[sessions.make(job)])
        return Advance(False, f"started {name_of(job)}")
    state = job_state(live)
    if state.phase is Phase.COMPLETE:
        return Advance(True, f"{name_of(job)} is complete", now - created_at(live))
    pods, found = look_at_pods(kube, owner=name_of(job), selector=f"job-name={name_of(job)}", now=now)
    if state.phase is Phase.FAILED:
        codes = {problem.exit_code for problem in found}
        raise failure(f"{name_of(job)} failed: {state.message}{_because(found)}", exit_codes=codes)
    ended = {name_of(pod) for pod in pods if pod.get("status", {}).get("phase") == "Failed"}
    hopeless = [p for p in found if p.fatal and (p.pod not in ended or p.kind is Kind.OUT_OF_MEMORY)]
    if hopeless:
        raise failure(f"{name_of(job)} cannot finish{_because(hopeless)}")
    if now - created_at(live) > timedelta(minutes=work.minutes):
        raise failure(f"{name_of(job)} did not finish within {work.minutes} min{_because(found)}")
    sessions.renew(live)
    waiting = f"; {found[0]}" if found else ""
    message = f"{name_of(job)}: {state.message}, {state.failed_pods} failed{waiting}"
    return Advance(False, message, now - created_at(live))


def keep_failed_logs(kube: Kubernetes, store: Store, *, run_id: str, job: str) -> list[str]:
    """Store the logs of the Job's failed pods in the run's folder: a later success deletes the pods. Returns the new
    keys.

    If a log cannot be read, the reason is kept instead. It is not asked for again: a kubelet that does not answer costs
    20 s.
    """
    kept = []
    for pod in kube.list("Pod", namespace=names.NAMESPACE, selector=f"job-name={job}"):
        for container in container_statuses(pod):
            if "waiting" in container.get("state", {}):  # it never started: one before it failed
                continue
            key = s3_keys.run_key(run_id, "diagnostics", "logs", f"{name_of(pod)}.{container['name']}.log")
            if pod["status"].get("phase") == "Failed" and store.read(key) is None:
                try:
                    text = kube.logs(name_of(pod), namespace=names.NAMESPACE, container=container["name"])
                except KubernetesError as error:
                    text = f"(no log: {error})\n"
                store.write(key, text, content_type="text/plain; charset=utf-8")
                kept.append(key)
    return kept


def _because(found: Sequence[PodProblem]) -> str:
    return "" if not found else ": " + "; ".join(dict.fromkeys(str(problem) for problem in found[:4]))


def arm_pods(
    kube: Kubernetes, run_id: str, arm: Arm, *, owner: str = "", now: datetime | None = None
) -> tuple[list[KubeObject], list[PodProblem]]:
    """The serving pods of `arm` in its wave, and their problems, as look_at_pods() finds them."""
    selector = (
        f"{names.RUN_LABEL}={names.run_label(run_id)},{names.COMPONENT_LABEL}=serving,"
        f"{names.VARIANT_LABEL}={arm.variant},{names.WAVE_LABEL}={arm.wave}"
    )
    return look_at_pods(kube, selector=selector, owner=owner, now=now)


def check_alive(kube: Kubernetes, run_id: str, wave: Wave, *, failure: type[StepFailed]) -> None:
    """Raise `failure` for an arm of `wave` that no longer serves, or that restarted under load."""
    for arm in wave.served:
        pods, found = arm_pods(kube, run_id, arm)
        if not any(is_ready(pod) for pod in pods) or any(restarts(pod) for pod in pods):
            why = "; ".join(str(problem) for problem in found[:3]) or f"pods: {[name_of(pod) for pod in pods]}"
            raise failure(f"arm {arm.variant} died under load: {why}")


def claims_of(pod: KubeObject, claims: Sequence[KubeObject]) -> list[KubeObject]:
    return [
        claim
        for claim in claims
        if any(owner.get("name") == name_of(pod) for owner in claim["metadata"].get("ownerReferences") or [])
    ]


def is_allocated(claim: KubeObject) -> bool:
    return bool(claim.get("status", {}).get("allocation"))


def device_group(arm: Arm, claims: Sequence[KubeObject], slices: Sequence[KubeObject]) -> DeviceGroup:
    """The devices of an arm's claims, and the device group that they form."""
    results = [
        result
        for claim in claims
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or []
    ]
    published = {
        (item["spec"]["driver"], item["spec"]["pool"]["name"], device["name"]): device
        for item in slices
        for device in item["spec"].get("devices") or []
    }
    groups = set()
    for result in results:
        device = published.get((result["driver"], result["pool"], result["device"]), {})
        attributes = device.get("attributes") or device.get("basic", {}).get("attributes") or {}
        groups.add(_group_of(attributes, size=len(results)))
    return DeviceGroup(
        variant=arm.variant,
        round=arm.round,
        devices=tuple(sorted(result["device"] for result in results)),
        group=",".join(sorted(groups - {""})),
    )


def _group_of(attributes: KubeObject, *, size: int) -> str:
    """The group of `size` devices to which a device belongs: the first attribute of the driver that names one."""
    for name in (f"resource.aws.com/devicegroup{size}_id", f"topology{size}_id"):
        if name in attributes:
            return str(next(iter(attributes[name].values())))
    return ""


LASTS = timedelta(hours=1)
"""Longest session that a role may give to another role ("role chaining", IAM user guide, "Terms and concepts")."""
RENEWED_AT = timedelta(minutes=35)
"""It is renewed when less is left. A pod reads the new one from 15 minutes before the end (botocore, credentials.py), a
mounted Secret follows in 60 to 90 s, and a step looks every minute. So about 15 failed looks do no harm.
"""
REFUSED = (
    "AccessDenied",
    "MalformedPolicyDocument",
    "PackedPolicyTooLarge",
    "ValidationError",
    "RegionDisabledException",
)
"""Errors of STS that another try cannot mend."""


@dataclass(frozen=True)
class Sessions:
    """For the pods of one Job: their rights, and the Secret with their session of AWS. It is made with the Job, and
    renewed when the step looks (ADR 127).
    """

    rt: Runtime
    ctx: RenderContext
    rights: Rights

    def make(self, job: KubeObject) -> KubeObject:
        """The Secret of `job` with a new session. Raises AccessRefused, or botocore's error if STS cannot do it now."""
        role = self.rt.environ["POD_ROLE_ARN"]
        policy = session_policy(self.rights, self.ctx, partition=role.split(":")[1])
        try:
            answer = self.rt.clients("sts").assume_role(
                RoleArn=role,
                RoleSessionName=name_of(job),
                Policy=policy,
                DurationSeconds=int(LASTS.total_seconds()),
            )
        except ClientError as error:
            if error.response["Error"]["Code"] not in REFUSED:
                raise
            raise AccessRefused(
                f"AWS gives the pods of {name_of(job)} no session of {role}: {error}. Deploy SpecDecodeStack again if "
                "somebody changed the role or its trust. A policy of the organization may deny sts:AssumeRole, too"
            ) from None
        self.rt.sessions[name_of(job)] = answer["Credentials"]["Expiration"]
        return session_secret(job, answer["Credentials"])

    def renew(self, live: KubeObject) -> None:
        """Put a new session into the Secret of the running Job `live` if the old one ends soon.

        A function that started cold does not know when it ends (no function may read a Secret) and renews at once. If
        AWS cannot do it now, the next look tries again, as long as the session lasts.
        """
        until = self.rt.sessions.get(name_of(live))
        left = until - self.rt.now() if until else timedelta()
        if left > RENEWED_AT:
            return
        try:
            secret = self.make(live)
        except (ClientError, BotoCoreError) as error:
            if left <= timedelta():
                raise
            logs.info("session not renewed", job=name_of(live), minutes_left=left.total_seconds() // 60, why=str(error))
            return
        secret["metadata"]["ownerReferences"] = live["metadata"]["ownerReferences"]
        self.rt.kube.replace(secret)
