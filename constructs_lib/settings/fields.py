"""What a deployment can choose: the fields, and values that follow from them. `reading` fills them, `rules` checks
them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from specdecode import names
from specdecode.experiment import shapes
from specdecode.experiment.capacity import ACCEPT_COST_ABOVE
from specdecode.experiment.claims import ClaimConstraint
from specdecode.giving_back import LONGEST_RUN_HOURS, STUCK_GRACE_HOURS

from constructs_lib.settings.neuron_amis import ENGINE_GENERATIONS, NEURON_AMIS
from constructs_lib.settings.place_fields import PlaceSettings, Texts, split
from constructs_lib.settings.schedule_fields import ScheduleSettings


def _pairs(value: Any) -> Any:
    """`-c tags=team=ml,stage=dev` gives one string: split it into a mapping."""
    if not isinstance(value, str):
        return value
    parts = [part.partition("=") for part in split(value)]
    if any(not separator for _, separator, _ in parts):
        raise ValueError("write it as key=value,key=value")
    return {key.strip(): text.strip() for key, _, text in parts}


ARN = r"^arn:aws[a-z-]*:"


class Settings(ScheduleSettings, PlaceSettings):
    """Every setting has a default: a deployment needs none. On-demand capacity unless a reservation is named."""

    node_type: Literal["trn2.48xlarge", "trn2.3xlarge"] = Field(
        "trn2.48xlarge", description="Instance type of the node with Neuron devices, called the trn2 node here."
    )
    nodes: int = Field(
        1,
        ge=1,
        le=names.MOST_NODES,
        description="How many trn2 nodes may exist at once, one for each run: as many runs go on at once, and as many "
        "nodes are billed at most. With a Capacity Block or reservation, its number of instances.",
    )
    capacity_zones: Texts = Field(
        (),
        description="Zones by id where the trn2 node may start; unset, the network's that are known to have its type.",
    )
    trn2_zones: Texts = Field(
        (), description="Zones by id that have its type, if you know of more than the table below."
    )
    engine_generation: str = Field(
        "sdk-2.26", description="Generation of engine images that the trn2 node is for; it decides the node's AMI."
    )
    neuron_ami: str | None = Field(
        None,
        pattern=r"^v\d{8}$",
        description="EKS AL2023 Neuron AMI release, of those listed below; unset, the generation's.",
    )
    driver_guard: bool = Field(
        False,
        description="Let claims match only nodes with the AMI's Neuron driver. On other nodes pods then stay Pending.",
    )
    claim_constraint: ClaimConstraint = Field(
        "devicegroup",
        description="What the devices of a claim share: the device group, their place in the torus, or nothing.",
    )
    capacity_reservation_id: str | None = Field(
        None,
        pattern=r"^cr-[0-9a-f]{8,17}$",
        description="Capacity Block or On-Demand Capacity Reservation; unset, on-demand.",
    )
    capacity_start: datetime | None = Field(None, description="Start of the Capacity Block, ISO 8601 with offset.")
    capacity_end: datetime | None = Field(None, description="End of the Capacity Block, ISO 8601 with offset.")
    price_per_node_hour: float | None = Field(
        None,
        gt=0,
        description="USD per hour of the trn2 node; costs are computed with it. Unset, AWS's list price (below) if it "
        "publishes one; it is not looked up.",
    )
    node_storage: Literal["instance-store", "ebs"] = Field(
        "instance-store", description="Where the trn2 node keeps container files: its four NVMe disks (RAID 0), or gp3."
    )
    efa_interfaces: bool = Field(
        False,
        description="Give the trn2 node an EFA interface for each Neuron device, by which the native engines' workers "
        "pin their CPUs; without, they run unpinned. It leaves room for 51 pods on the node.",
    )
    ebs_gib: int = Field(3000, ge=500, le=16384, description="Size of the gp3 volume with `node_storage=ebs`, in GiB.")
    bucket_encryption: Literal["s3", "kms"] = Field(
        "s3", description="How the bucket is encrypted: SSE-S3, or a KMS key of this stack."
    )
    removal_policy: Literal["retain", "destroy"] = Field(
        "retain", description="What `cdk destroy` does with the artifact bucket. `destroy` empties it."
    )
    run_retention_days: int | None = Field(
        None, ge=1, description="Days after which a run's raw files expire; unset, never."
    )
    log_retention_days: int = Field(30, description="Days that every log group keeps its lines.")
    budget_usd: int = Field(
        5000, ge=1, description="Monthly budget of the whole account; a mail comes at 80 % spent and at 100 % forecast."
    )
    accept_cost_above_usd: float = Field(
        ACCEPT_COST_ABOVE,
        ge=0,
        description="USD that a run may cost if all its steps last to their deadlines. A run that could cost more is "
        "refused unless its request accepts that (`specdecode run --accept-cost`).",
    )
    longest_run_hours: int = Field(
        LONGEST_RUN_HOURS,
        ge=1,
        description="Hours for which a run may hold the node before the alarm `StuckRun`; "
        f"{STUCK_GRACE_HOURS} hours later the backstop ends the instance.",
    )
    alert_email: str | None = Field(
        None, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", description="Address that gets alarms and budget notices."
    )
    accept_no_alerts: bool = Field(
        False,
        description="Accept that nobody is told of a node that stays: `preflight` and `run` need no confirmed address.",
    )
    permissions_boundary: str | None = Field(
        None, pattern=ARN + r"iam::\d{12}:policy/.+$", description="Policy ARN put on every IAM role as its boundary."
    )
    tags: Annotated[dict[str, str], BeforeValidator(_pairs)] = Field(
        default_factory=dict, description="Tags on every resource that takes tags (`-c tags=team=ml,stage=dev`)."
    )

    @property
    def node_zones(self) -> tuple[str, ...]:
        """Zones in which the trn2 node may start, by id."""
        return self.capacity_zones or tuple(zone for zone in self.zones if zone in self.known_zones)

    @property
    def known_zones(self) -> tuple[str, ...]:
        """Zones that are known to have the trn2 node's type, by id."""
        return self.trn2_zones or (self.shape.zones or {}).get(self.region, ())

    @property
    def shape(self) -> shapes.NodeShape:
        """What the trn2 node has."""
        return shapes.SHAPES[self.node_type]

    @property
    def node_price(self) -> float:
        """USD per hour of the trn2 node. Raises LookupError if neither the settings nor AWS name a price; the rules
        refuse that.
        """
        published = self.shape.price_in(self.region)
        if self.price_per_node_hour is None and published is None:
            raise LookupError(f"no price of a {self.node_type} in {self.region} is known")
        return self.price_per_node_hour or (published.usd if published else 0.0)

    @property
    def node_pools(self) -> list[str]:
        """NodePools whose nodes runs hold, by their names in Karpenter, or the node group. Empty if nodes are simply
        there.
        """
        if self.existing_node_group:
            return [self.existing_node_group]
        foreign = self.existing_cluster is not None
        return [names.node_pool(slot, foreign=foreign) for slot in names.held_pools(self.nodes) if self.makes_nodes]

    @property
    def reserved(self) -> bool:
        """Whether the trn2 node comes from a reservation."""
        return self.capacity_reservation_id is not None

    @property
    def ami(self) -> str:
        """Release of the trn2 node's AMI."""
        return self.neuron_ami or ENGINE_GENERATIONS[self.engine_generation].ami

    @property
    def neuron_driver(self) -> str:
        """Kernel driver of that AMI. Raises KeyError if the AMI is not listed; the rules refuse that."""
        return NEURON_AMIS[self.ami].driver
