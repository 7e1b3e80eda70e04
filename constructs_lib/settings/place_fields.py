"""The part of the settings that says where a deployment is: region, network, cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from constructs_lib.settings.versions import ADDONS
from constructs_lib.settings.zones import REGION_ZONES


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
