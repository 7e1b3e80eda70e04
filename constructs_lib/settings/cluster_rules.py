"""What the settings of a cluster that exists must satisfy. Pure checks that return one line a problem."""

import re
from collections.abc import Iterator

from constructs_lib.settings.fields import Settings

OF_EKS = {
    "cluster_endpoint": "endpoint",
    "cluster_ca": "certificateAuthority.data",
    "cluster_security_group": "resourcesVpcConfig.clusterSecurityGroupId",
    "cluster_oidc_issuer": "identity.oidc.issuer",
    "vpc_id": "resourcesVpcConfig.vpcId",
}
"""Setting -> its place in the answer of `aws eks describe-cluster`."""
OF_OURS = ("endpoint_public_cidrs", "admin_role_arns", "system_instance_type")
"""Settings for a cluster that is made only."""
OF_NODES = ("neuron_ami", "node_storage", "efa_interfaces", "capacity_zones", "trn2_zones", "capacity_reservation_id")
"""Settings for nodes that are made only."""
OF_KARPENTER = ("karpenter_node_role", "existing_node_group", "node_security_groups")
"""Settings for nodes that are made in a cluster that exists only."""


def problems(settings: Settings) -> Iterator[str]:
    """A cluster that exists needs all settings of OF_EKS, and none of OF_OURS."""
    if not settings.existing_cluster:
        for key in (*OF_EKS, *OF_KARPENTER):
            if key != "vpc_id" and getattr(settings, key):
                yield f"{key}: it is for a cluster that exists; set existing_cluster too"
        return
    missing = [key for key in OF_EKS if not getattr(settings, key)]
    if missing:
        yield (
            f"existing_cluster: {', '.join(missing)} must be given too, and subnet_ids with availability_zones; "
            f"`{command(settings)}` prints what cdk.json wants of the cluster"
        )
    for key in OF_OURS:
        if _is_set(settings, key):
            yield f"{key}: it is for a cluster that is made; leave it out with existing_cluster"
    for key in () if settings.describes_nodes else (*OF_NODES, "node_security_groups"):
        if _is_set(settings, key):
            yield f"{key}: it is for NodePools of ours; leave it out, or give karpenter_node_role"
    if settings.existing_node_group and settings.karpenter_node_role:
        yield "existing_node_group, karpenter_node_role: a node comes from the one or from the other; leave one out"
    if settings.existing_node_group and settings.nodes > 1:
        yield "nodes: a node group is for one run at a time (which of its nodes goes is EKS's choice); leave it out"
    for group in settings.node_security_groups:
        if not re.fullmatch(r"sg-[0-9a-f]{8,17}", group):
            yield f"node_security_groups: {group} is no id of a security group (sg-…)"


def _is_set(settings: Settings, key: str) -> bool:
    return bool(getattr(settings, key) != type(settings).model_fields[key].get_default())


def command(settings: Settings) -> str:
    """The command that prints the settings of the cluster as JSON."""
    parts = ",".join(f"{key}:cluster.{where}" for key, where in OF_EKS.items())
    return (
        f"aws eks describe-cluster --region {settings.region} --name {settings.existing_cluster} "
        f"--query '{{existing_cluster:cluster.name,{parts}}}'"
    )
