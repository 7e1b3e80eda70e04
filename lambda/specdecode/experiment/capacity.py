"""The node that an experiment gets, and on what terms: what the deployment knows and an experiment does not."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from specdecode import names
from specdecode.experiment import shapes
from specdecode.experiment.engine_parts import AmiVersion
from specdecode.experiment.model import Frozen
from specdecode.experiment.resources import Resources
from specdecode.experiment.standing import standing_price
from specdecode.giving_back import LONGEST_RUN_HOURS, STUCK_GRACE_HOURS

CapacityType = Literal["on-demand", "odcr", "capacity-block"]
TERMS: dict[CapacityType, str] = {
    "on-demand": "on demand",
    "odcr": "from an On-Demand Capacity Reservation",
    "capacity-block": "from a Capacity Block",
}
"""On what terms the node comes, in words."""
ACCEPT_COST_ABOVE = 500.0
"""US dollars that a run may cost at most without somebody having accepted more."""

RESERVED_CPU = 2.0
"""DaemonSets (about 0.8), and the Mountpoint pods that the S3 driver schedules after a workload, one a volume."""
RESERVED_MEMORY_GIB = 8.0
COPY_STREAMS = 16
"""Files that are copied at once. It also bounds the mount's memory: 2 GiB of read-ahead at most for each open file
(doc/CONFIGURATION.md of Mountpoint 1.23)."""
COPY_MARGIN = 1.1
"""Local disk for a copy, in sizes of the weights: ranks hold some tensors each."""
READ_AHEAD_GIB = 2.0
"""Memory that Mountpoint takes at most for each file that is open."""
MOUNT_PODS_GIB = 8.0
"""Memory for the Mountpoint pods' own needs."""
NodeStorage = Literal["instance-store", "ebs"]
"""Where the node keeps what pods write: its four NVMe disks, or gp3."""
MONITOR = Resources(cpu=0.25, memory_gib=1, ephemeral_gib=1)
"""Of the container that `serving.neuron_metrics` puts beside each server (the node-wide one asks for 256m)."""
DRAIN_BEFORE_BLOCK_END_MINUTES = 40
"""Karpenter drains 10 minutes before EC2 ends a Capacity Block's instances, 30 minutes before the block's end."""


class Capacity(Frozen):
    """What is known of the node; what is None is not checked."""

    node: str | None = None
    """Shape of the deployment's node with Neuron devices; None: whichever an experiment names."""
    nodes: int = Field(default=1, ge=1, le=names.MOST_NODES)
    """How many of them the deployment can have at a time; each is held by one run."""
    region: str = shapes.HOME
    ami: AmiVersion | None = None
    """Release of the EKS Neuron AMI that the node class pins."""
    price_per_node_hour: float | None = Field(default=None, ge=0)
    """US dollars that are paid for that node; None: what AWS publishes for it in `region`."""
    node_storage: NodeStorage = "instance-store"
    reservation: str | None = None
    """Id of the reservation that the node comes from; None: on demand."""
    block_start: datetime | None = None
    block_end: datetime | None = None
    """Window of the Capacity Block, where there is one."""
    resting_price_per_hour: float = Field(default_factory=standing_price, ge=0)
    """US dollars for an hour of all that stands there without a run."""
    accept_cost_above: float = Field(default=ACCEPT_COST_ABOVE, ge=0)
    """US dollars; a run that could cost more is refused unless its request accepts that."""
    longest_run_hours: int = Field(default=LONGEST_RUN_HOURS, ge=1)
    """Hours for which a run may hold the node before a person is told."""

    def of(self, node: str) -> Capacity:
        """The terms on which an experiment gets a node of the shape `node`, with its price.

        The settings of the deployment are about its node with devices: any other comes on demand, at AWS's price. The
        price stays None where nobody has said one and AWS publishes none.
        """
        shape = shapes.SHAPES[node]
        published = shape.price_in(self.region)
        own = {"node": node, "price_per_node_hour": published.usd if published else None}
        own |= {} if shape.has_nvme else {"node_storage": "ebs"}
        if self.node not in (None, node):
            return self.model_copy(
                update=own | {"ami": None, "reservation": None, "block_start": None, "block_end": None}
            )
        return self.model_copy(update={**own, **self._said()})

    def _said(self) -> dict[str, float]:
        return {} if self.price_per_node_hour is None else {"price_per_node_hour": self.price_per_node_hour}

    @property
    def backstop_hours(self) -> int:
        """Hours after which the backstop ends the node under the run that holds it."""
        return self.longest_run_hours + STUCK_GRACE_HOURS

    @property
    def type(self) -> CapacityType:
        """A reservation without an end is an On-Demand Capacity Reservation."""
        if self.block_end is not None:
            return "capacity-block"
        return "on-demand" if self.reservation is None else "odcr"
