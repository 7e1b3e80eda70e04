"""The scale subresource: autoscaling/v1 Scale of Deployments, ReplicaSets and static NodePools."""

from rehearsal.kubernetes import errors
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.objects import Json, dig, name_of, namespace_of, uid_of
from rehearsal.kubernetes.resources import Resource

NOT_SCALABLE = 'the spec replicas field ".spec.replicas" does not exist'


def is_scalable(resource: Resource, obj: Json) -> bool:
    """Whether the object has a Scale. A dynamic NodePool has no replicas and so no Scale."""
    return resource is not r.NODE_POOLS or "replicas" in obj["spec"]


def scale_of(resource: Resource, obj: Json) -> Json:
    """The Scale of an object. Raises 500 if it has none, as a dynamic NodePool."""
    if not is_scalable(resource, obj):
        raise errors.ApiError(500, "InternalError", f"Internal error occurred: {NOT_SCALABLE}")
    metadata: Json = {"name": name_of(obj), "uid": uid_of(obj), "resourceVersion": obj["metadata"]["resourceVersion"]}
    metadata["creationTimestamp"] = obj["metadata"]["creationTimestamp"]
    if resource.namespaced:
        metadata["namespace"] = namespace_of(obj)
    counted = "nodes" if resource is r.NODE_POOLS else "replicas"
    status: Json = {"replicas": dig(obj, "status", counted, default=0)}
    selector = dig(obj, "spec", "selector", "matchLabels")
    if selector and resource is not r.NODE_POOLS:
        status["selector"] = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    spec = {"replicas": dig(obj, "spec", "replicas", default=0)}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def replicas_in(resource: Resource, name: str, body: Json) -> int:
    """The wanted replicas of a Scale that a client sends."""
    if body.get("kind", "Scale") != "Scale":
        raise errors.bad_request(f"cannot handle {body.get('kind')} as a Scale")
    replicas = dig(body, "spec", "replicas", default=0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise errors.bad_request("Scale.spec.replicas must be an integer")
    if replicas < 0:
        path = "spec.replicas"
        raise errors.invalid(
            resource, name, [errors.invalid_value(path, replicas, "must be greater than or equal to 0")]
        )
    return replicas
