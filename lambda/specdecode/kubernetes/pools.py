"""The nodes that runs hold, by their slot in the lease, and why one does not come.

Karpenter makes none for a NodePool or an EC2NodeClass that is not Ready, and says so in conditions alone
(kubernetes-sigs/karpenter 1.14.1, pkg/controllers/static/provisioning/controller.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from specdecode import names
from specdecode.kubernetes.client import Kubernetes, NotFound
from specdecode.kubernetes.pods import condition, is_true, last_seen
from specdecode.kubernetes.resources import KubeObject, name_of, parse_time

GRACE = timedelta(minutes=2)
"""Age of a condition from which on it is final for a run. Karpenter 1.14.1 looks again (pkg/controllers/nodeclass)
within a minute if no AMI was found (ami.go), up to 40 after a refused dry run, which it keeps for 30 (validation.go,
pkg/cache/cache.go).
"""
NOT_PART_OF_READY = {"Ready", "NodeRegistrationHealthy"}
"""Conditions that do not count for `Ready` (apis/v1/nodepool_status.go, ec2nodeclass_status.go of 1.14.1)."""


@dataclass(frozen=True)
class Unready:
    message: str
    lasted: timedelta
    is_refused: bool = False
    """Whether only a refused dry run is in the way. The rights may not have taken effect when it was made."""

    @property
    def is_final(self) -> bool:
        return self.lasted > GRACE


def why_no_node(kube: Kubernetes, pool: KubeObject | None, *, since: datetime, now: datetime) -> Unready | None:
    """Why pool or class is not Ready: the EC2NodeClass first, which the NodePool only repeats. None if both are.

    A condition that Karpenter has never written counts from `since` on.
    """
    if pool is None:
        return None
    name = str(pool.get("spec", {}).get("template", {}).get("spec", {}).get("nodeClassRef", {}).get("name", ""))
    node_class = kube.get("EC2NodeClass", name) if name else None
    if name and node_class is None:
        return Unready(f"the EC2NodeClass {name} of the NodePool {name_of(pool)} does not exist", now - since)
    for kind, obj in (("EC2NodeClass", node_class), ("NodePool", pool)):
        if obj is not None and condition(obj, "Ready").get("status") != "True":
            return _unready(kind, obj, since=since, now=now)
    return None


def _unready(kind: str, obj: KubeObject, *, since: datetime, now: datetime) -> Unready:
    found = [
        item
        for item in obj.get("status", {}).get("conditions") or []
        if item.get("status") != "True" and item.get("type") not in NOT_PART_OF_READY
    ]
    parts = [
        f"{item.get('type')}={item.get('status')} ({item.get('reason') or 'no reason'}: {item.get('message') or '-'})"
        for item in found
    ]
    changed = condition(obj, "Ready").get("lastTransitionTime")
    began = parse_time(str(changed)) if changed else since
    return Unready(
        f"{kind} {name_of(obj)} is not Ready: {'; '.join(parts) or 'Karpenter has written no condition'}",
        now - began,
        is_refused=bool(found) and all(_is_refusal(item) for item in found),
    )


def _is_refusal(item: KubeObject) -> bool:
    """The reasons of a refused dry run are <call>AuthCheckFailed (nodeclass/validation.go of 1.14.1)."""
    return (
        item.get("type") == "ValidationSucceeded"
        and item.get("status") == "False"
        and str(item.get("reason")).endswith("AuthCheckFailed")
    )


def missing_because(
    *,
    nodes: Iterable[KubeObject],
    claims: Iterable[KubeObject],
    events: Iterable[KubeObject],
    pool: KubeObject | None,
    since: datetime,
) -> str:
    """Why there is no usable node yet: by `events` after `since`, but not of another run's node; else conditions."""
    if pool is None:
        return "the NodePool of the node does not exist: deploy TrainiumClusterStack"
    told = [
        (when, f"{event.get('reason', '')}: {event.get('message', '')}")
        for event in events
        if (when := last_seen(event)) and when >= since and _is_about(event.get("involvedObject", {}), pool)
    ]
    if told:
        return f"Karpenter says {max(told)[1]}"
    for claim in claims:
        for kind in ("Launched", "Registered", "Initialized"):
            found = condition(claim, kind)
            if found.get("status") != "True":
                return f"NodeClaim {name_of(claim)} is not {kind}: {found.get('message') or 'no reason yet'}"
    return missing_of(nodes) or "Karpenter has not asked for a node yet"


def missing_of(nodes: Iterable[KubeObject]) -> str | None:
    """What a node that has come still lacks. None if no node has come."""
    for node in nodes:
        if not is_true(node, "Ready"):
            return f"node {name_of(node)} is not Ready: {condition(node, 'Ready').get('message') or 'no reason yet'}"
        return f"node {name_of(node)} is Ready but the Neuron DRA driver has published no devices of it"
    return None


def _is_about(involved: KubeObject, pool: KubeObject) -> bool:
    """Whether an object is `pool`, its EC2NodeClass or a NodeClaim of it, even one that is deleted.

    A NodeClaim is `<pool>-` and letters without a hyphen (GenerateName in scheduling/nodeclaimtemplate.go of
    kubernetes-sigs/karpenter). So `trn2-2-x7f9q` is not of `trn2`.
    """
    name = str(involved.get("name", ""))
    if involved.get("kind") == "NodeClaim":
        return name.rpartition("-")[0] == name_of(pool)
    if involved.get("kind") == "NodePool":
        return name == name_of(pool)
    reference = pool.get("spec", {}).get("template", {}).get("spec", {}).get("nodeClassRef", {})
    return name == str(reference.get("name", ""))


