"""Whether Karpenter would make a node. It makes none for a NodePool or an EC2NodeClass that is not Ready.

Its static provisioning then returns without an event (kubernetes-sigs/karpenter 1.14.1,
pkg/controllers/static/provisioning/controller.go), so that only the conditions show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.pods import condition, is_true
from specdecode.kubernetes.resources import KubeObject, name_of, parse_time

GRACE = timedelta(minutes=2)
"""Age of a condition. A younger one may still change. An older one is final for a run.

How soon Karpenter 1.14.1 looks again (pkg/controllers/nodeclass): within a minute if no AMI was found (ami.go), up to
40 minutes after a refused dry run, which it keeps for 30 (validation.go, pkg/cache/cache.go).
"""
NOT_PART_OF_READY = {"Ready", "NodeRegistrationHealthy"}
"""Conditions that do not count for `Ready` (apis/v1/nodepool_status.go, ec2nodeclass_status.go of 1.14.1)."""


@dataclass(frozen=True)
class Unready:
    """Why no node can come, and since when."""

    message: str
    lasted: timedelta
    is_refused: bool = False
    """Whether only a refused dry run is in the way. The rights may not have taken effect when it was made."""

    @property
    def is_final(self) -> bool:
        return self.lasted > GRACE


def why_no_node(kube: Kubernetes, pool: KubeObject | None, *, since: datetime, now: datetime) -> Unready | None:
    """The reason why pool or class is not Ready. The EC2NodeClass comes first, because the NodePool only repeats it.
    None if both are Ready.

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


def missing_because(
    *,
    nodes: Iterable[KubeObject],
    claims: Iterable[KubeObject],
    events: Iterable[KubeObject],
    pool: KubeObject | None,
    since: datetime,
) -> str:
    """Why there is no usable node yet, in words. Karpenter's own reason if it gave one (`events`) after `since`, but
    not one about another run's node.
    """
    if pool is None:
        return "the NodePool of the node does not exist: deploy TrainiumClusterStack"
    reasons = [
        f"{event.get('reason', '')}: {event.get('message', '')}"
        for event in sorted(events, key=_event_time)
        if _event_time(event) >= since.isoformat() and _is_about(event.get("involvedObject", {}), pool)
    ]
    if reasons:
        return f"Karpenter says {reasons[-1]}"
    for claim in claims:
        for kind in ("Launched", "Registered", "Initialized"):
            found = condition(claim, kind)
            if found.get("status") != "True":
                return f"NodeClaim {name_of(claim)} is not {kind}: {found.get('message') or 'no reason yet'}"
    return missing_of(nodes) or "Karpenter has not asked for a node yet"


def missing_of(nodes: Iterable[KubeObject]) -> str | None:
    """What a node that has come still lacks. None if no node has come."""
    for node in nodes:
        if not is_true(node, "Ready"):
            return f"node {name_of(node)} is not Ready: {condition(node, 'Ready').get('message') or 'no reason yet'}"
        return f"node {name_of(node)} is Ready but the Neuron DRA driver has published no devices of it"
    return None


def _is_about(involved: KubeObject, pool: KubeObject) -> bool:
    """Whether an object is `pool`, its EC2NodeClass or a NodeClaim of it, even one that is deleted.

    Karpenter names a NodeClaim `<pool>-` and letters without a hyphen (GenerateName in pkg/controllers/provisioning/
    scheduling/nodeclaimtemplate.go of kubernetes-sigs/karpenter). So `trn2-2-x7f9q` is not of `trn2`.
    """
    name = str(involved.get("name", ""))
    if involved.get("kind") == "NodeClaim":
        return name.rpartition("-")[0] == name_of(pool)
    if involved.get("kind") == "NodePool":
        return name == name_of(pool)
    reference = pool.get("spec", {}).get("template", {}).get("spec", {}).get("nodeClassRef", {})
    return name == str(reference.get("name", ""))


def _event_time(event: KubeObject) -> str:
    stamp = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    return parse_time(str(stamp)).isoformat() if stamp else ""
