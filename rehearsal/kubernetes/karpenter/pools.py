"""NodePools: readiness, and the NodeClaims that a static pool keeps."""

import copy

from rehearsal.kubernetes import quantity
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers.base import Controller
from rehearsal.kubernetes.karpenter import names
from rehearsal.kubernetes.machinery import Cluster, random_suffix
from rehearsal.kubernetes.objects import (
    Json,
    annotations_of,
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
    """A NodeClaim from the pool's template, narrowed to `instance_types` where pods need certain ones."""
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


class Pools(Controller):
    """`retry` is the pause before a static pool tries again after a NodeClaim that found no capacity."""

    watches = (r.NODE_POOLS, r.NODE_CLAIMS, r.NODE_CLASSES, r.NODES, r.DEPLOYMENTS)

    def __init__(self, cluster: Cluster, *, installed: Installed) -> None:
        super().__init__(cluster)
        self._installed = installed
        installed.subscribe(self.wake)

    def reconcile(self) -> None:
        if not self._installed.karpenter_runs():
            return
        for node_class in self.store.list(r.NODE_CLASSES):
            self._ready(
                r.NODE_CLASSES, node_class, ("AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady")
            )
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
        ready = node_class is not None and is_true(node_class, "Ready") and not terminating(node_class)
        why = "" if ready else ("NodeClassNotFound" if node_class is None else "NodeClassNotReady")
        nodes = len([c for c in claims_of(self.cluster, name_of(pool)) if dig(c, "status", "nodeName")])

        def change(obj: Json) -> None:
            status = obj.setdefault("status", {})
            status["nodes"] = nodes
            conditions = status.get("conditions", [])
            conditions = set_condition(conditions, "ValidationSucceeded", "True", reason="ValidationSucceeded")
            for kind in ("NodeClassReady", "Ready"):
                conditions = set_condition(conditions, kind, str(ready), reason=why or kind)
            status["conditions"] = conditions

        self.cluster.modify(r.NODE_POOLS, pool, change)

    def _ready(self, resource: r.Resource, obj: Json, parts: tuple[str, ...]) -> None:
        def change(target: Json) -> None:
            conditions = dig(target, "status", "conditions", default=[])
            for kind in (*parts, "Ready"):
                conditions = set_condition(conditions, kind, "True", reason=kind)
            target.setdefault("status", {})["conditions"] = conditions

        self.cluster.modify(resource, obj, change)
