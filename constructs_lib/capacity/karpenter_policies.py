"""Karpenter's controller policies, each statement as in its v1.14 getting-started template.

Source: aws/karpenter-provider-aws, website/content/en/v1.14/getting-started/getting-started-with-karpenter/
cloudformation.yaml. The cluster name is literal because it is part of condition keys. The template's zonal-shift policy
is left out, because `settings.enableZonalShift` is off.
"""

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

Conditions = dict[str, dict[str, object]]

WHY_WILDCARDS = (
    "Karpenter's own v1.14 policies: what it creates has no name yet and is confined by conditions on the cluster's "
    "tags; the calls on * are read-only and have no resource type."
)
"""Reason of the acknowledged findings. The tests check it statement by statement."""

LAUNCH_ACTIONS = ["ec2:RunInstances", "ec2:CreateFleet"]
TAGGED_KINDS = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")


def _ec2(*kinds: str, account: str = "*") -> list[str]:
    return [f"arn:{Aws.PARTITION}:ec2:{Aws.REGION}:{account}:{kind}/*" for kind in kinds]


def _profiles() -> list[str]:
    return [f"arn:{Aws.PARTITION}:iam::{Aws.ACCOUNT_ID}:instance-profile/*"]


def _owned(side: str, cluster_name: str) -> dict[str, object]:
    return {f"aws:{side}Tag/kubernetes.io/cluster/{cluster_name}": "owned"}


def _statement(
    sid: str, actions: str | list[str], resources: list[str], conditions: Conditions | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid=sid,
        actions=[actions] if isinstance(actions, str) else actions,
        resources=resources,
        conditions=conditions,
    )


def node_lifecycle(cluster_name: str) -> list[iam.PolicyStatement]:
    """Launch, tag and terminate instances, but only those with the tags of this cluster and of a NodePool."""
    pool: dict[str, object] = {"aws:RequestTag/karpenter.sh/nodepool": "*"}
    pooled: dict[str, object] = {"aws:ResourceTag/karpenter.sh/nodepool": "*"}
    named: dict[str, object] = {"aws:RequestTag/eks:eks-cluster-name": cluster_name}
    return [
        _statement(
            "AllowScopedEC2InstanceAccessActions",
            LAUNCH_ACTIONS,
            _ec2("image", "snapshot", account="")
            + _ec2("security-group", "subnet", "capacity-reservation", "placement-group"),
        ),
        _statement(
            "AllowScopedEC2LaunchTemplateAccessActions",
            LAUNCH_ACTIONS,
            _ec2("launch-template"),
            {"StringEquals": _owned("Resource", cluster_name), "StringLike": pooled},
        ),
        _statement(
            "AllowScopedEC2InstanceActionsWithTags",
            [*LAUNCH_ACTIONS, "ec2:CreateLaunchTemplate"],
            _ec2(*TAGGED_KINDS),
            {"StringEquals": {**_owned("Request", cluster_name), **named}, "StringLike": pool},
        ),
        _statement(
            "AllowScopedResourceCreationTagging",
            "ec2:CreateTags",
            _ec2(*TAGGED_KINDS),
            {
                "StringEquals": {
                    **_owned("Request", cluster_name),
                    **named,
                    "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
                },
                "StringLike": pool,
            },
        ),
        _statement(
            "AllowScopedResourceTagging",
            "ec2:CreateTags",
            _ec2("instance"),
            {
                "StringEquals": _owned("Resource", cluster_name),
                "StringLike": pooled,
                "StringEqualsIfExists": named,
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"],
                },
            },
        ),
        _statement(
            "AllowScopedDeletion",
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            _ec2("instance", "launch-template"),
            {"StringEquals": _owned("Resource", cluster_name), "StringLike": pooled},
        ),
    ]


def iam_integration(cluster_name: str, *, node_role_arn: str) -> list[iam.PolicyStatement]:
    """Pass the node role to EC2, and keep the instance profiles of this cluster's node classes."""
    region: dict[str, object] = {"topology.kubernetes.io/region": Aws.REGION}

    def regional(side: str) -> dict[str, object]:
        return {**_owned(side, cluster_name), **{f"aws:{side}Tag/{key}": value for key, value in region.items()}}

    named: dict[str, object] = {"aws:RequestTag/eks:eks-cluster-name": cluster_name}
    requested: dict[str, object] = {"aws:RequestTag/karpenter.k8s.aws/ec2nodeclass": "*"}
    present: dict[str, object] = {"aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*"}
    return [
        _statement(
            "AllowPassingInstanceRole",
            "iam:PassRole",
            [node_role_arn],
            {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        _statement(
            "AllowScopedInstanceProfileCreationActions",
            "iam:CreateInstanceProfile",
            _profiles(),
            {"StringEquals": {**regional("Request"), **named}, "StringLike": requested},
        ),
        _statement(
            "AllowScopedInstanceProfileTagActions",
            "iam:TagInstanceProfile",
            _profiles(),
            {
                "StringEquals": {**regional("Resource"), **regional("Request"), **named},
                "StringLike": {**present, **requested},
            },
        ),
        _statement(
            "AllowScopedInstanceProfileActions",
            ["iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"],
            _profiles(),
            {"StringEquals": regional("Resource"), "StringLike": present},
        ),
    ]


def eks_integration(cluster_name: str) -> list[iam.PolicyStatement]:
    """Find the API server's endpoint."""
    arn = f"arn:{Aws.PARTITION}:eks:{Aws.REGION}:{Aws.ACCOUNT_ID}:cluster/{cluster_name}"
    return [_statement("AllowAPIServerEndpointDiscovery", "eks:DescribeCluster", [arn])]


def interruption(*, queue_arn: str) -> list[iam.PolicyStatement]:
    """Read and delete the messages of the interruption queue."""
    return [
        _statement(
            "AllowInterruptionQueueActions",
            ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
            [queue_arn],
        )
    ]


def resource_discovery() -> list[iam.PolicyStatement]:
    """Read-only calls. Those on `*` have no resource type in AWS."""
    kinds = (
        "CapacityReservations",
        "Images",
        "Instances",
        "InstanceStatus",
        "InstanceTypeOfferings",
        "InstanceTypes",
        "LaunchTemplates",
        "PlacementGroups",
        "SecurityGroups",
        "SpotPriceHistory",
        "Subnets",
    )
    return [
        _statement(
            "AllowRegionalReadActions",
            [f"ec2:Describe{kind}" for kind in kinds],
            ["*"],
            {"StringEquals": {"aws:RequestedRegion": Aws.REGION}},
        ),
        _statement(
            "AllowSSMReadActions",
            "ssm:GetParameter",
            [f"arn:{Aws.PARTITION}:ssm:{Aws.REGION}::parameter/aws/service/*"],
        ),
        _statement("AllowPricingReadActions", "pricing:GetProducts", ["*"]),
        _statement("AllowUnscopedInstanceProfileListAction", "iam:ListInstanceProfiles", ["*"]),
        _statement("AllowInstanceProfileReadActions", "iam:GetInstanceProfile", _profiles()),
    ]
