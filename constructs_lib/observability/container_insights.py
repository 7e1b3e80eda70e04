"""CloudWatch Observability: Container Insights of the cluster, and container logs."""

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from constructs_lib.acknowledgements import acknowledge_managed
from constructs_lib.cluster.addons import addon
from constructs_lib.cluster.helm_values import ObservabilityValues
from constructs_lib.cluster.irsa import IrsaRole
from constructs_lib.settings.fields import Settings

NAMESPACE = "amazon-cloudwatch"
SERVICE_ACCOUNT = "cloudwatch-agent"


class Observability(Construct):
    """The add-on with Container Insights on. Application signals and the Neuron monitor are off.

    The Neuron monitor does not support environments that use the Neuron DRA driver, so no figure of this project
    depends on it.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: eks.ICluster, needs: tuple[IDependable, ...], settings: Settings
    ) -> None:
        super().__init__(scope, id)
        irsa = IrsaRole(self, "Irsa", cluster=cluster, namespace=NAMESPACE, service_account=SERVICE_ACCOUNT)
        irsa.role.add_managed_policy(iam.ManagedPolicy.from_aws_managed_policy_name("CloudWatchAgentServerPolicy"))
        acknowledge_managed(
            irsa.role,
            "CloudWatchAgentServerPolicy",
            reason="The add-on's documented policy; AWS extends it with what the agent collects.",
        )
        agent = addon(
            self,
            "Addon",
            cluster=cluster,
            name="amazon-cloudwatch-observability",
            settings=settings,
            role_arn=irsa.role.role_arn,
            values=ObservabilityValues().to_helm(),
        )
        agent.node.add_dependency(*needs)
