"""The rights of functions on the managed node group that runs scale, and on its nodes (ADR 194)."""

from collections.abc import Iterator
from typing import Any

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct
from specdecode import names

from constructs_lib.acknowledgements import acknowledge_wildcards
from constructs_lib.cluster import access
from constructs_lib.cluster.manifest import Manifest
from constructs_lib.settings.fields import Settings

SCALERS = ("AcquireCapacity", "ReleaseCapacity", "Watchdog")
"""Functions of the pipeline that set its size. Inspect and Plan only look at it."""
SEE: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]},
]


def arn(scope: Construct, settings: Settings) -> str:
    """The group's ARN. EKS ends it with an id that only EKS knows."""
    return Stack.of(scope).format_arn(
        service="eks",
        resource="nodegroup",
        resource_name=f"{settings.eks_cluster}/{settings.existing_node_group}/*",
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )


def allow(scope: Construct, id: str, *, role: iam.IRole, settings: Settings, scales: bool = True) -> iam.Policy:
    """Let `role` look at the group. If `scales`, also look at its instances and set its size."""
    group = arn(scope, settings)
    changes = ["eks:UpdateNodegroupConfig"] if scales else []
    statements = [iam.PolicyStatement(actions=["eks:DescribeNodegroup", *changes], resources=[group])]
    if scales:
        statements.append(iam.PolicyStatement(actions=["ec2:DescribeInstances"], resources=["*"]))
    policy = iam.Policy(scope, id, roles=[role], statements=statements)
    wild = [group, "*"] if scales else [group]
    acknowledge_wildcards(policy, *wild, reason="One node group, whatever its id; instances are seen all or none.")
    return policy


def instance_tags(settings: Settings) -> dict[str, str]:
    """The tags that EKS puts on the group's instances."""
    return dict(zip(names.GROUP_TAGS, (settings.eks_cluster, str(settings.existing_node_group)), strict=True))


def rights(settings: Settings) -> Iterator[Manifest]:
    """The only role outside the namespace that the administrator gives: to see nodes and their devices."""
    if settings.existing_node_group:
        yield from access.role_and_binding("ClusterRole", "specdecode-reader", access.READER_GROUP, SEE)
