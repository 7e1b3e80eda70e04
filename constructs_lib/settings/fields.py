"""What a deployment can choose: the fields, and values that follow from them. `reading` fills them, `rules` checks
them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from specdecode import names
from specdecode.experiment import shapes
from specdecode.experiment.capacity import ACCEPT_COST_ABOVE
from specdecode.experiment.claims import ClaimConstraint
from specdecode.giving_back import LONGEST_RUN_HOURS, STUCK_GRACE_HOURS

from constructs_lib.settings.neuron_amis import ENGINE_GENERATIONS, NEURON_AMIS
from constructs_lib.settings.versions import ADDONS
from constructs_lib.settings.zones import REGION_ZONES

BLOCK = "block"
"""Value of `schedule` for one run that starts when the Capacity Block begins."""


class ScheduleSettings(BaseModel):
    """No run starts by itself unless `schedule` is given."""

    schedule: str | None = Field(
        None,
        description="When a run starts by itself: `cron(0 1 * * ? *)`, or `block` for one as the Capacity Block begins "
        "([how](how-to/run-on-a-schedule.md)); unset, never.",
    )
    schedule_experiment: str | None = Field(
        None, description="What it runs: a preset, or a YAML file. A schedule needs one."
    )
    schedule_time_zone: str = Field("UTC", description="Time zone of `schedule`, as `Europe/Berlin`.")
    schedule_accept_cost_usd: float | None = Field(
        None,
        gt=0,
        description="USD that each such run may cost at most, by its deadlines; an experiment that could cost more is "
        "refused at synth. Unset, `accept_cost_above_usd`.",
    )


def split(value: Any) -> Any:
    """`-c key=a,b` gives one string: split it."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(split)]


class PlaceSettings(BaseModel):
    """Region and account, the network, the cluster with its system nodes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    region: str = Field("us-east-2", description="AWS region of both stacks.")
    account: str | None = Field(
        None, pattern=r"^\d{12}$", description="Account that a deployment must go to; unset, that of the credentials."
    )
    availability_zones: Texts = Field(
        (),
        description="Zones of the network by id (`use2-az1`), two or three; unset, those that the project knows of the "
        "region. With `vpc_id`, the zone of each of `subnet_ids`, in their order.",
    )
    vpc_id: str | None = Field(
        None,
        pattern=r"^vpc-[0-9a-f]{8,17}$",
        description="VPC of yours to use; unset, one is made ([how](how-to/own-cluster.md)).",
    )
    subnet_ids: Texts = Field(
        (), description="Private subnets of that VPC, one in each of two zones or more. They need no tags."
    )
    vpc_cidr: str = Field(
        "10.0.0.0/16",
        description="Address range of the network, /16 to /20; with `vpc_id`, that in which its endpoints lie.",
    )
    nat_gateways: int = Field(1, ge=1, le=3, description="NAT gateways; one is enough for experiments.")
    interface_endpoints: Texts = Field(
        (),
        description="AWS services to reach by an interface endpoint instead of the NAT gateway (`sts`, `logs`, "
        "`monitoring`, `ec2`, `sqs`, `states`, `lambda`). With `vpc_id` none is made: name those that your VPC has "
        "(`s3` too), so that pods may reach them.",
    )
    existing_cluster: str | None = Field(
        None,
        pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$",
        description="EKS cluster of yours to run on; unset, one is made ([how](how-to/own-cluster.md)).",
    )
    cluster_endpoint: str | None = Field(None, pattern=r"^https://[^\s/]+$", description="Its API server.")
    cluster_ca: str | None = Field(
        None, pattern=r"^[A-Za-z0-9+/=]{64,}$", description="Its certificate authority's data, in base64."
    )
    cluster_security_group: str | None = Field(
        None, pattern=r"^sg-[0-9a-f]{8,17}$", description="Its cluster security group, which functions are let into."
    )
    cluster_oidc_issuer: str | None = Field(
        None, pattern=r"^https://\S+$", description="Its OIDC issuer, of which the account has a provider."
    )
    karpenter_node_role: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9+=,.@_-]{1,64}$",
        description="IAM role of the nodes of its Karpenter, by name: with it NodePools of ours stand in that "
        "Karpenter and follow the runs; unset, nodes are simply there.",
    )
    existing_node_group: str | None = Field(
        None,
        pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,62}$",
        description="Managed node group of that cluster, of 0 to 1 nodes, that the pipeline sets to 1 for a run and "
        "back; unset, nodes are simply there.",
    )
    node_security_groups: Texts = Field(
        (), description="Security groups of the nodes of those NodePools; unset, the cluster security group."
    )
    cluster_name: str = Field(
        "specdecode",
        pattern=r"^[a-z][a-z0-9-]{1,38}[a-z0-9]$",
        description="EKS cluster that is made; prefix of literal names.",
    )
    kubernetes_version: str = Field("1.35", description="Kubernetes version of the cluster.")
    endpoint_public_cidrs: Texts = Field(
        (),
        description="IPv4 ranges that may reach the Kubernetes API from outside, a /8 together at most; unset, it is "
        "private.",
    )
    admin_role_arns: Texts = Field((), description="IAM roles that administer the cluster with kubectl.")
    system_instance_type: str = Field(
        "m7i.xlarge", pattern=r"^[a-z0-9-]+\.[a-z0-9]+$", description="Instance type of the two system nodes (x86_64)."
    )

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones of the network, by id."""
        return self.availability_zones or REGION_ZONES.get(self.region, ())

    @property
    def eks_cluster(self) -> str:
        """Name of the cluster in EKS."""
        return self.existing_cluster or self.cluster_name

    @property
    def describes_nodes(self) -> bool:
        """Whether runs hold nodes of NodePools of ours, in a Karpenter of ours or in the cluster's own."""
        return self.existing_cluster is None or self.karpenter_node_role is not None

    @property
    def makes_nodes(self) -> bool:
        """Whether nodes come and go with runs (our NodePools or a node group). Else they are simply there."""
        return self.describes_nodes or self.existing_node_group is not None

    @property
    def addon_versions(self) -> Mapping[str, str]:
        """Add-on -> pinned build for the cluster's Kubernetes version."""
        return ADDONS[self.kubernetes_version]


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
        "sdk-2.33",
        description="Generation of engine images that the trn2 node is for; it decides the node's AMI. `sdk-2.26` is "
        "that of `qwen3-32b` and all presets with a draft model, whose engine has no support any more.",
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
        "s3",
        description="How the bucket is encrypted: SSE-S3, or a KMS key of this stack, which "
        "[stays](#settings-that-cannot-change).",
    )
    removal_policy: Literal["retain", "destroy"] = Field(
        "retain", description="What `cdk destroy` does with the artifact bucket. `destroy` empties it."
    )
    run_retention_days: int | None = Field(
        None,
        ge=5,
        description="Days after which a run's folder expires, its report too; unset, never. At least 5: a run may take "
        "four.",
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
        default_factory=dict, description="Tags on every resource that takes tags (`tags=team=ml,stage=dev`)."
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

    @property
    def guarded_driver(self) -> str | None:
        """Its minor version, if claims match only nodes that have it."""
        return ".".join(self.neuron_driver.split(".")[:2]) if self.driver_guard else None
