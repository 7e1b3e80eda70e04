"""What a deployment is made of, as far as it can be checked from outside: the document that `preflight` works on."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from specdecode.experiment import shapes

EKS_REFUSES = ("use1-az3", "usw1-az2", "cac1-az3")
"""Zones in which no subnet of an EKS cluster may lie (docs.aws.amazon.com/eks/latest/userguide/network-reqs.html)."""

PODS_CALL = ("sts", "monitoring", "s3")
"""Services that pods call which otherwise reach public addresses alone: an interface endpoint of one has an address of
the VPC."""


class ExistingCluster(BaseModel):
    """What was said of a cluster that exists."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    endpoint: str
    security_group: str
    issuer: str
    node_role: str | None = None
    """Role of the nodes of its Karpenter, where NodePools of ours stand in that."""
    node_group: str | None = None
    """Managed node group that runs scale. With neither, nodes are simply there."""


class DeploymentFacts(BaseModel):
    """Written by `python -m constructs_lib.settings.facts` before a deployment and as
    the output `DeploymentFacts` by one.

    Fields that are not known are passed over: the stack may be of a newer version than the command.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    region: str
    account: str | None = None
    node: str = shapes.DEFAULT
    """Shape of the nodes with Neuron devices."""
    nodes: int = 1
    """How many of them runs may hold at once."""
    node_price: float | None = None
    """US dollars for an hour of one; None where the stack is older than this."""
    cluster: str
    existing: ExistingCluster | None = None
    """Of a cluster that the deployment did not make."""
    kubernetes: str
    zones: tuple[str, ...]
    """Of the network, by id."""
    node_zones: tuple[str, ...]
    """Where that node may start, by id."""
    nat_gateways: int
    vpc: str | None = None
    """One that exists; without, the deployment makes its own."""
    subnets: tuple[str, ...] = ()
    """Of that VPC, one in each of `zones`, in their order."""
    vpc_cidr: str | None = None
    """Where its interface endpoints lie: pods may reach that range."""
    endpoints: tuple[str, ...] = ()
    """Services that the network has an interface endpoint of."""
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
    """Whether it was said that nobody is told."""

    @property
    def describes_nodes(self) -> bool:
        """Whether the nodes that runs hold are of NodePools of ours."""
        return self.existing is None or self.existing.node_role is not None
