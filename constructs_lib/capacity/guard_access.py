"""What the cluster stack's guards may do in Kubernetes."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct
from specdecode import names

from constructs_lib.cluster.manifest import apply

GROUP = "specdecode:guard"
NAME = "specdecode-guard"
POOLS = (*names.held_pools(names.MOST_NODES), *names.DYNAMIC_NODEPOOLS)
"""The pools that the guards may see. It includes pools that this deployment no longer has: an update may take pools
away, and the guards look at them first.
"""
RULES = [
    {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "resourceNames": [*POOLS], "verbs": ["get"]},
    {"apiGroups": ["karpenter.k8s.aws"], "resources": ["ec2nodeclasses"], "verbs": ["get"]},
    {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["list", "delete"]},
]


class GuardAccess(Construct):
    """A ClusterRole with exactly those verbs, bound to the group of the guards' access entry."""

    def __init__(self, scope: Construct, id: str, *, cluster: eks.ICluster) -> None:
        super().__init__(scope, id)
        api = "rbac.authorization.k8s.io"
        role = apply(
            self,
            "Role",
            cluster=cluster,
            manifest={
                "apiVersion": f"{api}/v1",
                "kind": "ClusterRole",
                "metadata": {"name": NAME},
                "rules": RULES,
            },
        )
        apply(
            self,
            "Binding",
            cluster=cluster,
            needs=(role,),
            manifest={
                "apiVersion": f"{api}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": NAME},
                "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": NAME},
                "subjects": [{"apiGroup": api, "kind": "Group", "name": GROUP}],
            },
        )
