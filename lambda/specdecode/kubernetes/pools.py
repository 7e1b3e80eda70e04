"""The NodePools whose nodes runs hold, by their slot in the lease."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from specdecode import names
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.errors import NotFound
from specdecode.kubernetes.readiness import missing_because, why_no_node
from specdecode.kubernetes.resources import KubeObject, name_of

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
    """Why a slot's node has not come."""

    reason: str
    is_final: bool = False
    """Whether no node can come at all."""
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
        """Name of a slot's NodePool."""
        return names.node_pool(slot, foreign=self._foreign)

    def get(self, slot: str) -> KubeObject | None:
        """The NodePool of a slot. None if there is none."""
        return self.kube.get("NodePool", self.name(slot))

    def brings(self, slot: str) -> bool:
        """Whether `scale` brings a node: always."""
        return True

    def replicas(self, slot: str) -> int | None:
        """Nodes that the pool should have. None if there is no such NodePool."""
        pool = self.get(slot)
        return None if pool is None else int(pool.get("spec", {}).get("replicas") or 0)

    def scale(self, slot: str, replicas: int) -> None:
        """Set that number."""
        self.kube.scale("NodePool", self.name(slot), replicas)

    def nodes(self, slot: str | None = None) -> list[KubeObject]:
        """Nodes of a slot, or of all."""
        return self._of("Node", slot)

    def claims(self, slot: str | None = None) -> list[KubeObject]:
        """The slots' NodeClaims. Each is an instance that exists, starts or ends."""
        return self._of("NodeClaim", slot)

    def billed(self) -> Counter[str]:
        """Slot -> its instances."""
        return Counter(slot for claim in self.claims() if (slot := self.slot_of(claim)))

    def launched(self, slot: str) -> bool:
        """Whether a NodeClaim of the slot has its instance: EC2 may have none to give."""
        return any(claim.get("status", {}).get("providerID") for claim in self.claims(slot))

    def instances(self) -> list[str]:
        """Names of the NodeClaims, each with its kind."""
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
        """Slots whose NodePools should have a node, of all that a deployment can have."""
        return [slot for slot in names.held_pools(names.MOST_NODES) if self.replicas(slot)]

    def _of(self, kind: str, slot: str | None) -> list[KubeObject]:
        name = "" if slot is None else f"={self.name(slot)}"
        found = self.kube.list(kind, selector=f"{NODEPOOL_LABEL}{name}")
        return [obj for obj in found if self.slot_of(obj) is not None]
