"""Whether Karpenter would make a node at all: it makes none for a NodePool or an EC2NodeClass that is not Ready.

Its static provisioning then returns without an event (kubernetes-sigs/karpenter 1.14.1,
pkg/controllers/static/provisioning/controller.go), so that only the conditions tell of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from specdecode.cluster.client import Kubernetes
from specdecode.cluster.pods import condition
from specdecode.cluster.resources import KubeObject, name_of, parse_time

GRACE = timedelta(minutes=2)
"""A condition that is younger may be just being computed. An older one is final for a run.

How soon Karpenter 1.14.1 looks again (pkg/controllers/nodeclass): within a minute where no AMI was found (ami.go), up
to 40 minutes after a refused dry run, which it keeps for 30 (validation.go, pkg/cache/cache.go).
"""
NOT_PART_OF_READY = {"Ready", "NodeRegistrationHealthy"}
"""Conditions that do not enter into `Ready` (apis/v1/nodepool_status.go, ec2nodeclass_status.go of 1.14.1)."""


@dataclass(frozen=True)
class Unready:
    """Why no node can come, and for how long that has been so."""

    message: str
    lasted: timedelta
    is_refused: bool = False
    """Only a dry run that AWS refused stands in the way: the rights may not have propagated when it was made."""

    @property
    def is_final(self) -> bool:
        return self.lasted > GRACE


def why_no_node(kube: Kubernetes, pool: KubeObject | None, *, since: datetime, now: datetime) -> Unready | None:
    """What is not Ready: the EC2NodeClass before the NodePool, which only repeats it. None if both are.

    A condition that Karpenter has never written counts from `since` on.
    """
    if pool is None:
        return None
    name = str(pool.get("spec", {}).get("template", {}).get("spec", {}).get("nodeClassRef", {}).get("name", ""))
    node_class = kube.get("EC2NodeClass", name) if name else None
    if name and node_class is None:
        return Unready(f"the EC2NodeClass {name} of the NodePool {name_of(pool)} does not exist", now - since)
    for kind, obj in (("EC2NodeClass", node_class), ("NodePool", pool)):
        if obj is not None and condition(obj, "Ready").get("status") != "True":
            return _unready(kind, obj, since=since, now=now)
    return None


def _unready(kind: str, obj: KubeObject, *, since: datetime, now: datetime) -> Unready:
    found = [
        item
        for item in obj.get("status", {}).get("conditions") or []
        if item.get("status") != "True" and item.get("type") not in NOT_PART_OF_READY
    ]
    parts = [
        f"{item.get('type')}={item.get('status')} ({item.get('reason') or 'no reason'}: {item.get('message') or '-'})"
        for item in found
    ]
    changed = condition(obj, "Ready").get("lastTransitionTime")
    began = parse_time(str(changed)) if changed else since
    return Unready(
        f"{kind} {name_of(obj)} is not Ready: {'; '.join(parts) or 'Karpenter has written no condition'}",
        now - began,
        is_refused=bool(found) and all(_is_refusal(item) for item in found),
    )


def _is_refusal(item: KubeObject) -> bool:
    """The reasons of a refused dry run are <call>AuthCheckFailed (nodeclass/validation.go of 1.14.1)."""
    return (
        item.get("type") == "ValidationSucceeded"
        and item.get("status") == "False"
        and str(item.get("reason")).endswith("AuthCheckFailed")
    )
