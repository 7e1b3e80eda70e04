"""The node that an experiment gets, and its terms. The deployment knows them; the experiment does not."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, ValidationError

from specdecode import names
from specdecode.experiment import kept, shapes
from specdecode.experiment.base import Frozen, PricePerHour
from specdecode.experiment.engine_parts import AmiVersion, Resources
from specdecode.experiment.problems import refused
from specdecode.experiment.standing import standing_price
from specdecode.giving_back import LONGEST_RUN_HOURS, STUCK_GRACE_HOURS

CapacityType = Literal["on-demand", "odcr", "capacity-block"]
TERMS: dict[CapacityType, str] = {
    "on-demand": "on demand",
    "odcr": "from an On-Demand Capacity Reservation",
    "capacity-block": "from a Capacity Block",
}
"""The terms of the node, in words."""
ACCEPT_COST_ABOVE = 500.0
"""US dollars. A run that could cost more needs somebody's consent."""

RESERVED_CPU = 2.0
"""DaemonSets (about 0.8), and the Mountpoint pods that the S3 driver schedules after a workload, one a volume."""
RESERVED_MEMORY_GIB = 8.0
COPY_STREAMS = 16
"""Files that are copied at once; for each, Mountpoint 1.23 takes 2 GiB at most (its doc/CONFIGURATION.md)."""
COPY_MARGIN = 1.1
"""Local disk for a copy, as a multiple of the weights' size: every rank holds its own copy of some tensors."""
READ_AHEAD_GIB = 2.0
"""Memory that Mountpoint takes at most for each file that is open."""
MOUNT_PODS_GIB = 8.0
"""Memory for the Mountpoint pods' own needs."""
NodeStorage = Literal["instance-store", "ebs"]
"""The disks on which pods write: the node's four NVMe disks, or gp3."""
MONITOR = Resources(cpu=0.25, memory_gib=1, ephemeral_gib=1)
"""Resources of the container that `serving.neuron_metrics` puts beside each server (the node's own asks for 256m)."""
OF_SETTINGS = {
    "node": "node_type",
    "nodes": "nodes",
    "region": "region",
    "price_per_node_hour": "price_per_node_hour",
    "node_storage": "node_storage",
    "efa_interfaces": "efa_interfaces",
    "reservation": "capacity_reservation_id",
    "block_start": "capacity_start",
    "block_end": "capacity_end",
    "accept_cost_above": "accept_cost_above_usd",
    "longest_run_hours": "longest_run_hours",
}
"""Field of a Capacity -> the deployment's setting that it is."""
DRAIN_BEFORE_BLOCK_END_MINUTES = 40
"""Karpenter drains 10 minutes before EC2 ends a Capacity Block's instances, 30 minutes before the block's end."""


class Capacity(Frozen):
    """The facts about the node. A field that is None is not checked."""

    node: str | None = None
    """Shape of the deployment's node with Neuron devices. None: the one that an experiment names."""
    nodes: int = Field(default=1, ge=1, le=names.MOST_NODES)
    """How many such nodes the deployment can have at a time. One run holds each."""
    region: str = shapes.HOME
    ami: AmiVersion | None = None
    """Release of the EKS Neuron AMI that the node class pins."""
    price_per_node_hour: PricePerHour | None = None
    """US dollars that you pay for an hour of that node. None: the price that AWS publishes for `region`."""
    node_storage: NodeStorage = "instance-store"
    efa_interfaces: bool = False
    """Whether that node has an EFA interface for each Neuron device."""
    claims: str = ""
    """What the names of the deployment's claim templates end in (specdecode.experiment.claims)."""
    reservation: str | None = None
    """Id of the node's reservation. None: the node comes on demand."""
    block_start: datetime | None = None
    block_end: datetime | None = None
    """Window of the Capacity Block. None without one."""
    resting_price_per_hour: PricePerHour = Field(default_factory=standing_price)
    """US dollars for an hour of the deployment without a run."""
    accept_cost_above: float = Field(default=ACCEPT_COST_ABOVE, ge=0)
    """US dollars. A run that could cost more is refused unless its request accepts the cost."""
    longest_run_hours: int = Field(default=LONGEST_RUN_HOURS, ge=1)
    """Hours that a run may hold the node before the alarm tells a person."""

    def of(self, node: str) -> Capacity:
        """The terms on which an experiment gets a node of the shape `node`, with its price. The settings of the
        deployment are about its node with devices. Any other node comes on demand, at AWS's price. The price is None if
        the settings have none and AWS publishes none.
        """
        shape = shapes.SHAPES[node]
        published = shape.price_in(self.region)
        own: dict[str, Any] = {"node": node, "price_per_node_hour": published.usd if published else None}
        own |= {} if shape.has_nvme else {"node_storage": "ebs"}
        if self.node not in (None, node):
            unset = dict.fromkeys(("ami", "reservation", "block_start", "block_end"))
            return self.model_copy(update=own | unset | {"efa_interfaces": False})
        said = self.price_per_node_hour
        return self.model_copy(update=own if said is None else own | {"price_per_node_hour": said})

    def price(self) -> float:
        """US dollars for an hour of the node of these terms (`of`). Raises ExperimentError if nobody knows them."""
        if self.price_per_node_hour is None:
            message = f"AWS publishes no price of a {self.node} in {self.region} that is known here"
            fix = "say what you pay for an hour: --price of `plan` and `instance`, in a deployment price_per_node_hour"
            source = shapes.SHAPES[self.node].source if self.node else ""
            raise refused("node", message, fix, rule="node-price", source=source)
        return self.price_per_node_hour

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


def kept_capacity(region: str | None = None) -> Capacity:
    """The terms of the deployment that the checkout keeps, but for its AMI, which follows the engine at the next one.
    Without one, or if `region` is another, those of no deployment. Raises kept.BadFile.
    """
    settings = kept.read(kept.checkout()).settings
    if not settings or region not in (None, settings.get("region", shapes.HOME)):
        return Capacity()
    told = {"node_type": shapes.DEFAULT, **settings}
    try:
        return Capacity(**{field: told[key] for field, key in OF_SETTINGS.items() if told.get(key)})
    except ValidationError as error:
        wrong = (f"{OF_SETTINGS[str(each['loc'][0])]}: {kept.refused(each)}" for each in error.errors())
        raise kept.BadFile(f"{kept.FILE}: {'; '.join(wrong)}") from None
