"""Lets Karpenter's nodes join the cluster."""

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct


class NodeAccess(Construct):
    """An access entry of type EC2_LINUX for the nodes' role; managed node groups get theirs from EKS."""

    def __init__(self, scope: Construct, id: str, *, cluster: eks.ICluster, role: iam.IRole) -> None:
        super().__init__(scope, id)
        eks.CfnAccessEntry(
            self, "Entry", cluster_name=cluster.cluster_name, principal_arn=role.role_arn, type="EC2_LINUX"
        )
