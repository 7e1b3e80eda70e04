"""Karpenter: the CRD chart, the controller's role, the chart."""

from aws_cdk import Duration
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from constructs_lib.acknowledgements import acknowledge_wildcards
from constructs_lib.capacity import karpenter_policies as policies
from constructs_lib.cluster.helm_values import KarpenterSettings, KarpenterValues
from constructs_lib.cluster.irsa import ROLE_ANNOTATION, IrsaRole
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.versions import KARPENTER_CHART

NAMESPACE = "kube-system"
SERVICE_ACCOUNT = "karpenter"
REPOSITORY = "oci://public.ecr.aws/karpenter"


class Karpenter(Construct):
    """Installs the CRDs, then the controller of the same version with the feature gates that this project needs.

    The gates: `staticCapacity` for the trn2 NodePool, `reservedCapacity` for Capacity Blocks, and `nodeOverlay` for an
    on-demand price that AWS does not publish. The CRDs have a chart of their own because Helm never upgrades CRDs.

    `watched` must not change while a run has the node. `role` is the controller's.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        node_role: iam.IRole,
        queue: sqs.IQueue,
        needs: tuple[IDependable, ...],
        settings: Settings,
    ) -> None:
        super().__init__(scope, id)
        irsa = IrsaRole(self, "Irsa", cluster=cluster, namespace=NAMESPACE, service_account=SERVICE_ACCOUNT)
        statements = {
            "NodeLifecycle": policies.node_lifecycle(settings.cluster_name),
            "IamIntegration": policies.iam_integration(settings.cluster_name, node_role_arn=node_role.role_arn),
            "EksIntegration": policies.eks_integration(settings.cluster_name),
            "Interruption": policies.interruption(queue_arn=queue.queue_arn),
            "ResourceDiscovery": policies.resource_discovery(),
        }
        attached = [
            iam.ManagedPolicy(self, f"{name}Policy", statements=parts, roles=[irsa.role])
            for name, parts in statements.items()
        ]
        for policy, parts in zip(attached, statements.values(), strict=True):
            wild = {arn for part in parts for arn in part.resources if arn.endswith("*")}
            acknowledge_wildcards(policy, *sorted(wild), reason=policies.WHY_WILDCARDS)
        self.crds = eks.HelmChart(
            self,
            "Crds",
            cluster=cluster,
            chart="karpenter-crd",
            repository=f"{REPOSITORY}/karpenter-crd",
            version=KARPENTER_CHART,
            namespace=NAMESPACE,
            release="karpenter-crd",
            create_namespace=False,
            wait=True,
            timeout=Duration.minutes(5),
        )
        values = KarpenterValues(
            service_account_annotations={ROLE_ANNOTATION: irsa.role.role_arn},
            settings=KarpenterSettings(
                cluster_name=settings.cluster_name,
                interruption_queue=queue.queue_name,
                node_overlay=not settings.reserved,
            ),
        )
        self.chart = eks.HelmChart(
            self,
            "Chart",
            cluster=cluster,
            chart="karpenter",
            repository=f"{REPOSITORY}/karpenter",
            version=KARPENTER_CHART,
            namespace=NAMESPACE,
            release="karpenter",
            create_namespace=False,
            wait=True,
            timeout=Duration.minutes(10),
            values=values.to_helm(),
        )
        self.role = irsa.role
        self.watched = {"version": KARPENTER_CHART, "values": values.to_helm()}
        self.chart.node.add_dependency(self.crds, *attached, *needs)
