"""The node of a run: which node it can use, and the reason if no node has come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from specdecode.cluster.client import Kubernetes
from specdecode.cluster.pods import condition, is_true
from specdecode.cluster.resources import KubeObject, name_of, parse_time
from specdecode.experiment import Capacity
from specdecode.experiment.capacity import DRAIN_BEFORE_BLOCK_END_MINUTES

DRA_DRIVER = "neuron.aws.com"
KARPENTER_KINDS = ("NodeClaim", "NodePool", "EC2NodeClass")


def outside_window(capacity: Capacity, now: datetime) -> str | None:
    """Why a Capacity Block gives no node now: not begun, or about to be drained. None within it, or without a block."""
    if capacity.block_start is not None and now < capacity.block_start:
        return f"the Capacity Block starts at {capacity.block_start.isoformat()}: start the run then"
    if capacity.block_end is not None:
        drained = capacity.block_end - timedelta(minutes=DRAIN_BEFORE_BLOCK_END_MINUTES)
        if now >= drained:
            return (
                f"the Capacity Block's node is drained from {drained.isoformat()} on: deploy with another reservation"
            )
    return None


def usable_node(nodes: Iterable[KubeObject], slices: Iterable[KubeObject] | None) -> str | None:
    """Name of a Ready node of the pool, or None. Its Neuron devices must be in `slices`; None: it has no devices."""
    published = {item["spec"].get("nodeName") for item in slices or () if item["spec"].get("driver") == DRA_DRIVER}
    for node in nodes:
        ready = is_true(node, "Ready") and "deletionTimestamp" not in node["metadata"]
        if ready and (slices is None or name_of(node) in published):
            return name_of(node)
    return None


def warnings_about(kube: Kubernetes, kind: str) -> Sequence[KubeObject]:
    """Events of type Warning about objects of `kind`: the API server chooses them, however many others there are."""
    return kube.events_about(kind, only="Warning")


def missing_because(
    *,
    nodes: Iterable[KubeObject],
    claims: Iterable[KubeObject],
    events: Iterable[KubeObject],
    pool: KubeObject | None,
    since: datetime,
) -> str:
    """Why there is no usable node yet, in words: Karpenter's own reason where it gave one (`events`) after `since`.

    What it says of another run's node is passed over.
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
    for node in nodes:
        if not is_true(node, "Ready"):
            return f"node {name_of(node)} is not Ready: {condition(node, 'Ready').get('message') or 'no reason yet'}"
        return f"node {name_of(node)} is Ready but the Neuron DRA driver has published no devices of it"
    return "Karpenter has not asked for a node yet"


def _is_about(involved: KubeObject, pool: KubeObject) -> bool:
    """Whether an object is `pool`, its EC2NodeClass or a NodeClaim of it, also one that is gone.

    Karpenter names a NodeClaim `<pool>-` and letters without a hyphen (GenerateName in pkg/controllers/provisioning/
    scheduling/nodeclaimtemplate.go of kubernetes-sigs/karpenter): `trn2-2-x7f9q` is none of `trn2`.
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
