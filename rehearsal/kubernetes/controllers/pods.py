"""Helpers of the controllers that make pods."""

import copy

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.errors import ApiError
from rehearsal.kubernetes.machinery import Cluster, random_suffix
from rehearsal.kubernetes.objects import Json, dig, is_true, name_of, namespace_of, owner_reference, terminating


def owned_pods(cluster: Cluster, owner: Json) -> list[Json]:
    uid = owner["metadata"]["uid"]
    return [
        pod
        for pod in cluster.store.list(r.PODS, namespace_of(owner))
        if any(ref["uid"] == uid and ref.get("controller") for ref in pod["metadata"].get("ownerReferences") or ())
    ]


def create_pod(
    cluster: Cluster, owner: Json, *, node: str = "", template: Json | None = None, prefix: str = ""
) -> Json | None:
    """Create a pod from the owner's template, or from another one. Its name begins with `prefix` or the owner's name.
    If it is refused, an Event FailedCreate on the owner says why.
    """
    template = template or owner["spec"]["template"]
    metadata = copy.deepcopy(template.get("metadata") or {})
    metadata = {key: value for key, value in metadata.items() if key in ("labels", "annotations", "finalizers")}
    metadata |= {
        "name": (prefix or f"{name_of(owner)[:57]}-") + random_suffix(),
        "namespace": namespace_of(owner),
        "ownerReferences": [owner_reference(owner)],
    }
    spec = copy.deepcopy(template["spec"])
    if node:
        spec["nodeName"] = node
    component = f"{owner['kind'].lower()}-controller"
    try:
        pod = cluster.create(r.PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    except ApiError as problem:
        cluster.event(owner, "Warning", "FailedCreate", f"Error creating: {problem.message}", component=component)
        return None
    cluster.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {name_of(pod)}", component=component)
    return pod


def is_finished(pod: Json) -> bool:
    return dig(pod, "status", "phase") in ("Succeeded", "Failed")


def is_active(pod: Json) -> bool:
    return not is_finished(pod) and not terminating(pod)


def is_ready(pod: Json) -> bool:
    return is_active(pod) and is_true(pod, "Ready")
