"""The namespace of the workload pods, how much may be in it, and who may talk to whom."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct
from specdecode import names
from specdecode.experiment.assets import kubernetes_objects

from constructs_lib.manifest import apply, namespace


class Workspace(Construct):
    """The namespace, under the `restricted` pod security standard, its quota, and its network policies: deny all but
    the needed.

    The policies are those that `specdecode manifests` prints: one file is the source of both.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: eks.ICluster) -> None:
        super().__init__(scope, id)
        self.namespace = apply(
            self,
            "Namespace",
            cluster=cluster,
            manifest=namespace(
                names.NAMESPACE,
                labels={"pod-security.kubernetes.io/enforce": "restricted"},
            ),
        )
        for bound in kubernetes_objects("bounds.yaml"):
            apply(self, bound["kind"], cluster=cluster, needs=(self.namespace,), manifest=bound)
        for policy in kubernetes_objects("network-policies.yaml"):
            apply(self, policy["metadata"]["name"], cluster=cluster, needs=(self.namespace,), manifest=policy)
