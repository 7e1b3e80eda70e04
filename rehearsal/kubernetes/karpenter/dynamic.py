"""Dynamic NodePools: they make a node for pods that fit nowhere, and end it when it is empty."""

import time
from decimal import Decimal

from rehearsal.kubernetes import quantity
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers import fit, pods
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.karpenter import names
from rehearsal.kubernetes.karpenter.cloud import Cloud
from rehearsal.kubernetes.karpenter.pools import claims_of, create_claim
from rehearsal.kubernetes.karpenter.shapes import labels_of_type
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.nodes import INSTANCE_TYPES
from rehearsal.kubernetes.objects import Json, condition, dig, is_true, name_of, terminating, uid_of
from rehearsal.kubernetes.software.installed import Installed

_SIZED = ("cpu", "memory", "pods")
_NO_DRA = "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"


class Dynamic(Controller):
    """Makes one node for one unschedulable pod. Other pods join it if they fit. Static pools are never touched."""

    watches = (r.PODS, r.NODE_POOLS, r.NODE_CLAIMS, r.NODES, r.DEPLOYMENTS)

    def __init__(self, cluster: Cluster, *, installed: Installed, cloud: Cloud) -> None:
        super().__init__(cluster)
        self._installed = installed
        self._cloud = cloud
        self._empty_since: dict[str, float] = {}
        self._nominated: dict[str, str] = {}
        installed.subscribe(self.wake)

    def reconcile(self) -> None:
        if not self._installed.karpenter_runs():
            return
        pools = [p for p in self.store.list(r.NODE_POOLS) if "replicas" not in p["spec"] and not terminating(p)]
        for pod in self.store.list(r.PODS):
            found = condition(pod, "PodScheduled")
            if pods.is_active(pod) and not dig(pod, "spec", "nodeName") and found and found["status"] == "False":
                self._provision(pod, pools)
        for pool in pools:
            self._consolidate(pool)

    def _provision(self, pod: Json, pools: list[Json]) -> None:
        if pod["spec"].get("resourceClaims"):
            self.cluster.event(
                pod, "Warning", "FailedScheduling", f"Failed to schedule pod, {_NO_DRA}", component=names.COMPONENT
            )
            return
        nominated = self.store.get(r.NODE_CLAIMS, "", self._nominated.get(uid_of(pod), ""))
        if nominated is not None and not terminating(nominated):
            return
        reasons = []
        for pool in pools:
            problem, kinds = self._candidates(pod, pool)
            if kinds:
                claim = create_claim(self.cluster, pool, instance_types=kinds)
                self._nominated[uid_of(pod)] = name_of(claim)
                message = f"Pod should schedule on: nodeclaim/{name_of(claim)}"
                self.cluster.event(pod, "Normal", "Nominated", message, component=names.COMPONENT)
                return
            reasons.append(f"incompatible with nodepool {name_of(pool)!r}, {problem}")
        if reasons:
            message = "Failed to schedule pod, " + "; ".join(reasons)
            self.cluster.event(pod, "Warning", "FailedScheduling", message, component=names.COMPONENT)

    def _candidates(self, pod: Json, pool: Json) -> tuple[str, list[str]]:
        """(why no node of this pool fits the pod, or ""; the instance types that fit)."""
        if not is_true(pool, "Ready"):
            return "nodepool is not ready", []
        template = pool["spec"]["template"]
        for taint in template["spec"].get("taints", ()):
            if not fit.tolerates(pod["spec"].get("tolerations", []), taint):
                return f"did not tolerate taint {taint['key']}={taint.get('value', '')}:{taint['effect']}", []
        requirements = template["spec"]["requirements"]
        chosen = {req["key"]: req["values"][0] for req in requirements if req.get("values") and req["operator"] == "In"}
        labels = {**dig(template, "metadata", "labels", default={}), names.NODE_POOL: name_of(pool)}
        wanted = {key: amount for key, amount in fit.requests_of(pod["spec"]).items() if key in _SIZED}
        room = self._room(pool)
        large = []
        for kind in self._cloud.fitting_types(requirements):
            shape = {key: quantity.parse(INSTANCE_TYPES[kind][key]) for key in _SIZED}
            if not fit.affinity_matches(pod["spec"], {**chosen, **labels_of_type(kind), **labels}):
                continue
            if all(amount <= shape[key] for key, amount in wanted.items()):
                large.append(kind)
        if not large:
            return "no instance type met the pod's node selector and has enough resources", []
        kinds = [kind for kind in large if quantity.parse(INSTANCE_TYPES[kind]["vcpu"]) <= room]
        return ("", kinds) if kinds else ("all available instance types exceed limits for nodepool", [])

    def _room(self, pool: Json) -> Decimal:
        """The CPU that the pool's limit still allows."""
        limit = dig(pool, "spec", "limits", "cpu")
        if limit is None:
            return Decimal("Infinity")
        claims = claims_of(self.cluster, name_of(pool))
        return quantity.parse(limit) - sum(
            quantity.parse(dig(c, "status", "capacity", "cpu", default="0")) for c in claims
        )

    def _consolidate(self, pool: Json) -> None:
        after = names.seconds(pool["spec"]["disruption"]["consolidateAfter"])
        if after == float("inf"):
            return
        for claim in claims_of(self.cluster, name_of(pool)):
            if terminating(claim) or not is_true(claim, "Initialized"):
                continue
            node, uid = claim["status"]["nodeName"], uid_of(claim)
            if self._busy(node, name_of(claim)):
                self._empty_since.pop(uid, None)
                continue
            left = self._empty_since.setdefault(uid, time.monotonic()) + max(after, 1.0) - time.monotonic()
            if left > 0:
                self.wake_in(left)
                continue
            self.cluster.event(
                claim, "Normal", "DisruptionTerminating", "Disrupting NodeClaim: Empty", component=names.COMPONENT
            )
            self.cluster.delete(r.NODE_CLAIMS, "", name_of(claim))
            self._empty_since.pop(uid, None)

    def _busy(self, node: str, claim: str) -> bool:
        for pod in self.store.list(r.PODS):
            owners = pod["metadata"].get("ownerReferences") or ()
            if dig(pod, "spec", "nodeName") == node and not pods.is_finished(pod):
                if not any(ref["kind"] == "DaemonSet" for ref in owners):
                    return True
            elif self._nominated.get(uid_of(pod)) == claim and not dig(pod, "spec", "nodeName") and pods.is_active(pod):
                return True
        return False
