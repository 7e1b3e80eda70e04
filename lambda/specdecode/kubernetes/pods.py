"""The problems of pods and the state of Jobs, read from the objects alone: pure functions, no API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from specdecode.kubernetes.resources import KubeObject, name_of, parse_time

PULL_REASONS = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
CONFIG_REASONS = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
EVENT_REASONS = {"FailedMount", "FailedAttachVolume", "FailedPrepareDynamicResources", "FailedCreatePodSandBox"}
NO_CLAIM = "FailedResourceClaimCreation"
"""Event on a pod whose claim was not made. The scheduler then reports nothing about the pod, not even that it waits."""
PULL_ERRORS_BEFORE_BACKOFF = {"ErrImagePull"}
SECRET_ON_ITS_WAY = re.compile(r'secret ".+" not found|failed to sync secret cache')
SECRET_GRACE = timedelta(minutes=2)
"""Age of a pod. Below it a missing Secret is no failure: the kubelet sees new Secrets late, and tries again."""
RESTARTS_ALLOWED = 2
"""Restarts that are allowed: a container may start three times. After that it counts as looping, whatever the kubelet
calls it.
"""


class Kind(StrEnum):
    UNSCHEDULABLE = "unschedulable"
    IMAGE_PULL = "image-pull"
    CONTAINER_CONFIG = "container-config"
    CRASH_LOOP = "crash-loop"
    OUT_OF_MEMORY = "out-of-memory"
    EXITED = "exited"
    NOT_READY = "not-ready"
    REFUSED = "refused"
    EVICTED = "evicted"
    NODE_LOST = "node-lost"
    MOUNT = "mount"
    DEVICE_CLAIM = "device-claim"


@dataclass(frozen=True)
class PodProblem:
    """One problem of one pod. `fatal` means that waiting longer cannot help."""

    kind: Kind
    pod: str
    message: str
    fatal: bool
    exit_code: int | None = None

    def __str__(self) -> str:
        return f"{self.pod}: {self.message}"


def condition(obj: KubeObject, kind: str) -> KubeObject:
    """The status condition of that type, or {}."""
    for found in obj.get("status", {}).get("conditions") or []:
        if found.get("type") == kind:
            return dict(found)
    return {}


def is_true(obj: KubeObject, kind: str) -> bool:
    return condition(obj, kind).get("status") == "True"


def is_ready(pod: KubeObject) -> bool:
    """Whether the pod is Ready and is not being deleted."""
    return is_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]


def restarts(pod: KubeObject) -> int:
    """How often the pod's containers were started again."""
    return sum(status.get("restartCount", 0) for status in container_statuses(pod))


def problems(
    pods: Iterable[KubeObject],
    *,
    nodes: Sequence[KubeObject] = (),
    events: Sequence[KubeObject] = (),
    now: datetime | None = None,
) -> list[PodProblem]:
    """All problems of `pods`, the fatal ones first.

    `nodes` are the nodes that exist: a pod that is bound to another one has lost its node (not checked if empty).
    `events` are those of the pods' namespace. Without `now` no pod counts as young.
    """
    known = {name_of(node): is_true(node, "Ready") for node in nodes}
    found: list[PodProblem] = []
    for pod in pods:
        if pod.get("status", {}).get("phase") == "Succeeded":
            continue
        found += _of_pod(pod) + _of_node(pod, known) + _of_containers(pod, now) + _of_events(pod, events)
    return sorted(found, key=lambda problem: not problem.fatal)


def refusals(owner: str, events: Sequence[KubeObject]) -> list[PodProblem]:
    """Why the Job or Deployment `owner` has no pod, if its controller was not allowed to create one.

    The namespace's quota, limit ranges and Pod Security Standard refuse pods, not the objects that make them. Only an
    Event tells of it.
    """
    found = []
    for event in events:
        about, message = event.get("involvedObject", {}), event.get("message", "")
        names = {"Job": about.get("name"), "ReplicaSet": str(about.get("name", "")).rpartition("-")[0]}
        if event.get("reason") == "FailedCreate" and names.get(about.get("kind", "")) == owner:
            fatal = "is forbidden:" in message or "is invalid:" in message
            found.append(PodProblem(Kind.REFUSED, owner, message, fatal))
    return found


def _of_pod(pod: KubeObject) -> list[PodProblem]:
    status, name = pod.get("status", {}), name_of(pod)
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return [
            PodProblem(Kind.UNSCHEDULABLE, name, f"not scheduled: {scheduled.get('message', 'no reason given')}", False)
        ]
    if status.get("phase") == "Failed" and status.get("reason") in {"Evicted", "NodeLost", "Shutdown", "Terminated"}:
        kind = Kind.EVICTED if status["reason"] == "Evicted" else Kind.NODE_LOST
        return [PodProblem(kind, name, f"{status['reason']}: {status.get('message', '')}".strip(), True)]
    return []


