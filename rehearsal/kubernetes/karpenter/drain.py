"""The end of a node: taint it, evict its pods, and after `terminationGracePeriod` delete the pods that still block."""

import time

from rehearsal.kubernetes import budgets
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers import fit, pods
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.karpenter import names
from rehearsal.kubernetes.karpenter.cloud import Cloud
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import (
    Json,
    annotations_of,
    dig,
    name_of,
    namespace_of,
    parse_time,
    set_condition,
    terminating,
)
from rehearsal.kubernetes.software.installed import Installed


class Drain(Controller):
    """Drains terminating nodes that have Karpenter's finalizer."""

    watches = (r.NODES, r.PODS, r.NODE_CLAIMS, r.DISRUPTION_BUDGETS, r.DEPLOYMENTS)

    def __init__(self, cluster: Cluster, *, installed: Installed, cloud: Cloud) -> None:
        super().__init__(cluster)
        self._installed = installed
        self._cloud = cloud
        installed.subscribe(self.wake)

    def reconcile(self) -> None:
        if not self._installed.karpenter_runs():
            return
        for node in self.store.list(r.NODES):
            if terminating(node) and names.FINALIZER in node["metadata"].get("finalizers", ()):
                self._drain(node)

    def _drain(self, node: Json) -> None:
        claim = next((c for c in self.store.list(r.NODE_CLAIMS) if dig(c, "status", "nodeName") == name_of(node)), None)
        if claim is not None and not terminating(claim):
            self.cluster.delete(r.NODE_CLAIMS, "", name_of(claim))
        if not any(t["key"] == names.DISRUPTED["key"] for t in dig(node, "spec", "taints", default=())):
            taints = [*dig(node, "spec", "taints", default=[]), names.DISRUPTED]
            self.cluster.modify(r.NODES, node, lambda obj: obj["spec"].update(taints=taints), subresource="")
            return
        due = annotations_of(claim).get(names.TERMINATION_TIME) if claim else None
        waiting = [p for p in self.store.list(r.PODS) if dig(p, "spec", "nodeName") == name_of(node) and _waits(p)]
        for pod in waiting:
            self._evict(pod, parse_time(due) if due else None)
        waiting = [p for p in self.store.list(r.PODS) if dig(p, "spec", "nodeName") == name_of(node) and _waits(p)]
        if waiting:
            message = f"Failed to drain node, {len(waiting)} pods are waiting to be evicted"
            self.cluster.event(node, "Warning", "FailedDraining", message, component=names.COMPONENT)
            self._condition(claim, "Drained", "Unknown", "Draining")
            self.wake_in(1.0)
            return
        self._condition(claim, "Drained", "True", "Drained")
        self._cloud.terminate(node["spec"]["providerID"])

        def release(obj: Json) -> None:
            obj["metadata"]["finalizers"] = [f for f in obj["metadata"]["finalizers"] if f != names.FINALIZER]

        self.cluster.modify(r.NODES, node, release, subresource="")

    def _evict(self, pod: Json, due: float | None) -> None:
        """Evict the pod, unless a budget or do-not-disrupt forbids it. From `due` minus the pod's grace on, delete it
        anyway.
        """
        if terminating(pod):
            return
        grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
        if due is not None and time.time() >= due - grace:
            left = max(int(due - time.time()), 1)
            self.cluster.delete(r.PODS, namespace_of(pod), name_of(pod), {"gracePeriodSeconds": min(left, grace)})
            message = (
                "Deleting the pod to accommodate the terminationTime of the node. The pod was granted "
                f"{left} seconds of grace-period. This bypasses the PDB of the pod and the do-not-disrupt annotation."
            )
            self.cluster.event(pod, "Normal", "Disrupted", message, component=names.COMPONENT)
            return
        if annotations_of(pod).get(names.DO_NOT_DISRUPT) == "true" or budgets.blocking(self.store, pod):
            return
        self.cluster.delete(r.PODS, namespace_of(pod), name_of(pod))
        self.cluster.event(pod, "Normal", "Evicted", "Evicted pod: node is being drained", component=names.COMPONENT)

    def _condition(self, claim: Json | None, kind: str, status: str, reason: str) -> None:
        if claim is None:
            return

        def change(obj: Json) -> None:
            obj["status"]["conditions"] = set_condition(obj["status"]["conditions"], kind, status, reason=reason)

        self.cluster.modify(r.NODE_CLAIMS, claim, change)


def _waits(pod: Json) -> bool:
    """Whether a drain waits for this pod. It waits for no finished pod, no pod of a DaemonSet, and none that tolerates
    the disruption.
    """
    owners = pod["metadata"].get("ownerReferences") or ()
    if pods.is_finished(pod) or any(ref["kind"] == "DaemonSet" for ref in owners):
        return False
    return not fit.tolerates(dig(pod, "spec", "tolerations", default=[]), names.DISRUPTED)
