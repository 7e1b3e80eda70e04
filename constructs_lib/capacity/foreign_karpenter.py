"""Our NodePools in the Karpenter of a cluster that exists: the objects, and the rights that they need (ADR 194)."""

from collections.abc import Iterator
from typing import Any

from specdecode import names
from specdecode.experiment.shapes import ORDINARY

from constructs_lib.capacity.node_objects import Ground, class_name, node_class, node_pools, price
from constructs_lib.cluster import access
from constructs_lib.cluster.manifest import Manifest
from constructs_lib.settings.fields import Settings

LABELS = {"app.kubernetes.io/name": "specdecode"}
"""Label on all of these objects. By it preflight tells our objects from others of the same name."""
OF_CLUSTER: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
    {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["list"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]},
]
"""Rights to see whether a run's node has come. A rule cannot limit a list to the nodes of one pool."""
EVENTS: list[dict[str, Any]] = [{"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}]
"""Rights in the namespace `default`: Kubernetes keeps events about nodes and other cluster-wide objects there."""


def nodes(settings: Settings) -> Iterator[Manifest]:
    """EC2NodeClasses, the price if one is needed, and NodePools of no nodes. Empty without `karpenter_node_role`."""
    if settings.karpenter_node_role is None:
        return
    ground = _ground(settings)
    for shape in (settings.shape, *ORDINARY):
        found = [node_class(shape, ground, settings), price(shape, ground, settings)]
        for manifest in (*found, *node_pools(shape, ground, settings)):
            if manifest is not None:
                yield {**manifest, "metadata": {**manifest["metadata"], "labels": LABELS}}


def rights(settings: Settings) -> Iterator[Manifest]:
    """Roles outside the namespace: to scale these NodePools, and to see them, their classes and all nodes."""
    if settings.karpenter_node_role is None:
        return
    ground = _ground(settings)
    ours = [ground.name(slot) for slot in names.held_pools(names.MOST_NODES)]
    classes = [ground.name(class_name(shape, settings)) for shape in (settings.shape, *ORDINARY)]
    see = [
        *OF_CLUSTER,
        {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "resourceNames": ours, "verbs": ["get"]},
        {
            "apiGroups": ["karpenter.k8s.aws"],
            "resources": ["ec2nodeclasses"],
            "resourceNames": classes,
            "verbs": ["get"],
        },
    ]
    scale = access.scale_pools(settings.nodes, foreign=True)
    yield from access.role_and_binding("ClusterRole", "specdecode-reader", access.READER_GROUP, see)
    yield from access.role_and_binding("ClusterRole", "specdecode-pipeline", names.PIPELINE_GROUP, scale)
    for manifest in access.role_and_binding("Role", "specdecode-events", access.READER_GROUP, EVENTS):
        yield {**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}}


def _ground(settings: Settings) -> Ground:
    return Ground(
        node_role=str(settings.karpenter_node_role),
        subnets=settings.subnet_ids,
        security_groups=settings.node_security_groups or (str(settings.cluster_security_group),),
        foreign=True,
    )
