"""What the guards ask of the cluster: could a node come, who has it, what is left of it, and to give it up."""

from __future__ import annotations

from datetime import UTC, datetime

from specdecode import names
from specdecode.cluster.client import Kubernetes
from specdecode.cluster.errors import NotFound
from specdecode.cluster.readiness import why_no_node
from specdecode.cluster.resources import KubeObject, name_of
from specdecode.cluster.teardown import delete_workloads

NODEPOOL_LABEL = "karpenter.sh/nodepool"
OURS = "app.kubernetes.io/managed-by=specdecode"
"""Label selector of everything that runs create."""


def in_use(kube: Kubernetes) -> str | None:
    """Why the node of a run must not be disturbed, or None. The pools' replicas follow the lease."""
    for name in names.HELD_POOLS:
        if replicas := _replicas(kube, name):
            return f"NodePool {name} has {replicas} replica(s): a run holds the node"
    claims = [claim for name in names.HELD_POOLS for claim in node_claims(kube, pool=name)]
    return f"the node of the last run is still going away ({', '.join(claims)})" if claims else None


def _replicas(kube: Kubernetes, pool: str) -> int:
    found = kube.get("NodePool", pool)
    return 0 if found is None else int(found.get("spec", {}).get("replicas") or 0)


def at_work(kube: Kubernetes) -> str | None:
    """Which workloads of runs exist: a run on servers that already run has Jobs, and no node."""
    found = [name_of(job) for job in kube.list("Job", namespace=names.NAMESPACE, selector=OURS)]
    return f"a run is under way ({', '.join(sorted(found)[:3])})" if found else None


def node_claims(kube: Kubernetes, *, pool: str | None = None) -> list[str]:
    """Names of the NodeClaims (of `pool`): each is an instance that exists, is coming or is going."""
    return [name_of(claim) for claim in _claims(kube, f"{NODEPOOL_LABEL}={pool}" if pool else "")]


def delete_node_claims(kube: Kubernetes) -> list[str]:
    """Ask for every NodeClaim's deletion; returns those that still exist. Karpenter drains and terminates each."""
    for claim in _claims(kube):
        if "deletionTimestamp" not in claim["metadata"]:
            kube.delete("NodeClaim", name_of(claim))
    return [f"NodeClaim/{name}" for name in node_claims(kube)]


def give_up(kube: Kubernetes) -> list[str]:
    """Delete all workloads and scale the pools to zero; returns what still exists."""
    left = delete_workloads(kube, selector=OURS)
    for pool in names.HELD_POOLS:
        if _replicas(kube, pool):
            kube.scale("NodePool", pool, 0)
    return left + [f"NodeClaim/{claim}" for pool in names.HELD_POOLS for claim in node_claims(kube, pool=pool)]


def not_ready(kube: Kubernetes, pools: list[str], *, but_refused: bool = False) -> list[str]:
    """Why Karpenter would make no node for each of the NodePools for which it would not.

    With `but_refused`, those are left out that only a refused dry run keeps from being ready.
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


def _claims(kube: Kubernetes, selector: str = "") -> list[KubeObject]:
    """The NodeClaims; none where Karpenter's CRDs never came, as when a failed deployment is rolled back."""
    try:
        return kube.list("NodeClaim", selector=selector)
    except NotFound:
        return []
