"""The node that an experiment gets, and on what terms: what the deployment knows and an experiment does not."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from specdecode.experiment import prices
from specdecode.experiment.engine import AmiVersion, Resources
from specdecode.experiment.model import Frozen
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

CORES_PER_DEVICE = 8
"""Physical NeuronCores of a device."""
HBM_GIB_PER_DEVICE = 96
CLAIM_SIZES = (8, 16)
"""Devices for which there is a ResourceClaimTemplate: half of the node and the whole (devicegroup8_id, 16_id)."""
ALLOCATABLE_CPU = 191.45
"""Karpenter's reference: 191450m of 192."""
ALLOCATABLE_MEMORY_GIB = 1938410 / 1024
RESERVED_CPU = 2.0
"""DaemonSets (about 0.8), and the Mountpoint pods that the S3 driver schedules after a workload, one a volume."""
RESERVED_MEMORY_GIB = 8.0
ALLOCATABLE_EPHEMERAL_GIB = 2600.0
"""Of a 3000 GiB root volume, less the images, the system and the kubelet's eviction threshold."""
LINK_GBPS = 100
"""Gbit/s that one mount may ask S3 for: half of a network card of a trn2.48xlarge (16 cards, 3,200 Gbit/s together;
Karpenter 1.14.1, zz_generated.bandwidth.go), since pods use the first card only and two mounts share it."""
COPY_STREAMS = 16
"""Files that are copied at once. It also bounds the mount's memory: 2 GiB of read-ahead at most for each open file
(doc/CONFIGURATION.md of Mountpoint 1.23)."""
MOUNT_BUFFERS_GIB = 40.0
"""Memory for what Mountpoint pods read ahead while a server loads: 16 files at 2 GiB, and the pods' own needs."""
NodeStorage = Literal["instance-store", "ebs"]
"""Where the node keeps what pods write: its four NVMe disks, or gp3."""
MONITOR = Resources(cpu=0.25, memory_gib=1, ephemeral_gib=1)
"""Of the container that `serving.neuron_metrics` puts beside each server (the node-wide one asks for 256m)."""
DRAIN_BEFORE_BLOCK_END_MINUTES = 40
"""Karpenter drains 10 minutes before EC2 ends a Capacity Block's instances, 30 minutes before the block's end."""


class Capacity(Frozen):
    """What is known of the node; what is None is not checked."""

    ami: AmiVersion | None = None
    """Release of the EKS Neuron AMI that the node class pins."""
    price_per_node_hour: float = Field(default=prices.NODE.usd, ge=0)
    """US dollars."""
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
