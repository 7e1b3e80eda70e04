"""The node of a run: which node it can use, and the reason if no node has come."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from specdecode.experiment import Capacity
from specdecode.experiment.capacity import DRAIN_BEFORE_BLOCK_END_MINUTES
from specdecode.kubernetes.node_room import DRA_DRIVER
from specdecode.kubernetes.pods import is_true
from specdecode.kubernetes.resources import KubeObject, name_of


def outside_window(capacity: Capacity, now: datetime) -> str | None:
    """Why a Capacity Block gives no node now: it has not begun, or its node will be drained soon. None if it does, or
    without a block.
    """
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
    """Name of a Ready node of the pool, or None. Its Neuron devices must be in `slices`. `slices` None: the node has no
    devices.
    """
    published = {item["spec"].get("nodeName") for item in slices or () if item["spec"].get("driver") == DRA_DRIVER}
    for node in nodes:
        ready = is_true(node, "Ready") and "deletionTimestamp" not in node["metadata"]
        if ready and (slices is None or name_of(node) in published):
            return name_of(node)
    return None
