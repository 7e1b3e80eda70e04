"""Objects that stand for installed software: pods that take room and run nothing."""

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json, annotations_of, name_of, namespace_of

NO_PROCESS = "rehearsal/no-process"
"""Annotation of pods that stand for the cluster's own software (Karpenter, CSI, …). They take room and run nothing."""
OWNER = "rehearsal/installed-by"
_EVERYWHERE = [{"operator": "Exists"}]


def workload(
    kind: str,
    *,
    owner: str,
    namespace: str,
    name: str,
    requests: dict[str, str],
    replicas: int = 1,
    tolerations: list[Json] | None = None,
    affinity: Json | None = None,
    account: str = "default",
) -> Json:
    """A Deployment or DaemonSet whose pods only have `requests`."""
    labels = {"app.kubernetes.io/name": name}
    container = {
        "name": name[:63],
        "image": f"rehearsal/{name}:1",
        "command": ["stands-for-software-of-the-cluster"],
        "resources": {"requests": requests},
    }
    pod: Json = {"containers": [container], "tolerations": _EVERYWHERE if tolerations is None else tolerations}
    pod["serviceAccountName"] = account
    pod["priorityClassName"] = "system-cluster-critical"
    if affinity:
        pod["affinity"] = affinity
    spec: Json = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels, "annotations": {NO_PROCESS: "true"}}, "spec": pod},
    }
    if kind == "Deployment":
        spec["replicas"] = replicas
    metadata = {"name": name, "namespace": namespace, "annotations": {OWNER: owner}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def put(cluster: Cluster, obj: Json) -> None:
    """Create the object, or replace its spec if it exists."""
    resource = cluster.registry.of_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None
    found = cluster.store.get(resource, namespace_of(obj), name_of(obj))
    if found is None:
        cluster.create(resource, obj, manager="helm")
    else:
        cluster.update(resource, {**found, **{k: v for k, v in obj.items() if k != "metadata"}}, manager="helm")


def remove_all(cluster: Cluster, owner: str) -> None:
    """Delete everything that `owner` installed."""
    for resource in (r.DEPLOYMENTS, r.DAEMON_SETS, r.DEVICE_CLASSES, r.SERVICE_ACCOUNTS, r.PRIORITY_CLASSES):
        for obj in cluster.store.list(resource):
            if annotations_of(obj).get(OWNER) == owner:
                cluster.delete(resource, namespace_of(obj), name_of(obj), {"propagationPolicy": "Background"})


def service_account(cluster: Cluster, *, owner: str, namespace: str, name: str, annotations: dict[str, str]) -> None:
    metadata = {"name": name, "namespace": namespace, "annotations": {OWNER: owner, **annotations}}
    put(cluster, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def ensure_namespace(cluster: Cluster, name: str) -> None:
    if cluster.store.get(r.NAMESPACES, "", name) is None:
        cluster.create(
            r.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, manager="helm"
        )
