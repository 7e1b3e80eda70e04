"""Admission: what the API server changes or refuses when an object is created."""

import csv
import functools
from collections.abc import Callable

from rehearsal.kubernetes import errors
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.objects import Json, annotations_of, name_of, namespace_of
from rehearsal.kubernetes.resources import Resource

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
SKIP_CONTAINERS = "eks.amazonaws.com/skip-containers"
TOKEN_MOUNT = "/var/run/secrets/eks.amazonaws.com/serviceaccount"  # noqa: S105
TOKEN_VOLUME = "aws-iam-token"  # noqa: S105
REGIONS = ("AWS_DEFAULT_REGION", "AWS_REGION")
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
AUDIENCE = "sts.amazonaws.com"

Hook = Callable[[Store, Resource, Json], None]


class Hooks:
    """The hooks of admission, in order. Each may change the object in place or raise an ApiError."""

    def __init__(self) -> None:
        self._hooks: list[Hook] = [require_service_account, set_priority, refuse_runtime_classes]

    def add(self, hook: Hook) -> None:
        self._hooks.append(hook)

    def admit(self, store: Store, resource: Resource, obj: Json) -> None:
        for hook in self._hooks:
            hook(store, resource, obj)


def require_service_account(store: Store, resource: Resource, obj: Json) -> None:
    """The ServiceAccount plugin: refuse a pod whose ServiceAccount does not exist."""
    if resource is not r.PODS:
        return
    name, namespace = obj["spec"]["serviceAccountName"], namespace_of(obj)
    if store.get(r.SERVICE_ACCOUNTS, namespace, name) is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise errors.forbidden(resource, name_of(obj), why)


def set_priority(store: Store, resource: Resource, obj: Json) -> None:
    """The Priority plugin: a pod's priority and preemption come from its class; a pod that sets others is refused."""
    if resource is not r.PODS:
        return
    spec, refuse = obj["spec"], functools.partial(errors.forbidden, resource, name_of(obj))
    name = spec.get("priorityClassName") or ""
    found = store.get(r.PRIORITY_CLASSES, "", name) if name else None
    if name and not found and name not in _SYSTEM_PRIORITIES:
        raise refuse(f"no PriorityClass with name {name} was found")
    meant = {
        "priority": found.get("value", 0) if found else _SYSTEM_PRIORITIES.get(name, 0),
        "preemptionPolicy": (found or {}).get("preemptionPolicy", "PreemptLowerPriority"),
    }
    for field, value in meant.items():
        if spec.setdefault(field, value) != value:
            raise refuse(
                f"the value of {field} ({spec[field]}) must not be provided in pod spec; priority admission controller "
                f"computed {value} from the given PriorityClass name"
            )


def refuse_runtime_classes(store: Store, resource: Resource, obj: Json) -> None:
    """The RuntimeClass plugin, in a cluster without RuntimeClasses."""
    if resource is not r.PODS:
        return
    if name := obj["spec"].get("runtimeClassName"):
        raise errors.forbidden(resource, name_of(obj), f'pod rejected: RuntimeClass "{name}" not found')
    if "overhead" in obj["spec"]:
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise errors.forbidden(resource, name_of(obj), why)


def pod_identity_webhook(region: str) -> Hook:
    """EKS's mutating webhook: a pod whose ServiceAccount names an IAM role gets the role, a token and the region.
    Containers that the pod's annotation names are skipped. If a container has one variable of a group already, the
    webhook adds none of that group (v0.6.9's addEnvToContainer): a container with AWS_REGION gets no
    AWS_DEFAULT_REGION.
    """

    def mutate(store: Store, resource: Resource, obj: Json) -> None:
        if resource is not r.PODS:
            return
        spec = obj["spec"]
        account = store.get(r.SERVICE_ACCOUNTS, namespace_of(obj), spec["serviceAccountName"])
        role = annotations_of(account).get(ROLE_ANNOTATION) if account else None
        if role is None:
            return
        identity = {"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": f"{TOKEN_MOUNT}/token"}
        skipped = next(csv.reader([annotations_of(obj).get(SKIP_CONTAINERS, "")]), [])
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            if container["name"] in skipped:
                continue
            env = container.setdefault("env", [])
            present = {variable["name"] for variable in env}
            for added in ({"AWS_STS_REGIONAL_ENDPOINTS": "regional"}, dict.fromkeys(REGIONS, region), identity):
                if present.isdisjoint(added):
                    env.extend({"name": key, "value": value} for key, value in added.items())
            mount = {"name": TOKEN_VOLUME, "mountPath": TOKEN_MOUNT, "readOnly": True}
            container.setdefault("volumeMounts", []).append(mount)
        token = {"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 86400, "path": "token"}}
        volume = {"name": TOKEN_VOLUME, "projected": {"sources": [token], "defaultMode": 0o644}}
        spec.setdefault("volumes", []).append(volume)

    return mutate