NODEPOOL_LABEL = "karpenter.sh/nodepool"
KINDS = ("NodeClaim", "NodePool", "EC2NodeClass")
"""Kinds of Karpenter's objects. Their events say why no node comes."""


class Pools(Protocol):
    """The source of the nodes that runs hold: the NodePools of a Karpenter, or a managed node group."""

    @property
    def kube(self) -> Kubernetes: ...

    def name(self, slot: str) -> str:
        """Name of a slot's pool."""

    def brings(self, slot: str) -> bool:
        """Whether `scale` brings a node. Else nodes of that slot are simply there."""

    def replicas(self, slot: str) -> int | None:
        """Nodes that a slot's pool should have. None if there is no such pool."""

    def scale(self, slot: str, replicas: int) -> None:
        """Set that number. Raises PoolBusy if the pool takes no change now."""

    def nodes(self, slot: str | None = None) -> list[KubeObject]:
        """Nodes of a slot, or of all."""

    def slot_of(self, obj: KubeObject) -> str | None:
        """Slot of a node of these pools. None for any other node."""

    def billed(self) -> Counter[str]:
        """Slot -> instances that exist, start or end. Each is billed."""

    def launched(self, slot: str) -> bool:
        """Whether EC2 has an instance of the slot. Without one nothing is billed."""

    def instances(self) -> list[str]:
        """Names of the instances, each with its kind. Empty if the source cannot have any."""

    def missing(self, slot: str, *, nodes: list[KubeObject], since: datetime, now: datetime) -> Missing:
        """Why the slot, which asked for a node at `since`, has no usable one. `nodes` are the nodes that exist."""

    def scaled(self) -> list[str]:
        """Slots whose pools should have a node, of all that a deployment can have."""


@dataclass(frozen=True)
class Missing:
    reason: str
    is_final: bool = False
    is_settling: bool = False
    """Whether the obstacle may pass by itself in a minute or two."""


class PoolBusy(Exception):
    """The pool takes no change now, but will. Try again."""


class NodePools:
    """NodePools of a Karpenter of ours, or (`foreign`) of somebody else's, where they have other names."""

    def __init__(self, kube: Kubernetes, *, foreign: bool = False) -> None:
        self.kube = kube
        self._foreign = foreign

    def name(self, slot: str) -> str:
        return names.node_pool(slot, foreign=self._foreign)

    def get(self, slot: str) -> KubeObject | None:
        return self.kube.get("NodePool", self.name(slot))

    def brings(self, slot: str) -> bool:
        return True

    def replicas(self, slot: str) -> int | None:
        pool = self.get(slot)
        return None if pool is None else int(pool.get("spec", {}).get("replicas") or 0)

    def scale(self, slot: str, replicas: int) -> None:
        self.kube.scale("NodePool", self.name(slot), replicas)

    def nodes(self, slot: str | None = None) -> list[KubeObject]:
        return self._of("Node", slot)

    def claims(self, slot: str | None = None) -> list[KubeObject]:
        """The slots' NodeClaims. Each is an instance that exists, starts or ends."""
        return self._of("NodeClaim", slot)

    def billed(self) -> Counter[str]:
        return Counter(slot for claim in self.claims() if (slot := self.slot_of(claim)))

    def launched(self, slot: str) -> bool:
        """Whether a NodeClaim of the slot has its instance: EC2 may have none to give."""
        return any(claim.get("status", {}).get("providerID") for claim in self.claims(slot))

    def instances(self) -> list[str]:
        try:
            return [f"NodeClaim/{name_of(claim)}" for claim in self.claims()]
        except NotFound:  # Karpenter's CRDs never came, as when a failed deployment is rolled back
            return []

    def missing(self, slot: str, *, nodes: list[KubeObject], since: datetime, now: datetime) -> Missing:
        """The reason, from the conditions of pool and class, Karpenter's events and the NodeClaims."""
        pool, claims = self.get(slot), self.claims(slot)
        # What is asked for already comes, whatever becomes of the pool's conditions.
        unready = None if claims else why_no_node(self.kube, pool, since=since, now=now)
        if unready is not None:
            return Missing(unready.message, is_final=unready.is_final, is_settling=not unready.is_final)
        events = [event for kind in KINDS for event in self.kube.events_about(kind, only="Warning")]
        return Missing(missing_because(nodes=nodes, claims=claims, events=events, pool=pool, since=since))

    def slot_of(self, obj: KubeObject) -> str | None:
        """Slot of a node or a NodeClaim, in a deployment of any size. None if it is of another pool."""
        name = str((obj["metadata"].get("labels") or {}).get(NODEPOOL_LABEL, ""))
        slot = name.removeprefix(names.FOREIGN_PREFIX) if self._foreign else name
        return slot if names.is_held(slot) and self.name(slot) == name else None

    def scaled(self) -> list[str]:
        return [slot for slot in names.held_pools(names.MOST_NODES) if self.replicas(slot)]

    def _of(self, kind: str, slot: str | None) -> list[KubeObject]:
        name = "" if slot is None else f"={self.name(slot)}"
        found = self.kube.list(kind, selector=f"{NODEPOOL_LABEL}{name}")
        return [obj for obj in found if self.slot_of(obj) is not None]
