"""The Neuron DRA driver: it publishes the node's devices as a ResourceSlice, and claims take devices from there."""

from aws_cdk import Duration
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from constructs_lib.cluster.helm_values import NeuronValues
from constructs_lib.cluster.manifest import apply, namespace
from constructs_lib.settings.versions import NEURON_CHART

NAMESPACE = "neuron-dra-driver"
NAMESPACES = (NAMESPACE, "neuron-healthcheck-system")
"""The namespaces that the chart writes into. It creates neither."""


class NeuronDra(Construct):
    """neuron-helm-chart with the DRA driver on, and the device plugin and the node problem detector off.

    `watched` must not change while a run has the node.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: eks.ICluster, needs: tuple[IDependable, ...]) -> None:
        super().__init__(scope, id)
        made = [apply(self, name, cluster=cluster, manifest=namespace(name), needs=needs) for name in NAMESPACES]
        values = NeuronValues().to_helm()
        self.chart = eks.HelmChart(
            self,
            "Chart",
            cluster=cluster,
            chart="neuron-helm-chart",
            repository="oci://public.ecr.aws/neuron/neuron-helm-chart",
            version=NEURON_CHART,
            namespace=NAMESPACE,
            release="neuron",
            create_namespace=False,
            wait=True,
            timeout=Duration.minutes(10),
            values=values,
        )
        self.watched = {"version": NEURON_CHART, "values": values}
        self.chart.node.add_dependency(*made)
