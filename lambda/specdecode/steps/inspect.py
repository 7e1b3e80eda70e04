"""Inspect: the cluster for the command line, which never calls the Kubernetes API itself."""

from typing import Any

from specdecode import names
from specdecode.kubernetes.pods import is_ready, is_true, restarts
from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.runs.cluster_view import ClusterView, PodView
from specdecode.runs.lease import Lease
from specdecode.steps.jobs import look_at_pods
from specdecode.steps.logs import Guarded
from specdecode.steps.runtime import Runtime, StepInput, run_step


def cluster_view(given: StepInput, rt: Runtime) -> ClusterView:
    wanted = [replicas for slot in rt.lease.slots if (replicas := rt.pools.replicas(slot)) is not None]
    nodes = {name_of(node): node for node in rt.pools.nodes()}
    pods, found = look_at_pods(rt.kube, selector=names.RUN_LABEL)
    wrong = {problem.pod: str(problem) for problem in reversed(found)}
    parts, lease, queue = Guarded(), None, Lease()
    with parts.part("the node's lease"):
        lease = rt.lease.read()
    with parts.part("the queue of the servers that already run"):
        queue = rt.queue.read()
    return ClusterView(
        lease=lease or Lease(),
        lease_read=lease is not None,
        turns=queue,
        problems=tuple(parts.problems),
        replicas=sum(wanted) if wanted else None,
        nodes=tuple(
            f"{name} of {rt.pools.slot_of(node)} ({'Ready' if is_true(node, 'Ready') else 'NotReady'})"
            for name, node in nodes.items()
        ),
        slots=tuple(rt.lease.slots),
        pods=tuple(_view(pod, wrong.get(name_of(pod))) for pod in pods),
    )


def _view(pod: KubeObject, problem: str | None) -> PodView:
    labels = pod["metadata"].get("labels", {})
    return PodView(
        name=name_of(pod),
        run=labels.get(names.RUN_LABEL, ""),
        component=labels.get(names.COMPONENT_LABEL, ""),
        variant=labels.get(names.VARIANT_LABEL),
        phase=pod.get("status", {}).get("phase", "Unknown"),
        ready=is_ready(pod),
        restarts=restarts(pod),
        problem=problem,
    )


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(cluster_view, {"run_id": "inspect"}, context)
