"""NodePools: readiness, and the NodeClaims that a static pool keeps."""

import copy

from rehearsal.kubernetes import quantity
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.faults import Faults
from rehearsal.kubernetes.karpenter import names
from rehearsal.kubernetes.machinery import Cluster, random_suffix
from rehearsal.kubernetes.objects import (
    Json,
    annotations_of,
    condition,
    dig,
    is_true,
    labels_of,
    name_of,
    owner_reference,
    set_condition,
    terminating,
)
from rehearsal.kubernetes.software.installed import Installed


def claims_of(cluster: Cluster, pool: str) -> list[Json]:
    return [claim for claim in cluster.store.list(r.NODE_CLAIMS) if labels_of(claim).get(names.NODE_POOL) == pool]


def create_claim(cluster: Cluster, pool: Json, *, instance_types: list[str] | None = None) -> Json:
    """A NodeClaim from the pool's template. `instance_types` narrows it to certain types."""
    template = copy.deepcopy(pool["spec"]["template"])
    if instance_types:
        narrowed = {"key": names.INSTANCE_TYPE, "operator": "In", "values": instance_types}
        template["spec"]["requirements"].append(narrowed)
    metadata = template.get("metadata") or {}
    labels = {**metadata.get("labels", {}), names.NODE_POOL: name_of(pool)}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": f"{name_of(pool)}-{random_suffix()}",
            "labels": labels,
            "annotations": metadata.get("annotations", {}),
            "finalizers": [names.FINALIZER],
            "ownerReferences": [owner_reference(pool, controller=False)],
        },
        "spec": template["spec"],
    }
    return cluster.create(r.NODE_CLAIMS, claim, manager=names.COMPONENT)


_CLASS_PARTS = (
    "AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady", "ValidationSucceeded",
    "PlacementGroupReady", "CapacityReservationsReady",
)  # fmt: skip
_GOOD = ("True", "", "")
_NO_AMI = ("False", "AMINotFound", "AMISelector did not match any AMIs")
_INVALID = ("False", "NodePoolValidationFailed", "injected by the rehearsal")
"""Status, reason and message of a condition. Those of an EC2NodeClass are from pkg/controllers/nodeclass of Karpenter
1.14.1.
"""


class PoolController(Controller):
    """Conditions of EC2NodeClasses and NodePools, and the NodeClaims of static pools."""

    watches = (r.NODE_POOLS, r.NODE_CLAIMS, r.NODE_CLASSES, r.NODES, r.DEPLOYMENTS)

    def __init__(self, cluster: Cluster, *, installed: Installed, faults: Faults) -> None:
        super().__init__(cluster)
        self._installed = installed
        self._faults = faults
        installed.subscribe(self.wake)

    def reconcile(self) -> None:
        if not self._installed.karpenter_runs():
            return
        for node_class in self.store.list(r.NODE_CLASSES):
            self._report_class(node_class)
        for pool in self.store.list(r.NODE_POOLS):
            if terminating(pool):
                continue
            self._report(pool)
            static = "replicas" in pool["spec"]
            if static and self._installed.gate("staticCapacity"):
                self._scale(self.store.require(r.NODE_POOLS, "", name_of(pool)))

    def _scale(self, pool: Json) -> None:
        claims = [claim for claim in claims_of(self.cluster, name_of(pool)) if not terminating(claim)]
        wanted = pool["spec"]["replicas"]
        surplus = len(claims) - wanted
        if surplus > 0:
            order = sorted(claims, key=lambda c: (bool(dig(c, "status", "providerID")), self._pods_on(c)))
            for claim in order[:surplus]:
                self.cluster.delete(r.NODE_CLAIMS, "", name_of(claim))
            return
        if not is_true(pool, "Ready"):
            return
        limit = dig(pool, "spec", "limits", "nodes")
        if limit is not None:
            every = len(claims_of(self.cluster, name_of(pool)))
            wanted = min(wanted, len(claims) + max(int(quantity.parse(limit)) - every, 0))
        for _ in range(wanted - len(claims)):
            create_claim(self.cluster, pool)

    def _pods_on(self, claim: Json) -> int:
        """Pods that a drain would disturb; one that must not be disrupted counts most."""
        node = dig(claim, "status", "nodeName")
        found = [p for p in self.store.list(r.PODS) if dig(p, "spec", "nodeName") == node and node]
        return sum(100 if annotations_of(p).get(names.DO_NOT_DISRUPT) == "true" else 1 for p in found)

    def _report(self, pool: Json) -> None:
        ref = pool["spec"]["template"]["spec"]["nodeClassRef"]
        node_class = self.store.get(r.NODE_CLASSES, "", ref["name"]) if ref["kind"] == "EC2NodeClass" else None
        nodes = len([c for c in claims_of(self.cluster, name_of(pool)) if dig(c, "status", "nodeName")])
        parts = {"ValidationSucceeded": _GOOD, "NodeClassReady": _class_ready(node_class)}
        if self._faults.pool_invalid and self._faults.pool_invalid in name_of(pool):
            parts["ValidationSucceeded"] = _INVALID

        def change(obj: Json) -> None:
            obj.setdefault("status", {})["nodes"] = nodes
            _set_parts(obj, parts)

        self.cluster.modify(r.NODE_POOLS, pool, change)

    def _report_class(self, node_class: Json) -> None:
        parts = dict.fromkeys(_CLASS_PARTS, _GOOD)
        if self._faults.ami_missing and self._faults.ami_missing in name_of(node_class):
            parts["AMIsReady"] = _NO_AMI
        self.cluster.modify(r.NODE_CLASSES, node_class, lambda obj: _set_parts(obj, parts))


def _class_ready(node_class: Json | None) -> tuple[str, str, str]:
    """The NodePool's condition about its EC2NodeClass (pkg/controllers/nodepool/readiness of Karpenter 1.14.1)."""
    if node_class is None:
        return "False", "NodeClassNotFound", "NodeClass not found on cluster"
    if terminating(node_class):
        return "False", "NodeClassTerminating", "NodeClass is Terminating"
    ready = condition(node_class, "Ready")
    if ready is None or ready["status"] == "Unknown":
        return "False", "NodeClassReadinessUnknown", "Node Class Readiness Unknown"
    return _GOOD if ready["status"] == "True" else ("False", ready["reason"], ready["message"])


def _set_parts(obj: Json, parts: dict[str, tuple[str, str, str]]) -> None:
    """Set the conditions, and Ready from all of them, as the library of Karpenter's controllers does."""
    bad = {kind: status for kind, (status, _, _) in parts.items() if status != "True"}
    ready = _GOOD if not bad else ("False", "UnhealthyDependents", ", ".join(f"{k}={v}" for k, v in bad.items()))
    conditions = dig(obj, "status", "conditions", default=[])
    for kind, (status, reason, message) in {**parts, "Ready": ready}.items():
        conditions = set_condition(conditions, kind, status, reason=reason or kind, message=message)
    obj.setdefault("status", {})["conditions"] = conditions
