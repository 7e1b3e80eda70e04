"""The problems of pods and the state of Jobs, read from the objects alone: pure functions, no API."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from specdecode.kubernetes.resources import KubeObject, name_of, parse_time
from specdecode.names import ACCELERATOR_LABEL

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
"""A container may start three times. After that it counts as looping, whatever the kubelet calls it."""
REFUSED_MINUTES = 3
"""How long the cluster may refuse to make a pod, or find no room for it on the node that is there. Controllers try
again at least once a minute (MaxJobApiBackOff, pkg/controller/job/job_controller.go of Kubernetes 1.35).
"""
STANDSTILL_MINUTES = 8
"""How long a node may be not Ready, and the same event of a pod that has not started repeat. Kubernetes notices a dead
kubelet after less than a minute, and the step looks once a minute: the step ends within ten.
"""
NO_ROOM = re.compile(r"Insufficient |[Cc]annot allocate|allocate devices")
"""Words of the scheduler (plugins/noderesources/fit.go, plugins/dynamicresources) about a node that fits otherwise."""


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
    for found in obj.get("status", {}).get("conditions") or []:
        if found.get("type") == kind:
            return dict(found)
    return {}


def is_true(obj: KubeObject, kind: str) -> bool:
    return condition(obj, kind).get("status") == "True"


def is_ready(pod: KubeObject) -> bool:
    return is_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]


def restarts(pod: KubeObject) -> int:
    return sum(status.get("restartCount", 0) for status in container_statuses(pod))


def problems(
    pods: Iterable[KubeObject],
    *,
    nodes: Sequence[KubeObject] = (),
    events: Sequence[KubeObject] = (),
    now: datetime | None = None,
) -> list[PodProblem]:
    """All problems of `pods`, the fatal ones first.

    `nodes`: those that exist, else not looked at; `events`: of the pods' namespace. Without `now` no pod counts as
    young, and nothing as lasting.
    """
    known = {name_of(node): node for node in nodes}
    found: list[PodProblem] = []
    for pod in pods:
        if pod.get("status", {}).get("phase") == "Succeeded":
            continue
        found += _of_pod(pod, nodes, now) + _of_node(pod, known, now) + _of_containers(pod, now)
        found += _of_events(pod, events, now)
    return sorted(found, key=lambda problem: not problem.fatal)


def refusals(
    owner: str, events: Sequence[KubeObject], *, pods: Sequence[KubeObject] = (), now: datetime | None = None
) -> list[PodProblem]:
    """Why the Job or Deployment `owner` gets no further pod beside `pods`, if its controller may not create one.

    Quotas, limit ranges, Pod Security Standards and webhooks refuse pods alone; only an Event tells of it. A refusal
    before the newest pod, or one that was not repeated, is over.
    """
    newest = max(map(created_at, pods), default=datetime.min.replace(tzinfo=UTC))
    refused = [
        event
        for event in events
        if event.get("reason") == "FailedCreate"
        and _owner_of(event) == owner
        and not ((last := last_seen(event)) and last <= newest)
    ]
    if not refused or all(_lasts(last_seen(event), REFUSED_MINUTES, now) for event in refused):
        return []
    message = " ".join(str(refused[-1].get("message", "")).split())  # Kyverno writes several lines
    is_new_quota = "status unknown for quota" in message
    is_final = not is_new_quota and ("is forbidden:" in message or "is invalid:" in message)
    since = min(filter(None, map(_first_seen, refused)), default=None)
    return [PodProblem(Kind.REFUSED, owner, message, is_final or _lasts(since, REFUSED_MINUTES, now))]


def why_hung(node: KubeObject, now: datetime) -> str | None:
    """Since when nobody works on the node, if it is not Ready for so long that the run must not wait for it."""
    since = _since(condition(node, "Ready"))
    if is_true(node, "Ready") or not _lasts(since, STANDSTILL_MINUTES, now):
        return None
    return _silent(node)


def _silent(node: KubeObject) -> str:
    found = condition(node, "Ready")
    since, why = _since(found), found.get("message") or "no reason given"
    return f"is not Ready since {since:%H:%M} UTC: {why}" if since else "is not Ready"


def _owner_of(event: KubeObject) -> str | None:
    """The Job, or the Deployment of the ReplicaSet, that an event is about."""
    about = event.get("involvedObject", {})
    name = str(about.get("name", ""))
    return {"Job": name, "ReplicaSet": name.rpartition("-")[0]}.get(about.get("kind", ""))


def _lasts(since: datetime | None, minutes: float, now: datetime | None) -> bool:
    return since is not None and now is not None and now - since >= timedelta(minutes=minutes)


def _since(found: KubeObject) -> datetime | None:
    changed = found.get("lastTransitionTime")
    return parse_time(str(changed)) if changed else None


def _first_seen(event: KubeObject) -> datetime | None:
    stamp = event.get("firstTimestamp") or event.get("eventTime") or event.get("metadata", {}).get("creationTimestamp")
    return parse_time(str(stamp)) if stamp else None


def last_seen(event: KubeObject) -> datetime | None:
    series = event.get("series") or {}
    stamp = series.get("lastObservedTime") or event.get("lastTimestamp")
    return parse_time(str(stamp)) if stamp else _first_seen(event)


def _is_there(pod: KubeObject, nodes: Sequence[KubeObject], message: str) -> bool:
    """Whether the held node that the pod is for exists, so that no other node will come for it."""
    wanted = pod.get("spec", {}).get("nodeSelector") or {}
    if ACCELERATOR_LABEL not in wanted:
        return False
    return bool(NO_ROOM.search(message)) or any(
        wanted.items() <= (node["metadata"].get("labels") or {}).items() for node in nodes
    )


def _of_pod(pod: KubeObject, nodes: Sequence[KubeObject], now: datetime | None) -> list[PodProblem]:
    status, name = pod.get("status", {}), name_of(pod)
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        message = str(scheduled.get("message", "no reason given"))
        limit = REFUSED_MINUTES if NO_ROOM.search(message) else STANDSTILL_MINUTES
        fatal = _is_there(pod, nodes, message) and _lasts(_since(scheduled), limit, now)
        return [PodProblem(Kind.UNSCHEDULABLE, name, f"not scheduled: {message}", fatal)]
    going = pod["metadata"].get("deletionTimestamp")
    if going and not nodes and _lasts(parse_time(going), STANDSTILL_MINUTES, now):
        return [PodProblem(Kind.NODE_LOST, name, f"was to end at {going} and has not: its node does not answer", True)]
    if status.get("phase") == "Failed" and status.get("reason") in {"Evicted", "NodeLost", "Shutdown", "Terminated"}:
        kind = Kind.EVICTED if status["reason"] == "Evicted" else Kind.NODE_LOST
        return [PodProblem(kind, name, f"{status['reason']}: {status.get('message', '')}".strip(), True)]
    return []


def _of_node(pod: KubeObject, known: dict[str, KubeObject], now: datetime | None) -> list[PodProblem]:
    node = pod.get("spec", {}).get("nodeName")
    if not node or not known:
        return []
    if node not in known:
        return [PodProblem(Kind.NODE_LOST, name_of(pod), f"its node {node} no longer exists", True)]
    if not is_true(known[node], "Ready"):
        hung = bool(now and why_hung(known[node], now))
        return [PodProblem(Kind.NODE_LOST, name_of(pod), f"its node {node} {_silent(known[node])}", hung)]
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


def _of_events(pod: KubeObject, events: Sequence[KubeObject], now: datetime | None) -> list[PodProblem]:
    name, found = name_of(pod), []
    for event in events:
        if event.get("involvedObject", {}).get("name") != name or event.get("type") != "Warning":
            continue
        reason, message = event.get("reason", ""), event.get("message", "")
        lasts = _lasts(_first_seen(event), STANDSTILL_MINUTES, now) and int(event.get("count") or 1) > 1
        if reason == "Unhealthy" and not is_ready(pod):
            found.append(PodProblem(Kind.NOT_READY, name, f"probe failed: {message}", False))
        elif reason in EVENT_REASONS and pod.get("status", {}).get("phase", "Pending") == "Pending":
            found.append(PodProblem(Kind.MOUNT, name, f"{reason}: {message}", lasts))
        elif reason == NO_CLAIM and not pod.get("status", {}).get("resourceClaimStatuses"):
            found.append(PodProblem(Kind.DEVICE_CLAIM, name, f"{reason}: {message}", lasts or "not found" in message))
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
    phase: Phase
    message: str
    failed_pods: int


def job_state(job: KubeObject) -> JobState:
    failed_pods = int(job.get("status", {}).get("failed") or 0)
    if is_true(job, "Complete"):
        return JobState(Phase.COMPLETE, "complete", failed_pods)
    # An index that failed for good is only FailureTarget until the other pods have ended.
    if failed := next((kind for kind in ("Failed", "FailureTarget") if is_true(job, kind)), None):
        found = condition(job, failed)
        return JobState(Phase.FAILED, f"{found.get('reason', 'Failed')}: {found.get('message', '')}", failed_pods)
    return JobState(Phase.ACTIVE, f"{job.get('status', {}).get('active') or 0} pod running", failed_pods)


def created_at(obj: KubeObject) -> datetime:
    return parse_time(str(obj["metadata"]["creationTimestamp"]))
