"""The nodes that exist, each of which bills, and those that Karpenter leaves though nobody needs them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from specdecode import names
from specdecode.cluster.client import Kubernetes
from specdecode.cluster.lease_store import LeaseStore
from specdecode.cluster.resources import KubeObject, name_of, parse_time
from specdecode.giving_back import CLAIM_GRACE_MINUTES
from specdecode.tasks import logs
from specdecode.tasks.capacity import NODEPOOL_LABEL

GRACE = timedelta(minutes=CLAIM_GRACE_MINUTES)


def count(kube: Kubernetes) -> int:
    """NodeClaims of the trn2 pool; each is an instance that bills."""
    return len(_claims(kube))


def delete_left(kube: Kubernetes, lease: LeaseStore, *, now: datetime) -> tuple[str, ...]:
    """Delete what Karpenter has not begun to end GRACE after the pool went to 0 replicas; the names.

    Only at 0 replicas. Kubernetes cannot confine the right to delete NodeClaims to those of one pool (a rule knows
    names, and these are made up by Karpenter): it is confined here, by the label.
    """
    left = [claim for claim in _claims(kube) if "deletionTimestamp" not in claim["metadata"]]
    if not left:
        return ()
    since = _scaled_at(kube.get("NodePool", names.NODEPOOL))
    old = [claim for claim in left if now - max(since, _created(claim)) > GRACE]
    if not old or _is_held(lease):
        return ()
    for claim in old:
        kube.delete("NodeClaim", name_of(claim))
    return tuple(name_of(claim) for claim in old)


def _claims(kube: Kubernetes) -> list[KubeObject]:
    found = kube.list("NodeClaim", selector=f"{NODEPOOL_LABEL}={names.NODEPOOL}")
    return [claim for claim in found if (claim["metadata"].get("labels") or {}).get(NODEPOOL_LABEL) == names.NODEPOOL]


def _created(obj: KubeObject) -> datetime:
    return parse_time(str(obj["metadata"]["creationTimestamp"]))


def _scaled_at(pool: KubeObject | None) -> datetime:
    """When the pool was last scaled, by metadata.managedFields; its creation where nobody has scaled it."""
    if pool is None:
        return datetime.fromtimestamp(0, UTC)
    entries = pool["metadata"].get("managedFields") or []
    times = [parse_time(entry["time"]) for entry in entries if entry.get("subresource") == "scale" and "time" in entry]
    return max([_created(pool), *times])


def _is_held(lease: LeaseStore) -> bool:
    """Whether somebody has become the holder meanwhile; nobody can by a document that cannot be read."""
    try:
        return lease.read().holder is not None
    except Exception:
        logs.LOGGER.exception("the lease cannot be read: nobody holds the node by it")
        return False
