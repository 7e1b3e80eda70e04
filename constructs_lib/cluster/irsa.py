"""IAM roles for Kubernetes service accounts (IRSA)."""

from aws_cdk import CfnJson
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"


class IrsaRole(Construct):
    """A role that one service account of one namespace may assume, and nobody else.

    The condition's keys hold the cluster's OIDC issuer, known only at deployment: hence CfnJson.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: eks.ICluster, namespace: str, service_account: str
    ) -> None:
        super().__init__(scope, id)
        provider = cluster.open_id_connect_provider
        issuer = provider.open_id_connect_provider_issuer
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.FederatedPrincipal(
                provider.open_id_connect_provider_arn,
                {
                    "StringEquals": CfnJson(
                        self,
                        "Condition",
                        value={
                            f"{issuer}:aud": "sts.amazonaws.com",
                            f"{issuer}:sub": f"system:serviceaccount:{namespace}:{service_account}",
                        },
                    )
                },
                "sts:AssumeRoleWithWebIdentity",
            ),
        )

    def allow(
        self,
        *actions: str,
        resources: list[str],
        conditions: dict[str, dict[str, object]] | None = None,
    ) -> None:
        """Add one statement to the role's policy."""
        self.role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=resources, conditions=conditions))
