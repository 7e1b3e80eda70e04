"""A pod's status, from the states of its containers."""

from collections.abc import Sequence

from rehearsal.kubernetes.node.container import Container
from rehearsal.kubernetes.objects import Json, set_condition


def describe(
    pod: Json, init: Sequence[Container], main: Sequence[Container], *, initialized: bool, stopping: bool
) -> None:
    """Write phase, container statuses and conditions into `pod`, in place."""
    status = pod.setdefault("status", {})
    phase = status["phase"] = phase_of(
        pod["spec"]["restartPolicy"], init, main, initialized=initialized, stopping=stopping
    )
    if init:
        status["initContainerStatuses"] = [c.status(c.spec["image"]) for c in init]
    if main:
        status["containerStatuses"] = [c.status(c.spec["image"]) for c in main]
    ready = bool(main) and all(c.ready for c in main) and phase == "Running"
    why = "PodCompleted" if phase == "Succeeded" else ("" if ready else "ContainersNotReady")
    unready = [c.name for c in main if not c.ready]
    message = "" if ready or phase == "Succeeded" else f"containers with unready status: [{' '.join(unready)}]"
    done = initialized or not pod["spec"].get("initContainers")
    conditions = set_condition(status.get("conditions", []), "Initialized", "True" if done else "False")
    for kind in ("ContainersReady", "Ready"):
        conditions = set_condition(conditions, kind, "True" if ready else "False", reason=why, message=message)
    status["conditions"] = conditions


EVICTED = "The node was low on resource: ephemeral-storage. Threshold quantity: 53687091200, available: 48211Mi. "


def describe_evicted(pod: Json) -> None:
    """Write the status of a pod that the kubelet evicted, in place. The states of its containers are lost."""
    status = pod.setdefault("status", {})
    status |= {"phase": "Failed", "reason": "Evicted", "message": EVICTED}
    lost = "The container could not be located when the pod was terminated"
    ended = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": lost}}
    for field in ("initContainerStatuses", "containerStatuses"):
        if field in status:
            status[field] = [{**each, "ready": False, "started": False, "state": ended} for each in status[field]]
    conditions = status.get("conditions", [])
    for kind in ("ContainersReady", "Ready"):
        conditions = set_condition(conditions, kind, "False", reason="PodFailed")
    status["conditions"] = set_condition(conditions, "DisruptionTarget", "True", reason="TerminationByKubelet")


def phase_of(
    policy: str, init: Sequence[Container], main: Sequence[Container], *, initialized: bool, stopping: bool
) -> str:
    """Pending, Running, Succeeded or Failed."""
    if any(c.exit_code not in (None, 0) for c in init) and policy == "Never":
        return "Failed"
    codes = [c.exit_code for c in main]
    if main and None not in codes and (stopping or policy != "Always"):
        if not any(codes):
            return "Succeeded"
        if policy == "Never" or stopping:
            return "Failed"
    started = initialized and all("waiting" not in c.state or c.restarts or c.last_state for c in main)
    return "Running" if main and started else "Pending"
