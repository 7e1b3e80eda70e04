"""The NodePools' replicas follow the lease, whatever happens to the lease's document (ADR 52)."""

from collections.abc import Sequence

from specdecode.kubernetes.pools import Pools
from specdecode.runs.lease import Lease
from specdecode.runs.lease_store import LeaseStore

LOOKS = 5
"""How often the replicas are set again if the lease changes meanwhile. After that the next look goes on."""


def set_replicas(pools: Pools, lease: Lease, slots: Sequence[str]) -> None:
    """Set the replicas of the pools `slots`: 1 if a run holds the pool, else 0. Missing pools are skipped.

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
    """Set the NodePools' replicas to what the lease says, also if it changes meanwhile. Returns the lease that they
    follow.

    `known` is the lease that the caller has just stored or read. The lease is read again after the scaling: another run
    may have become a holder in between, and a slow release must not leave it without its node.
    """
    wanted = known or lease.read()
    for _ in range(LOOKS):
        set_replicas(pools, wanted, lease.slots)
        after = lease.read()
        if after.pools == wanted.pools:
            break
        wanted = after
    return wanted
