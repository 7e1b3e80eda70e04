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
    """NodeClaims of the pools that runs hold nodes of; each is an instance that bills."""
    return sum(len(_claims(kube, pool)) for pool in names.HELD_POOLS)


def delete_left(kube: Kubernetes, lease: LeaseStore, *, now: datetime) -> tuple[str, ...]:
    """Delete what Karpenter has not begun to end GRACE after its pool went to 0 replicas; the names.

    Only of pools that nobody holds a node of. Kubernetes cannot confine the right to delete NodeClaims to those of one
    pool (a rule knows names, and these are made up by Karpenter): it is confined here, by the label.
    """
    deleted: list[str] = []
    for pool in names.HELD_POOLS:
        left = [claim for claim in _claims(kube, pool) if "deletionTimestamp" not in claim["metadata"]]
        if not left:
            continue
        since = _scaled_at(kube.get("NodePool", pool))
        old = [claim for claim in left if now - max(since, _created(claim)) > GRACE]
        if old and _held_pool(lease) != pool:
            for claim in old:
                kube.delete("NodeClaim", name_of(claim))
            deleted += [name_of(claim) for claim in old]
    return tuple(deleted)


def _claims(kube: Kubernetes, pool: str) -> list[KubeObject]:
    found = kube.list("NodeClaim", selector=f"{NODEPOOL_LABEL}={pool}")
    return [claim for claim in found if (claim["metadata"].get("labels") or {}).get(NODEPOOL_LABEL) == pool]


def _created(obj: KubeObject) -> datetime:
    return parse_time(str(obj["metadata"]["creationTimestamp"]))


def _scaled_at(pool: KubeObject | None) -> datetime:
    """When the pool was last scaled, by metadata.managedFields; its creation where nobody has scaled it."""
    if pool is None:
        return datetime.fromtimestamp(0, UTC)
    entries = pool["metadata"].get("managedFields") or []
    times = [parse_time(entry["time"]) for entry in entries if entry.get("subresource") == "scale" and "time" in entry]
    return max([_created(pool), *times])


def _held_pool(lease: LeaseStore) -> str | None:
    """The pool of whoever has become the holder meanwhile; nobody can by a document that cannot be read."""
    try:
        return lease.read().pool
    except Exception:
        logs.LOGGER.exception("the lease cannot be read: nobody holds the node by it")
        return None
