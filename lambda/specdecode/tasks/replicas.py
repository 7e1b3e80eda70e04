"""The NodePool's replicas follow the lease, whatever has become of the lease's document (ADR 132)."""

from __future__ import annotations

from specdecode import names
from specdecode.cluster.client import Kubernetes
from specdecode.cluster.lease import Lease
from specdecode.cluster.lease_store import LeaseStore

LOOKS = 5
"""Times that the replicas are set while the lease changes under them; after that the next look goes on."""


def set_replicas(kube: Kubernetes, replicas: int) -> None:
    """Bring the NodePool to `replicas`; one that does not exist has no node."""
    pool = kube.get("NodePool", names.NODEPOOL)
    if pool is not None and pool.get("spec", {}).get("replicas") != replicas:
        kube.scale("NodePool", names.NODEPOOL, replicas)


def follow_lease(kube: Kubernetes, lease: LeaseStore, *, known: Lease | None = None) -> int:
    """Set the NodePool's replicas to what the lease says, also when it changed meanwhile; returns them. `known` is the
    lease as the caller has just stored or read it.

    The lease is read again after the scaling: between the two, another run may have become the holder, and a slow
    release must not leave it without its node.
    """
    wanted = (known or lease.read()).replicas
    for _ in range(LOOKS):
        set_replicas(kube, wanted)
        after = lease.read().replicas
        if after == wanted:
            break
        wanted = after
    return wanted
