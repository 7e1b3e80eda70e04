"""What the pipeline's functions may do in the cluster: exactly the verbs that they use."""

from typing import Any

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct
from specdecode import names

from constructs_lib.cluster.way_in import admit, reach
from constructs_lib.settings.fields import Settings

READER_GROUP = "specdecode:reader"
"""Kubernetes group of every function. Those that write are also in names.PIPELINE_GROUP."""
WATCHDOG_GROUP = "specdecode:watchdog"
"""Kubernetes group of the watchdog alone, beside the other two."""
DEPLOYER_GROUP = "specdecode:deployer"
"""Kubernetes group of the functions that apply objects during a deployment to a cluster that exists."""
LOOKERS = ("Inspect", "Diagnose")
"""Functions that only look."""

READ_CLUSTER: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["nodes", "events"], "verbs": ["list"]},
    # To tell that the namespace is gone from that the rights in it are.
    {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": [names.NAMESPACE], "verbs": ["get"]},
    {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "verbs": ["get"]},
    {"apiGroups": ["karpenter.k8s.aws"], "resources": ["ec2nodeclasses"], "verbs": ["get"]},
    {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["list"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]},
]
READ_NAMESPACE: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["services", "configmaps"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["list"]},
]
END_NODES: list[dict[str, Any]] = [
    # Karpenter makes the names of NodeClaims up, so that no rule can name those of one pool: specdecode.steps.watchdog
    # deletes those with its label only.
    {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["delete"]},
]
WRITE_NAMESPACE: list[dict[str, Any]] = [
    # Server-side apply of an object that does not exist yet is authorized as patch and as create.
    {"apiGroups": [""], "resources": ["services", "configmaps"], "verbs": ["create", "patch", "delete"]},
    # API keys and sessions are made and never read: the garbage collector deletes them with the run's root.
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "patch", "delete"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "patch", "delete"]},
]

RENEW_SESSIONS: list[dict[str, Any]] = [
    # The answer to a `patch` would show what is in a Secret; that to an `update` shows what was sent.
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["update"]},
]


def scale_pools(nodes: int, *, foreign: bool = False) -> list[dict[str, Any]]:
    """The rules that let the pipeline scale the pools of a deployment of `nodes` nodes, and no other pool."""
    return [
        {
            "apiGroups": ["karpenter.sh"],
            "resources": ["nodepools/scale"],
            "resourceNames": [names.node_pool(slot, foreign=foreign) for slot in names.held_pools(nodes)],
            "verbs": ["patch"],
        },
    ]


def role_and_binding(kind: str, name: str, group: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A Role (of the workload namespace) or ClusterRole and its binding to `group`."""
    scope = {"namespace": names.NAMESPACE} if kind == "Role" else {}
    labels = {"app.kubernetes.io/name": "specdecode", "app.kubernetes.io/managed-by": "cdk"}
    api = "rbac.authorization.k8s.io"
    metadata = {"name": name, "labels": labels, **scope}
    return [
        {"apiVersion": f"{api}/v1", "kind": kind, "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{api}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": kind, "name": name},
            "subjects": [{"apiGroup": api, "kind": "Group", "name": group}],
        },
    ]


def groups_of(function: str, *, guest: bool) -> list[str]:
    """The Kubernetes groups of a function, by its name in FUNCTIONS. In a cluster of somebody else (`guest`) it ends no
    nodes.
    """
    writes = [] if function in LOOKERS else [names.PIPELINE_GROUP]
    gives = any(function in takers for takers in names.POD_ROLES.values())
    return [
        READER_GROUP,
        *writes,
        *([names.SESSIONS_GROUP] if gives else []),
        *([WATCHDOG_GROUP] if function == "Watchdog" and not guest else []),
    ]


def rights(settings: Settings) -> dict[str, str]:
    """The environment variable that tells a function what it may do outside the namespace of a cluster that exists."""
    if not settings.existing_cluster:
        return {}
    if settings.existing_node_group:
        return {names.RIGHTS_VARIABLE: names.GROUP_RIGHTS, names.GROUP_VARIABLE: settings.existing_node_group}
    return {names.RIGHTS_VARIABLE: names.POOL_RIGHTS if settings.makes_nodes else names.NAMESPACE_RIGHTS}


class PipelineAccess(Construct):
    """Roles in Kubernetes, the way to the API server, and an access entry for each function's role.

    In a cluster that exists, its administrator has given the roles (constructs_lib/administrator_objects.py).
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        security_group: ec2.ISecurityGroup,
        nodes: int,
        gives_roles: bool = True,
    ) -> None:
        super().__init__(scope, id)
        self._cluster = cluster
        for kind, part, group, rules in (
            ("ClusterRole", "reader", READER_GROUP, READ_CLUSTER),
            ("Role", "reader", READER_GROUP, READ_NAMESPACE),
            ("ClusterRole", "pipeline", names.PIPELINE_GROUP, scale_pools(nodes)),
            ("Role", "pipeline", names.PIPELINE_GROUP, WRITE_NAMESPACE),
            ("Role", "sessions", names.SESSIONS_GROUP, RENEW_SESSIONS),
            ("ClusterRole", "watchdog", WATCHDOG_GROUP, END_NODES),
        ):
            for manifest in role_and_binding(kind, f"specdecode-{part}", group, rules) if gives_roles else ():
                eks.KubernetesManifest(
                    self, f"{part.capitalize()}{manifest['kind']}", cluster=cluster, manifest=[manifest]
                )
        reach(self, cluster.cluster_security_group_id, source=security_group, who="Pipeline functions")

    def admit(self, id: str, role: iam.IRole, *, groups: list[str]) -> None:
        """Let `role` authenticate as a member of `groups`."""
        admit(self, id, cluster_name=self._cluster.cluster_name, role=role, groups=groups)
