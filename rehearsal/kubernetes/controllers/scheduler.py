"""The scheduler: binds pending pods to nodes and allocates their claims, or says in Events why it cannot."""

from collections import Counter

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers import allocation, fit, pods
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.objects import Json, dig, is_true, name_of, namespace_of, set_condition, terminating

_COMPONENT = "default-scheduler"


class KubeScheduler(Controller):
    """First come, first served. No preemption and no scoring: a pod goes to the first node by name that fits."""

    watches = (r.PODS, r.NODES, r.CLAIMS, r.SLICES, r.VOLUME_CLAIMS, r.VOLUMES, r.DEVICE_CLASSES)

    def reconcile(self) -> None:
        waiting = [p for p in self.store.list(r.PODS) if not dig(p, "spec", "nodeName") and pods.is_active(p)]
        for pod in sorted(waiting, key=lambda p: int(p["metadata"]["resourceVersion"]) if "status" not in p else 0):
            self._schedule(pod)

    def _schedule(self, pod: Json) -> None:
        if not allocation.has_claims(self.store, pod):
            return
        nodes = [node for node in self.store.list(r.NODES) if not terminating(node)]
        problem = self._waiting_for_volumes(pod) or allocation.waiting_for_claims(self.store, pod)
        if problem:
            self._refuse(pod, f"0/{len(nodes)} nodes are available: {problem}.", len(nodes))
            return
        reasons: Counter[str] = Counter()
        for node in nodes:
            refused = fit.refusals(self.store, pod, node)
            if not refused:
                outcome = allocation.allocate(self.store, pod, node)
                if isinstance(outcome, str):
                    refused = [outcome]
                else:
                    self._bind(pod, node, outcome)
                    return
            reasons.update(refused)
        if not nodes:
            self._refuse(pod, "no nodes available to schedule pods", 0)
            return
        listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        self._refuse(pod, f"0/{len(nodes)} nodes are available: {listed}.", len(nodes))

    def _waiting_for_volumes(self, pod: Json) -> str | None:
        for volume in pod["spec"].get("volumes", ()):
            name = dig(volume, "persistentVolumeClaim", "claimName")
            if name is None:
                continue
            claim = self.store.get(r.VOLUME_CLAIMS, namespace_of(pod), name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if dig(claim, "status", "phase") != "Bound":
                return "pod has unbound immediate PersistentVolumeClaims"
        return None

    def _bind(self, pod: Json, node: Json, claims: list[tuple[Json, Json]]) -> None:
        for claim, allocated in claims:
            allocation.record(self.cluster, claim, allocated, pod)
        bound = self.cluster.modify(
            r.PODS, pod, lambda obj: obj["spec"].update(nodeName=name_of(node)), subresource="binding"
        )
        if bound is None:
            return
        self.cluster.modify(r.PODS, bound, lambda obj: _set(obj, "True", "", ""))
        message = f"Successfully assigned {namespace_of(pod)}/{name_of(pod)} to {name_of(node)}"
        self.cluster.event(pod, "Normal", "Scheduled", message, component=_COMPONENT)

    def _refuse(self, pod: Json, reason: str, nodes: int) -> None:
        tail = f" preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
        message = reason + tail if nodes else reason
        known = next((c for c in dig(pod, "status", "conditions", default=()) if c["type"] == "PodScheduled"), None)
        if known and known.get("message") == message and not is_true(pod, "PodScheduled"):
            return
        self.cluster.modify(r.PODS, pod, lambda obj: _set(obj, "False", "Unschedulable", message))
        self.cluster.event(pod, "Warning", "FailedScheduling", message, component=_COMPONENT)


def _set(pod: Json, status: str, reason: str, message: str) -> None:
    current = pod.setdefault("status", {"phase": "Pending", "qosClass": "Burstable"})
    current["conditions"] = set_condition(
        current.get("conditions", []), "PodScheduled", status, reason=reason, message=message
    )
