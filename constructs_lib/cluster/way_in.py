"""What a Lambda function needs to reach the cluster: interfaces in the VPC, the API server, and a group there."""

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from constructs_lib.acknowledgements import acknowledge_wildcards


def allow_network_interfaces(role: iam.Role) -> None:
    """Allow what AWSLambdaVPCAccessExecutionRole allows, without its rights on every log group.

    The resource is `*`: EC2 checks the right before any interface exists, and Describe* has no resource type. But it
    holds only while Lambda itself acts: calls of a function's code carry `lambda:SourceFunctionArn`, calls of the
    service do not (docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html, where a Deny is written with that key).
    """
    role.add_to_policy(
        iam.PolicyStatement(
            actions=[
                "ec2:CreateNetworkInterface",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSubnets",
                "ec2:DeleteNetworkInterface",
                "ec2:AssignPrivateIpAddresses",
                "ec2:UnassignPrivateIpAddresses",
            ],
            resources=["*"],
            conditions={"Null": {"lambda:SourceFunctionArn": "true"}},
        )
    )
    acknowledge_wildcards(
        role, "*", reason="EC2 checks a Lambda's interface rights before an interface exists that could be named."
    )


def security_group(scope: Construct, id: str, *, vpc: ec2.IVpc, description: str) -> ec2.SecurityGroup:
    """A security group that lets out HTTPS alone."""
    group = ec2.SecurityGroup(scope, id, vpc=vpc, description=description, allow_all_outbound=False)
    group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "Kubernetes and AWS APIs")
    return group


def reach(scope: Construct, cluster_group: str, *, source: ec2.ISecurityGroup, who: str) -> ec2.CfnSecurityGroupIngress:
    """Let `source` reach the API server, whose security group has the id `cluster_group`."""
    return ec2.CfnSecurityGroupIngress(
        scope,
        "ToApiServer",
        description=f"{who} to the Kubernetes API",
        group_id=cluster_group,
        source_security_group_id=source.security_group_id,
        ip_protocol="tcp",
        from_port=443,
        to_port=443,
    )


def admit(scope: Construct, id: str, *, cluster_name: str, role: iam.IRole, groups: list[str]) -> eks.CfnAccessEntry:
    """Let `role` authenticate as a member of `groups`."""
    return eks.CfnAccessEntry(
        scope,
        id,
        cluster_name=cluster_name,
        principal_arn=role.role_arn,
        type="STANDARD",
        kubernetes_groups=groups,
    )
