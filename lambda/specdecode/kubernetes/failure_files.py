"""Collects what a person needs to understand a failure, before anything is deleted."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from specdecode import names
from specdecode.escape import clip, line
from specdecode.kubernetes.client import ClusterUnavailable, Kubernetes, KubernetesError
from specdecode.kubernetes.pods import container_statuses, is_true, problems
from specdecode.kubernetes.resources import KubeObject, name_of

DESCRIBED = ("Job", "Deployment", "ResourceClaim")
LONGEST_LINE = 4000
LONGEST_LOG = 2 * 1024 * 1024
"""Most characters of a log, from its end. The table of causes is searched in all of them."""
CLUSTER_WIDE = ("NodeClaim", "Node", "ResourceSlice")
EVENTS_ABOUT = ("Node", "NodeClaim", "NodePool", "EC2NodeClass")
"""Kinds outside the namespace whose events are kept."""


LOG_BUDGET_S = 60.0
"""Seconds for all logs together. One more takes 20 s at most, and the functions may take 120 s."""


@dataclass
class Evidence:
    """`files`: path below diagnostics/ -> text. `missing`: what could not be read, and why."""

    files: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    status: str = ""
    logs: str = ""
    pods: list[KubeObject] = field(default_factory=list)
    """Pods whose logs are kept, those with a problem first."""
    away: set[str] = field(default_factory=set)
    """Nodes whose kubelet does not answer."""
    unreachable: bool = False
    """Whether the API server did not answer, retries included. Then it is not called again."""

    @property
    def kinds(self) -> dict[str, str]:
        return {"status": self.status, "logs": self.logs}


def collect_status(kube: Kubernetes, *, selector: str) -> Evidence:
    """Everything about the run's objects but the logs. What cannot be read is listed, and never stops the rest."""
    found = Evidence()
    pods = _listed(kube, found, "Pod", selector=selector)
    nodes: list[KubeObject] = []
    for kind in DESCRIBED:
        _listed(kube, found, kind, selector="" if kind == "ResourceClaim" else selector)
    for kind in CLUSTER_WIDE:
        objects = _listed(kube, found, kind, namespaced=False)
        nodes = objects if kind == "Node" else nodes
    events = _events(kube, found)
    lines = "\n".join(_line(event) for event in sorted(events, key=_when))
    wrong = problems(pods, nodes=nodes, events=events)
    found.status = "\n".join(clip(line(str(problem)), LONGEST_LINE) for problem in wrong)
    found.files |= {"events.txt": lines, "problems.txt": found.status}
    ill = {problem.pod for problem in wrong}
    found.pods = sorted(pods, key=lambda pod: name_of(pod) not in ill)
    ready = {name_of(node) for node in nodes if is_true(node, "Ready")}
    used = {str(pod.get("spec", {}).get("nodeName") or "") for pod in pods} - {""}
    found.away = used - ready if nodes else set()
    return found


def collect_logs(kube: Kubernetes, found: Evidence, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Add the logs to `found`. A node that is not Ready is not asked, and it takes LOG_BUDGET_S at most."""
    began = clock()
    for pod in found.pods:
        node = pod.get("spec", {}).get("nodeName")
        if node in found.away:
            found.missing.append(f"logs of {name_of(pod)}: its node {node} does not answer")
        else:
            _logs(kube, found, pod, is_over=lambda: clock() - began > LOG_BUDGET_S)
    found.logs = "\n".join(text for path, text in found.files.items() if path.startswith("logs/"))


def _listed(
    kube: Kubernetes, found: Evidence, kind: str, *, selector: str = "", namespaced: bool = True
) -> list[KubeObject]:
    if found.unreachable:
        return []
    try:
        objects = kube.list(kind, namespace=names.NAMESPACE if namespaced else None, selector=selector)
    except KubernetesError as error:
        found.missing.append(f"{kind}: {error}")
        found.unreachable = isinstance(error, ClusterUnavailable)
        return []
    found.files[f"{kind.lower()}s.json"] = json.dumps(objects, indent=1)
    return objects


def _events(kube: Kubernetes, found: Evidence) -> list[KubeObject]:
    """Events of the workload namespace, and those about nodes and the objects that make nodes."""
    asked: dict[str, Callable[[], Sequence[KubeObject]]] = {
        "in the namespace": partial(kube.list, "Event", namespace=names.NAMESPACE)
    }
    asked |= {f"about {kind}": partial(kube.events_about, kind) for kind in EVENTS_ABOUT}
    events: list[KubeObject] = []
    for which, ask in asked.items() if not found.unreachable else ():
        try:
            events += ask()
        except KubernetesError as error:
            found.missing.append(f"Event {which}: {error}")
    found.files["events.json"] = json.dumps(events, indent=1)
    return events


def _logs(kube: Kubernetes, found: Evidence, pod: KubeObject, *, is_over: Callable[[], bool]) -> None:
    """Of each container and of its run before: it may have started again after its pod was read."""
    for status in container_statuses(pod):
        container, restarted = status["name"], status.get("restartCount", 0) > 0
        for suffix, previous in (("", False), (".previous", True)):
            path, expected = f"logs/{name_of(pod)}.{container}{suffix}.log", restarted or not previous
            if is_over():
                found.missing += [f"{path}: the {LOG_BUDGET_S:.0f} s for logs are over"] * expected
                continue
            try:
                log = kube.logs(name_of(pod), namespace=names.NAMESPACE, container=container, previous=previous)
                found.files[path] = log[-LONGEST_LOG:]
            except KubernetesError as error:
                found.missing += [f"{path}: {error}"] * expected
                if not restarted:
                    break


def _when(event: KubeObject) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _line(event: KubeObject) -> str:
    about = event.get("involvedObject", {})
    return clip(
        line(
            f"{_when(event)} {event.get('type', '')} {about.get('kind', '')}/{about.get('name', '')} "
            f"{event.get('reason', '')}: {event.get('message', '')}"
        ),
        LONGEST_LINE,
    )
