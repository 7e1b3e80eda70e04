"""The namespace of the workload pods, how much may be in it, and who may talk to whom."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct
from specdecode import names
from specdecode.assets import kubernetes_objects
from specdecode.experiment.deployment_facts import PODS_CALL

from constructs_lib.cluster.manifest import Manifest, apply, namespace
from constructs_lib.settings.fields import Settings


class Workspace(Construct):
    """The namespace with the `restricted` Pod Security Standard, its quota, and its network policies, which deny all
    but what is needed.

    `specdecode manifests` prints the same policies: both read one file. With interface endpoints of services that pods
    call, there are two more policies, because these endpoints have addresses of the VPC.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: eks.ICluster, settings: Settings) -> None:
        super().__init__(scope, id)
        self.namespace = apply(self, "Namespace", cluster=cluster, manifest=workspace())
        for bound in kubernetes_objects("bounds.yaml"):
            apply(self, bound["kind"], cluster=cluster, needs=(self.namespace,), manifest=bound)
        for policy in network_policies(settings):
            apply(self, policy["metadata"]["name"], cluster=cluster, needs=(self.namespace,), manifest=policy)


def workspace() -> Manifest:
    """The namespace of the workload pods."""
    return namespace(names.NAMESPACE, labels={"pod-security.kubernetes.io/enforce": "restricted"})


def network_policies(settings: Settings) -> list[Manifest]:
    """The namespace's network policies."""
    endpoints = vpc_endpoints(settings.vpc_cidr) if {*PODS_CALL} & {*settings.interface_endpoints} else []
    return [*kubernetes_objects("network-policies.yaml"), *endpoints]


def vpc_endpoints(vpc_cidr: str) -> list[Manifest]:
    """Let pods that may reach public addresses only also reach interface endpoints in the VPC, by HTTPS."""
    pods = {
        "carriers": (names.COMPONENT_LABEL, ["staging", "start-check", "compile"]),
        "monitored": (names.MONITORED_LABEL, ["true"]),
    }
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {
                "name": f"specdecode-vpc-endpoints-{who}",
                "namespace": names.NAMESPACE,
                "labels": {"app.kubernetes.io/name": "specdecode", "app.kubernetes.io/managed-by": "specdecode"},
            },
            "spec": {
                "podSelector": {"matchExpressions": [{"key": label, "operator": "In", "values": values}]},
                "policyTypes": ["Egress"],
                "egress": [{"to": [{"ipBlock": {"cidr": vpc_cidr}}], "ports": [{"protocol": "TCP", "port": 443}]}],
            },
        }
        for who, (label, values) in pods.items()
    ]
