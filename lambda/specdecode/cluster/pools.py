"""The NodePools whose nodes runs hold, by their slot in the lease."""

from __future__ import annotations

from collections.abc import Mapping

from specdecode import names
from specdecode.cluster.client import Kubernetes
from specdecode.cluster.resources import KubeObject

NODEPOOL_LABEL = "karpenter.sh/nodepool"


class NodePools:
    """Of a Karpenter of ours, or, `foreign`, of somebody else's: they have other names there."""

    def __init__(self, kube: Kubernetes, *, foreign: bool = False) -> None:
        self.kube = kube
        self._foreign = foreign

    @classmethod
    def from_environ(cls, kube: Kubernetes, environ: Mapping[str, str]) -> NodePools:
        """Those of the cluster that a function's environment is about."""
        return cls(kube, foreign=environ.get(names.RIGHTS_VARIABLE) == names.POOL_RIGHTS)

    def name(self, slot: str) -> str:
        """Of the NodePool of a slot."""
        return names.node_pool(slot, foreign=self._foreign)

    def get(self, slot: str) -> KubeObject | None:
        """The NodePool of a slot, or None where there is none."""
        return self.kube.get("NodePool", self.name(slot))

    def replicas(self, slot: str) -> int | None:
        """Nodes that it is to have; None where there is no such NodePool."""
        pool = self.get(slot)
        return None if pool is None else int(pool.get("spec", {}).get("replicas") or 0)

    def scale(self, slot: str, replicas: int) -> None:
        """Let it have so many."""
        self.kube.scale("NodePool", self.name(slot), replicas)

    def nodes(self, slot: str | None = None) -> list[KubeObject]:
        """Nodes of a slot, or of all."""
        return self._of("Node", slot)

    def claims(self, slot: str | None = None) -> list[KubeObject]:
        """The same of NodeClaims: each is an instance that exists, is coming or is going."""
        return self._of("NodeClaim", slot)

    def slot_of(self, obj: KubeObject) -> str | None:
        """Slot of a node or a NodeClaim, in a deployment of any size; None of another pool's."""
        name = str((obj["metadata"].get("labels") or {}).get(NODEPOOL_LABEL, ""))
        slot = name.removeprefix(names.FOREIGN_PREFIX) if self._foreign else name
        return slot if names.is_held(slot) and self.name(slot) == name else None

    def scaled(self) -> list[str]:
        """Slots whose NodePools are to have a node, of all that a deployment can have."""
        return [slot for slot in names.held_pools(names.MOST_NODES) if self.replicas(slot)]

    def _of(self, kind: str, slot: str | None) -> list[KubeObject]:
        name = "" if slot is None else f"={self.name(slot)}"
        found = self.kube.list(kind, selector=f"{NODEPOOL_LABEL}{name}")
        return [obj for obj in found if self.slot_of(obj) is not None]
