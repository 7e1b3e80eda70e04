"""The nodes that exist, each of which is billed, and those that Karpenter leaves though no run needs them."""

from datetime import UTC, datetime, timedelta

from specdecode.giving_back import CLAIM_GRACE_MINUTES
from specdecode.kubernetes.pools import NodePools
from specdecode.kubernetes.resources import KubeObject, name_of, parse_time
from specdecode.runs.lease_store import LeaseStore
from specdecode.steps import logs

GRACE = timedelta(minutes=CLAIM_GRACE_MINUTES)


def delete_left(pools: NodePools, lease: LeaseStore, *, now: datetime) -> tuple[str, ...]:
    """Delete NodeClaims that Karpenter has not begun to end GRACE after their pool went to 0 replicas. Returns their
    names.

    Only of pools whose node no run holds. Kubernetes cannot limit the right to delete NodeClaims to one pool (a rule
    knows names, and Karpenter makes these up). This function limits it, by the label.
    """
    left = [claim for claim in pools.claims() if "deletionTimestamp" not in claim["metadata"]]
    slots = {name_of(claim): str(pools.slot_of(claim)) for claim in left}
    if not left:
        return ()
    scaled = {slot: _scaled_at(pools.get(slot)) for slot in set(slots.values())}
    old = [claim for claim in left if now - max(scaled[slots[name_of(claim)]], _created(claim)) > GRACE]
    held = _held_pools(lease) if old else frozenset()
    deleted = [name_of(claim) for claim in old if slots[name_of(claim)] not in held]
    for name in deleted:
        pools.kube.delete("NodeClaim", name)
    return tuple(deleted)


def _created(obj: KubeObject) -> datetime:
    return parse_time(str(obj["metadata"]["creationTimestamp"]))


def _scaled_at(pool: KubeObject | None) -> datetime:
    """When the pool was last scaled, by metadata.managedFields. Its creation if it was never scaled."""
    if pool is None:
        return datetime.fromtimestamp(0, UTC)
    entries = pool["metadata"].get("managedFields") or []
    times = [parse_time(entry["time"]) for entry in entries if entry.get("subresource") == "scale" and "time" in entry]
    return max([_created(pool), *times])


def _held_pools(lease: LeaseStore) -> frozenset[str]:
    """Pools that a run holds by now. Empty if the lease's document cannot be read: no run can hold by it."""
    try:
        return lease.read().pools
    except Exception:
        logs.LOGGER.exception("the lease cannot be read: nobody holds a node by it")
        return frozenset()
