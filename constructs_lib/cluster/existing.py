"""An EKS cluster that exists, as the settings describe it, and the deployment's way into it.

Why it is so: ADR 181.
"""

from aws_cdk import Aws
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer
from constructs import Construct, IDependable

from constructs_lib.cluster import way_in
from constructs_lib.cluster.access import DEPLOYER_GROUP
from constructs_lib.cluster.kubectl import MEMORY, settle
from constructs_lib.cluster.network import Network
from constructs_lib.settings.fields import Settings


class ImportedCluster(Construct):
    """The functions that apply our objects, and their way into the cluster. The cluster itself is not changed.

    In Kubernetes the functions are members of DEPLOYER_GROUP. The cluster's administrator has given its rights
    (constructs_lib/administrator_objects.py). `needs` must exist before an object is applied.
    """

    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        super().__init__(scope, id)
        self.vpc = Network(self, "Network", settings=settings).vpc
        group = way_in.security_group(self, "Functions", vpc=self.vpc, description="Functions of a deployment")
        ingress = way_in.reach(
            self, str(settings.cluster_security_group), source=group, who="Functions of a deployment"
        )
        name = settings.eks_cluster
        provider = eks.KubectlProvider(
            self,
            "KubectlProvider",
            cluster=eks.Cluster.from_cluster_attributes(self, "Named", cluster_name=name, vpc=self.vpc),
            kubectl_layer=KubectlV35Layer(self, "Kubectl"),
            memory=MEMORY,
            private_subnets=self.vpc.private_subnets,
            security_groups=[group],
        )
        logs = settle(provider, settings=settings)
        issuer = str(settings.cluster_oidc_issuer).removeprefix("https://")
        self.cluster = eks.Cluster.from_cluster_attributes(
            self,
            "Cluster",
            cluster_name=name,
            cluster_endpoint=settings.cluster_endpoint,
            cluster_certificate_authority_data=settings.cluster_ca,
            cluster_security_group_id=settings.cluster_security_group,
            open_id_connect_provider=iam.OpenIdConnectProvider.from_open_id_connect_provider_arn(
                self, "Issuer", f"arn:{Aws.PARTITION}:iam::{Aws.ACCOUNT_ID}:oidc-provider/{issuer}"
            ),
            prune=False,
            vpc=self.vpc,
            kubectl_provider=provider,
        )
        assert provider.role is not None  # noqa: S101 - narrows the type
        entry = way_in.admit(self, "AccessEntry", cluster_name=name, role=provider.role, groups=[DEPLOYER_GROUP])
        self.needs: tuple[IDependable, ...] = (ingress, entry, *logs)
