"""What the guards ask the cluster: could a node come, which run has it, what is left of it. And how they give it up."""

from datetime import UTC, datetime

from specdecode import names
from specdecode.kubernetes.client import Kubernetes, NotFound
from specdecode.kubernetes.pools import Pools, why_no_node
from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.kubernetes.teardown import delete_workloads

OURS = "app.kubernetes.io/managed-by=specdecode"
"""Label selector of everything that runs create."""


def in_use(pools: Pools) -> str | None:
    """Why the nodes of runs must not be disturbed. None if they may.

    It looks at every pool that exists: one that an update removes is no longer in the new settings.
    """
    if wanted := pools.scaled():
        return f"NodePool {', '.join(map(pools.name, wanted))} has 1 replica: a run holds the node"
    claims = pools.instances()
    return f"the node of the last run is still going away ({', '.join(claims)})" if claims else None


def at_work(kube: Kubernetes) -> str | None:
    """Which workloads of runs exist. A run on servers that already run has Jobs and no node."""
    found = [name_of(job) for job in kube.list("Job", namespace=names.NAMESPACE, selector=OURS)]
    return f"a run is under way ({', '.join(sorted(found)[:3])})" if found else None


def delete_node_claims(kube: Kubernetes) -> list[str]:
    """Delete every NodeClaim. Returns those that still exist. Karpenter drains and terminates each."""
    for claim in _claims(kube):
        if "deletionTimestamp" not in claim["metadata"]:
            kube.delete("NodeClaim", name_of(claim))
    return [f"NodeClaim/{name_of(claim)}" for claim in _claims(kube)]


def give_up(pools: Pools) -> list[str]:
    """Delete all workloads and scale the pools to zero. Returns what still exists."""
    left = delete_workloads(pools.kube, selector=OURS)
    for slot in pools.scaled():
        pools.scale(slot, 0)
        left.append(f"NodePool/{pools.name(slot)}")  # an instance may have been asked for, and be seen later
    return left + pools.instances()


def not_ready(kube: Kubernetes, pools: list[str], *, but_refused: bool = False) -> list[str]:
    """Why Karpenter would make no node, for each such NodePool. `but_refused`: without those of a refused dry run
    alone.
    """
    now = datetime.now(UTC)
    found = []
    for name in pools:
        pool = kube.get("NodePool", name)
        unready = why_no_node(kube, pool, since=now, now=now)
        if pool is None:
            found.append(f"NodePool {name} does not exist")
        elif unready and not (but_refused and unready.is_refused):
            found.append(unready.message)
    return found


def _claims(kube: Kubernetes) -> list[KubeObject]:
    """The NodeClaims. Empty if Karpenter's CRDs were never installed."""
    try:
        return kube.list("NodeClaim")
    except NotFound:
        return []
