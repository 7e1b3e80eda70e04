"""What the administrator of a cluster that exists applies once, before the first deployment.

    .venv/bin/python -m constructs_lib.administrator_objects [KEY=VALUE...] | kubectl apply -f -

It prints the namespace with its Pod Security Standard, bounds and network policies, and all rights in Kubernetes that
the deployment and the pipeline have there; with `karpenter_node_role`, NodePools of no nodes too. It reads the settings
as `cdk deploy -c KEY=VALUE` does; exit status 2, with every problem, if they cannot work.
"""

import sys
from typing import Any

import yaml
from specdecode import names
from specdecode.assets import kubernetes_objects

from constructs_lib.capacity import foreign_karpenter, node_group
from constructs_lib.cluster import access
from constructs_lib.cluster.manifest import Manifest
from constructs_lib.cluster.workspace import network_policies, workspace
from constructs_lib.settings.facts import settings_given
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.reading import SettingsError
from constructs_lib.storage.volumes import PREFIXES

KUBECTL = ["get", "list", "watch", "create", "patch", "update", "delete"]
"""Verbs of `kubectl apply` and `kubectl delete --wait`."""
READ_EVENTS: list[dict[str, Any]] = [{"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}]
DEPLOY: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["serviceaccounts", "persistentvolumeclaims"], "verbs": KUBECTL},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaimtemplates"], "verbs": KUBECTL},
]
VOLUMES: list[dict[str, Any]] = [
    # A rule cannot name what is to be created.
    {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["create"]},
    {
        "apiGroups": [""],
        "resources": ["persistentvolumes"],
        "resourceNames": [names.model_pv(prefix) for prefix in PREFIXES],
        "verbs": [verb for verb in KUBECTL if verb != "create"],
    },
]
ROLES = (
    ("Role", "reader", access.READER_GROUP, access.READ_NAMESPACE + READ_EVENTS),
    ("Role", "pipeline", names.PIPELINE_GROUP, access.WRITE_NAMESPACE),
    ("Role", "sessions", names.SESSIONS_GROUP, access.RENEW_SESSIONS),
    ("Role", "deployer", access.DEPLOYER_GROUP, DEPLOY),
    ("ClusterRole", "deployer", access.DEPLOYER_GROUP, VOLUMES),
)
"""Kind, name, group and rules. Outside the namespace the pipeline may only scale our NodePools
(constructs_lib/capacity/foreign_karpenter.py) and see nodes. The deployment may make the two volumes.
"""


def objects(settings: Settings) -> list[Manifest]:
    """All objects, in the order in which they must be applied."""
    roles = [
        manifest
        for kind, part, group, rules in ROLES
        for manifest in access.role_and_binding(kind, f"specdecode-{part}", group, rules)
    ]
    karpenter = [*foreign_karpenter.rights(settings), *foreign_karpenter.nodes(settings)]
    nodes = [*karpenter, *node_group.rights(settings)]
    return [workspace(), *kubernetes_objects("bounds.yaml"), *network_policies(settings), *roles, *nodes]


def main(given: list[str]) -> int:
    """Print the objects as a stream of YAML. Exit status 2 if the settings cannot work."""
    try:
        settings = settings_given(given)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    print(yaml.safe_dump_all(objects(settings), sort_keys=False), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