def _of_node(pod: KubeObject, known: dict[str, bool]) -> list[PodProblem]:
    node = pod.get("spec", {}).get("nodeName")
    if not node or not known:
        return []
    if node not in known:
        return [PodProblem(Kind.NODE_LOST, name_of(pod), f"its node {node} no longer exists", True)]
    if not known[node]:
        return [PodProblem(Kind.NODE_LOST, name_of(pod), f"its node {node} is not Ready", False)]
    return []


def _of_containers(pod: KubeObject, now: datetime | None) -> list[PodProblem]:
    name, found = name_of(pod), []
    for status in container_statuses(pod):
        container, waiting = status["name"], status.get("state", {}).get("waiting") or {}
        ended = status.get("state", {}).get("terminated") or status.get("lastState", {}).get("terminated") or {}
        reason, detail = waiting.get("reason", ""), waiting.get("message", "")
        if reason in PULL_REASONS:
            fatal = reason not in PULL_ERRORS_BEFORE_BACKOFF
            found.append(PodProblem(Kind.IMAGE_PULL, name, f"{reason} of {status.get('image', '?')}: {detail}", fatal))
        elif reason in CONFIG_REASONS:
            fatal = not (SECRET_ON_ITS_WAY.search(detail) and _is_young(pod, now))
            found.append(PodProblem(Kind.CONTAINER_CONFIG, name, f"{reason} of container {container}: {detail}", fatal))
        if not ended or ended.get("exitCode", 0) == 0:
            continue
        code = ended["exitCode"]
        if ended.get("reason") == "OOMKilled":
            found.append(PodProblem(Kind.OUT_OF_MEMORY, name, f"container {container} ran out of memory", True, code))
        elif reason == "CrashLoopBackOff" or status.get("restartCount", 0) > RESTARTS_ALLOWED:
            text = (
                f"container {container} keeps ending with exit code {code} ({status.get('restartCount', 0)} restarts)"
            )
            found.append(PodProblem(Kind.CRASH_LOOP, name, text, True, code))
        else:
            found.append(
                PodProblem(Kind.EXITED, name, f"container {container} ended with exit code {code}", False, code)
            )
    return found


def _is_young(pod: KubeObject, now: datetime | None) -> bool:
    started = pod["metadata"].get("creationTimestamp")
    return now is not None and started is not None and now - parse_time(started) < SECRET_GRACE


def _of_events(pod: KubeObject, events: Sequence[KubeObject]) -> list[PodProblem]:
    name, found = name_of(pod), []
    for event in events:
        if event.get("involvedObject", {}).get("name") != name or event.get("type") != "Warning":
            continue
        reason, message = event.get("reason", ""), event.get("message", "")
        if reason == "Unhealthy" and not is_ready(pod):
            found.append(PodProblem(Kind.NOT_READY, name, f"probe failed: {message}", False))
        elif reason in EVENT_REASONS and pod.get("status", {}).get("phase", "Pending") == "Pending":
            found.append(PodProblem(Kind.MOUNT, name, f"{reason}: {message}", False))
        elif reason == NO_CLAIM and not pod.get("status", {}).get("resourceClaimStatuses"):
            found.append(PodProblem(Kind.DEVICE_CLAIM, name, f"{reason}: {message}", "not found" in message))
    return found


def container_statuses(pod: KubeObject) -> list[KubeObject]:
    """The statuses of all containers of a pod. Init containers come first."""
    status = pod.get("status", {})
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


class Phase(StrEnum):
    ACTIVE = "active"
    COMPLETE = "complete"
    FAILED = "failed"


@dataclass(frozen=True)
class JobState:
    """Phase of a Job, why it failed, and how many of its pods failed so far."""

    phase: Phase
    message: str
    failed_pods: int


def job_state(job: KubeObject) -> JobState:
    failed_pods = int(job.get("status", {}).get("failed") or 0)
    if is_true(job, "Complete"):
        return JobState(Phase.COMPLETE, "complete", failed_pods)
    if is_true(job, "Failed"):
        found = condition(job, "Failed")
        return JobState(Phase.FAILED, f"{found.get('reason', 'Failed')}: {found.get('message', '')}", failed_pods)
    return JobState(Phase.ACTIVE, f"{job.get('status', {}).get('active') or 0} pod running", failed_pods)


def created_at(obj: KubeObject) -> datetime:
    """The creation time, with its zone."""
    return parse_time(str(obj["metadata"]["creationTimestamp"]))
