"""ResourceQuota and LimitRange: the number of objects in a namespace, and the default requests of containers."""

from collections.abc import Iterator, Mapping

from rehearsal.kubernetes import errors, quantity
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.objects import Json, dig, name_of, namespace_of
from rehearsal.kubernetes.resources import Resource

_BY_PLURAL = ("pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers")
_OF_SERVICES = ("services.nodeports", "services.loadbalancers")
_LIMIT_FIELDS = {"type", "defaultRequest", "default"}
_ANNOTATION = "kubernetes.io/limit-ranger"


def check_quota(obj: Json, old: Json | None) -> Iterator[Json]:
    """The double counts objects only. A quota that bounds anything else is refused."""
    for field in ("scopes", "scopeSelector"):
        if dig(obj, "spec", field):
            yield errors.unsupported(f"spec.{field}", "a quota with scopes")
    for key, amount in dig(obj, "spec", "hard", default={}).items():
        if quantity.parse(amount) % 1:
            yield errors.invalid_value(f"spec.hard[{key}]", amount, "must be an integer")
        if key not in (*_BY_PLURAL, *_OF_SERVICES) and not key.startswith("count/"):
            yield errors.unsupported(f"spec.hard[{key}]", "a quota for anything but numbers of objects")


def check_limits(obj: Json, old: Json | None) -> Iterator[Json]:
    kinds = [limit["type"] for limit in obj["spec"].get("limits", ())]
    for kind in sorted({kind for kind in kinds if kinds.count(kind) > 1}):
        yield errors.cause("spec.limits", "FieldValueDuplicate", f'Duplicate value: "{kind}"')
    for index, limit in enumerate(obj["spec"].get("limits", ())):
        if limit["type"] != "Container" or set(limit) - _LIMIT_FIELDS:
            yield errors.unsupported(f"spec.limits[{index}]", "a limit range for anything but a container's defaults")
        defaults = quantity.amounts(limit.get("default"))
        for name, request in quantity.amounts(limit.get("defaultRequest")).items():
            if request > defaults.get(name, request):
                message = f"default request value {request} is greater than default limit value {defaults[name]}"
                yield errors.invalid_value(f"spec.limits[{index}].defaultRequest[{name}]", str(request), message)


def admit(store: Store, resource: Resource, obj: Json) -> None:
    """Raise 403 if a quota of the namespace does not admit one more object like `obj`."""
    if not resource.namespaced:
        return
    asked = usage(resource, obj)
    for quota in store.list(r.QUOTAS, namespace_of(obj)):
        hard = {key: int(quantity.parse(amount)) for key, amount in dig(quota, "spec", "hard", default={}).items()}
        bounded = {key: amount for key, amount in asked.items() if key in hard}
        if not bounded:
            continue
        used = used_of(store, resource, namespace_of(obj))
        exceeded = {key for key, amount in bounded.items() if used.get(key, 0) + amount > hard[key]}
        if exceeded:
            words = [_shown(amounts, exceeded) for amounts in (bounded, used, hard)]
            why = "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(name_of(quota), *words)
            raise errors.forbidden(resource, name_of(obj), why)


def _shown(amounts: Mapping[str, int], keys: set[str]) -> str:
    return ",".join(f"{key}={amounts.get(key, 0)}" for key in sorted(keys))


def used_of(store: Store, resource: Resource, namespace: str) -> dict[str, int]:
    """The use of all objects of a kind in a namespace together."""
    total: dict[str, int] = {}
    for obj in store.list(resource, namespace):
        for key, amount in usage(resource, obj).items():
            total[key] = total.get(key, 0) + amount
    return total


def usage(resource: Resource, obj: Json) -> dict[str, int]:
    """The quota names for which one object counts. A pod that has ended does not count for `pods`."""
    found = {f"count/{resource.qualified}": 1}
    ended = resource is r.PODS and dig(obj, "status", "phase") in ("Succeeded", "Failed")
    if not resource.group and resource.plural in _BY_PLURAL and not ended:
        found[resource.plural] = 1
    if resource is r.SERVICES:
        kind = dig(obj, "spec", "type")
        found["services.loadbalancers"] = int(kind == "LoadBalancer")
        outside = kind in ("NodePort", "LoadBalancer")
        found["services.nodeports"] = len(dig(obj, "spec", "ports", default=())) if outside else 0
    return {key: amount for key, amount in found.items() if amount}


def default_requests(store: Store, resource: Resource, obj: Json) -> None:
    """Admission: give containers without requests or limits those of the namespace's limit ranges. A request above such
    a limit makes the pod invalid; the validation refuses it.
    """
    if resource is not r.PODS:
        return
    for limit_range in store.list(r.LIMIT_RANGES, namespace_of(obj)):
        for limit in limit_range["spec"].get("limits", ()):
            for container in [*obj["spec"].get("initContainers", ()), *obj["spec"]["containers"]]:
                _fill(obj, container, "request", limit.get("defaultRequest") or {})
                _fill(obj, container, "limit", limit.get("default") or {})


def _fill(pod: Json, container: Json, what: str, values: Mapping[str, str]) -> None:
    missing = {k: v for k, v in values.items() if k not in container.get("resources", {}).get(f"{what}s", {})}
    if missing:
        container.setdefault("resources", {}).setdefault(f"{what}s", {}).update(missing)
        said = f"LimitRanger plugin set: {', '.join(sorted(missing))} {what} for container {container['name']}"
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_ANNOTATION] = "; ".join(filter(None, (annotations.get(_ANNOTATION), said)))
