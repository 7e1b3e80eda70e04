"""The parts of a deployment that can be checked from outside. `preflight` reads this document."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from specdecode.experiment import shapes

EKS_REFUSES = ("use1-az3", "usw1-az2", "cac1-az3")
"""Zones in which no subnet of an EKS cluster may lie (docs.aws.amazon.com/eks/latest/userguide/network-reqs.html)."""

PODS_CALL = ("sts", "monitoring", "s3")
"""Services that pods call at public addresses, unless an interface endpoint has one in the VPC."""


class ExistingCluster(BaseModel):
    """Settings of a cluster that already existed."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    endpoint: str
    security_group: str
    issuer: str
    node_role: str | None = None
    """Role of the nodes of its Karpenter, where NodePools of ours stand in that."""
    node_group: str | None = None
    """Managed node group that runs scale. With neither, the nodes are there already."""


class DeploymentFacts(BaseModel):
    """Written by `python -m constructs_lib.settings.facts` before a deployment and as the output `DeploymentFacts` by
    one. Fields that are not known are passed over: the stack may be of a newer version than the command.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    region: str
    account: str | None = None
    node: str = shapes.DEFAULT
    """Shape of the nodes with Neuron devices."""
    nodes: int = 1
    """How many of these nodes runs may hold at once."""
    node_price: float | None = None
    """US dollars for an hour of one such node. None if the stack is older than this field."""
    cluster: str
    existing: ExistingCluster | None = None
    """Set if the deployment did not make its cluster."""
    kubernetes: str
    supported: tuple[str, ...] = ()
    """Kubernetes versions for which add-ons and AMIs are pinned."""
    zones: tuple[str, ...]
    """Availability zones of the network, by id."""
    node_zones: tuple[str, ...]
    """Zones in which that node may start, by id."""
    nat_gateways: int
    vpc: str | None = None
    """Id of an existing VPC. None: the deployment makes its own."""
    subnets: tuple[str, ...] = ()
    """Subnets of that VPC: one in each of `zones`, in the same order."""
    vpc_cidr: str | None = None
    """Address range of its interface endpoints, which pods may reach."""
    endpoints: tuple[str, ...] = ()
    """Services for which the network has an interface endpoint."""
    system_type: str
    """Instance type of the two system nodes."""
    ami: str
    """EKS AL2023 release of that node."""
    staging_ami: str
    addons: dict[str, str]
    """Add-on -> pinned build."""
    reservation: str | None = None
    block_start: datetime | None = None
    block_end: datetime | None = None
    """Window of the Capacity Block, as the settings have it."""
    alert_email: bool = False
    """Whether an address gets the alarms."""
    accept_no_alerts: bool = False
    """Whether the settings accept that nobody gets the alarms."""
    settings: dict[str, str] | None = None
    """The region and every setting that is not its default, as `-c` takes them. An output has none of them, since the
    CDK CLI prints outputs into logs; the deployed template has them (`kept.of_stack`)."""

    @property
    def describes_nodes(self) -> bool:
        """Whether the nodes that runs hold come from our NodePools."""
        return self.existing is None or self.existing.node_role is not None
