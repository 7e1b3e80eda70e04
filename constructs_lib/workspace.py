"""The namespace of the workload pods and who may talk to them."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct
from specdecode import names

from constructs_lib.manifest import apply, namespace


class Workspace(Construct):
    """The namespace, under the `restricted` pod security standard, closed to traffic from other namespaces."""

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
        apply(
            self,
            "Ingress",
            cluster=cluster,
            needs=(self.namespace,),
            manifest={
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": "within-namespace", "namespace": names.NAMESPACE},
                "spec": {
                    "podSelector": {},
                    "policyTypes": ["Ingress"],
                    "ingress": [
                        {
                            "from": [{"podSelector": {}}],
                            "ports": [{"protocol": "TCP", "port": names.SERVE_PORT}],
                        }
                    ],
                },
            },
        )
