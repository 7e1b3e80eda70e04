"""The EKS cluster with its two system nodes."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer
from constructs import Construct

from constructs_lib.acknowledgements import acknowledge_managed, acknowledge_warning
from constructs_lib.cluster.kubectl import MEMORY, settle
from constructs_lib.settings.fields import Settings

NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)
"""The policies that every node's role needs (Karpenter's own getting-started template for v1.14)."""


class Cluster(Construct):
    """EKS with a node group: API authentication only, secrets under a KMS key, every control-plane log on.

    The endpoint is private unless the settings name address ranges. No self-managed add-on is installed: all add-ons
    are pinned in `Addons`. `kubectl apply --prune` is off, because each manifest is a resource of its own.
    """

    def __init__(self, scope: Construct, id: str, *, vpc: ec2.IVpc, settings: Settings) -> None:
        super().__init__(scope, id)
        private = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)
        self.cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=settings.cluster_name,
            version=eks.KubernetesVersion.of(settings.kubernetes_version),
            vpc=vpc,
            vpc_subnets=[private],
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            endpoint_access=eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*settings.endpoint_public_cidrs)
            if settings.endpoint_public_cidrs
            else eks.EndpointAccess.PRIVATE,
            secrets_encryption_key=kms.Key(
                self, "SecretsKey", enable_key_rotation=True, removal_policy=RemovalPolicy.DESTROY
            ),
            cluster_logging=[
                eks.ClusterLoggingTypes.API,
                eks.ClusterLoggingTypes.AUDIT,
                eks.ClusterLoggingTypes.AUTHENTICATOR,
                eks.ClusterLoggingTypes.CONTROLLER_MANAGER,
                eks.ClusterLoggingTypes.SCHEDULER,
            ],
            bootstrap_self_managed_addons=False,
            bootstrap_cluster_creator_admin_permissions=False,
            prune=False,
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=KubectlV35Layer(self, "Kubectl"), memory=MEMORY
            ),
        )
        if settings.vpc_id:
            acknowledge_warning(
                self.cluster,
                "@aws-cdk/aws-eks:clusterMustManuallyTagSubnet",
                reason="The tag is for load balancers, of which the project makes none.",
            )
        for index, arn in enumerate(settings.admin_role_arns):
            self.cluster.grant_access(
                f"Admin{index}",
                arn,
                [
                    eks.AccessPolicy.from_access_policy_name(
                        "AmazonEKSClusterAdminPolicy", access_scope_type=eks.AccessScopeType.CLUSTER
                    )
                ],
            )
        self.system_nodes = self._system_nodes(settings, private)
        acknowledge_managed(
            self.cluster.node.find_child("Role"),
            "AmazonEKSClusterPolicy",
            reason="The policy that EKS requires of a cluster role.",
        )
        for group in settle(self.cluster.node.find_child("KubectlProvider"), settings=settings):
            # Else a manifest could invoke the function first, and Lambda would make the group without retention.
            self.cluster.node.find_child("KubectlReadyBarrier").node.add_dependency(group)

    def _system_nodes(self, settings: Settings, subnets: ec2.SubnetSelection) -> eks.Nodegroup:
        """Two nodes: for Karpenter's two replicas (one on each) and for the controllers of the add-ons."""
        template = ec2.LaunchTemplate(
            self,
            "SystemTemplate",
            http_tokens=ec2.LaunchTemplateHttpTokens.REQUIRED,
            http_put_response_hop_limit=1,
            block_devices=[
                ec2.BlockDevice(
                    device_name="/dev/xvda",
                    volume=ec2.BlockDeviceVolume.ebs(50, encrypted=True, volume_type=ec2.EbsDeviceVolumeType.GP3),
                )
            ],
        )
        return eks.Nodegroup(
            self,
            "SystemNodes",
            cluster=self.cluster,
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
            instance_types=[ec2.InstanceType(settings.system_instance_type)],
            min_size=2,
            desired_size=2,
            max_size=3,
            subnets=subnets,
            node_role=node_role(self, "SystemNodeRole"),
            launch_template_spec=eks.LaunchTemplateSpec(
                id=str(template.launch_template_id), version=template.latest_version_number
            ),
        )


def node_role(scope: Construct, id: str) -> iam.Role:
    """A role for EC2 nodes, with the four managed policies that EKS nodes need and nothing else."""
    role = iam.Role(
        scope,
        id,
        assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in NODE_POLICIES],
    )
    acknowledge_managed(
        role,
        *NODE_POLICIES,
        reason="EKS documents these four for nodes and changes them with the agents that they serve.",
    )
    return role
