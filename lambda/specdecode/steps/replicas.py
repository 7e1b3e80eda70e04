"""The NodePools' replicas follow the lease, whatever has become of the lease's document (ADR 52)."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.kubernetes.pools import Pools
from specdecode.runs.lease import Lease
from specdecode.runs.lease_store import LeaseStore

LOOKS = 5
"""Times that the replicas are set while the lease changes under them; after that the next look goes on."""


def set_replicas(pools: Pools, lease: Lease, slots: Sequence[str]) -> None:
    """Set the replicas of the pools `slots`: 1 where a run holds the pool, else 0. Missing pools are passed.

    Pools that get 0 come first. If one cannot be scaled, the others still are, and its error is raised at the end.
    """
    failed: Exception | None = None
    for name in sorted(slots, key=lease.replicas_of):
        try:
            wanted = lease.replicas_of(name)
            if pools.replicas(name) not in (None, wanted):
                pools.scale(name, wanted)
        except Exception as error:
            failed = failed or error
    if failed:
        raise failed


def follow_lease(pools: Pools, lease: LeaseStore, *, known: Lease | None = None) -> Lease:
    """Set the NodePools' replicas to what the lease says, also when it changed meanwhile; returns the lease that they
    follow. `known` is the lease as the caller has just stored or read it.

    The lease is read again after the scaling: between the two, another run may have become a holder, and a slow release
    must not leave it without its node.
    """
    wanted = known or lease.read()
    for _ in range(LOOKS):
        set_replicas(pools, wanted, lease.slots)
        after = lease.read()
        if after.pools == wanted.pools:
            break
        wanted = after
    return wanted
