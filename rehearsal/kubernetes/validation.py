"""Rules across fields, which a schema cannot express. All problems come in one 422."""

from collections.abc import Callable, Iterator

from rehearsal.kubernetes import (
    claim_rules,
    data_rules,
    errors,
    job_rules,
    karpenter_rules,
    pod_rules,
    quantity,
    queries,
    quotas,
    rbac_rules,
    scheduling_rules,
    service_rules,
    value_formats,
    volume_rules,
)
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.objects import Json, dig, name_of, terminating
from rehearsal.kubernetes.resources import Resource

_ANNOTATIONS_LIMIT = 256 * 1024
_NAMES = {
    r.SERVICES: value_formats.dns_1035_label,
    r.NAMESPACES: value_formats.dns_label,
    **dict.fromkeys((r.ROLES, r.CLUSTER_ROLES, r.ROLE_BINDINGS, r.CLUSTER_ROLE_BINDINGS), value_formats.path_segment),
}
_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_POD_SECURITY = "pod-security.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")


Rule = Callable[[Json, Json | None], Iterator[Json]]


def check(store: Store, resource: Resource, obj: Json, old: Json | None) -> None:
    """Raise 422 if `obj` breaks a rule of its kind. `old` is the object before an update."""
    causes = list(_metadata(resource, obj, old))
    for rule in _RULES.get(resource, ()):
        causes += rule(obj, old)
    if causes:
        raise errors.invalid(resource, obj["metadata"].get("name", ""), causes)


def _metadata(resource: Resource, obj: Json, old: Json | None) -> Iterator[Json]:
    metadata = obj["metadata"]
    name = metadata.get("name")
    if not name:
        yield errors.required("metadata.name", "name or generateName is required")
    elif said := _NAMES.get(resource, value_formats.dns_subdomain)(name):
        yield errors.invalid_value("metadata.name", name, said)
    yield from labels("metadata.labels", metadata.get("labels"))
    for key in metadata.get("annotations") or {}:
        if said := value_formats.qualified_name(key.lower()):
            yield errors.invalid_value("metadata.annotations", key, said)
    for index, reference in enumerate(metadata.get("ownerReferences") or ()):
        if (reference.get("apiVersion"), reference.get("kind")) == ("v1", "Event"):  # BannedOwners of objectmeta.go
            message = "/v1, Kind=Event is disallowed from being an owner"
            yield errors.invalid_value("metadata.ownerReferences", reference, message)
        for field in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(field):
                yield errors.required(f"metadata.ownerReferences[{index}].{field}")
    for name in metadata.get("finalizers") or ():
        said = value_formats.qualified_name(name)
        if not said and "/" not in name and name not in _FINALIZERS:
            said = "name is neither a standard finalizer name nor is it fully qualified"
        if said:
            yield errors.invalid_value("metadata.finalizers", name, said)
    kept = {*(old["metadata"].get("finalizers") or ())} if old else set()
    extra = sorted({*(metadata.get("finalizers") or ())} - kept)
    if extra and old and terminating(old):  # ValidateNoNewFinalizers of objectmeta.go
        message = f"no new finalizers can be added if the object is being deleted, found new finalizers {extra}"
        yield errors.field_forbidden("metadata.finalizers", message)
    if sum(ref.get("controller") is True for ref in metadata.get("ownerReferences") or ()) > 1:
        yield errors.invalid_value(
            "metadata.ownerReferences", "…", "Only one reference can have Controller set to true"
        )
    pairs = (metadata.get("annotations") or {}).items()
    if sum(len((key + value).encode(errors="surrogatepass")) for key, value in pairs) > _ANNOTATIONS_LIMIT:
        yield errors.cause(
            "metadata.annotations", "FieldValueTooLong", f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        )


def labels(path: str, values: dict[str, str] | None) -> Iterator[Json]:
    for key, value in (values or {}).items():
        if said := value_formats.qualified_name(key):
            yield errors.invalid_value(path, key, said)
        if said := value_formats.label_value(value):
            yield errors.invalid_value(path, value, said)


def _immutable(*paths: tuple[str, ...]) -> Rule:
    def rule(obj: Json, old: Json | None) -> Iterator[Json]:
        for path in paths:
            if old is not None and dig(obj, *path) != dig(old, *path):
                yield errors.invalid_value(".".join(path), "…", "field is immutable")

    return rule


def _template(obj: Json, old: Json | None) -> Iterator[Json]:
    yield from labels("spec.template.metadata.labels", dig(obj, "spec", "template", "metadata", "labels"))
    yield from pod_rules.check(obj["spec"]["template"].get("spec") or {}, "spec.template.spec")


def _selects_its_template(obj: Json, old: Json | None) -> Iterator[Json]:
    yield from scheduling_rules.selector(obj["spec"]["selector"], "spec.selector")
    chosen = dig(obj, "spec", "template", "metadata", "labels", default={})
    if not queries.matches(obj["spec"]["selector"], chosen):
        message = "`selector` does not match template `labels`"
        yield errors.invalid_value("spec.template.metadata.labels", chosen, message)


def _restart_always(obj: Json, old: Json | None) -> Iterator[Json]:
    policy = dig(obj, "spec", "template", "spec", "restartPolicy")
    if policy != "Always":
        message = f'Unsupported value: "{policy}": supported values: "Always"'
        yield errors.cause("spec.template.spec.restartPolicy", "FieldValueNotSupported", message)


def _deployment(obj: Json, old: Json | None) -> Iterator[Json]:
    spec = obj["spec"]
    if spec["strategy"]["type"] == "Recreate" and "rollingUpdate" in spec["strategy"]:
        message = "may not be specified when strategy `type` is 'Recreate'"
        yield errors.field_forbidden("spec.strategy.rollingUpdate", message)
    if spec["progressDeadlineSeconds"] <= spec.get("minReadySeconds", 0):
        message = "must be greater than minReadySeconds"
        yield errors.invalid_value("spec.progressDeadlineSeconds", spec["progressDeadlineSeconds"], message)
    if dig(obj, "spec", "paused"):
        yield errors.unsupported("spec.paused", "paused Deployments")


def _quantities(obj: Json, old: Json | None) -> Iterator[Json]:
    for key, value in (dig(obj, "spec", "limits", default={})).items():
        try:
            quantity.parse(value)
        except ValueError as problem:
            yield errors.invalid_value(f"spec.limits.{key}", value, str(problem))


def _levels(obj: Json, old: Json | None) -> Iterator[Json]:
    for key, value in (obj["metadata"].get("labels") or {}).items():
        mode = key.removeprefix(_POD_SECURITY)
        if key != mode and mode in ("enforce", "audit", "warn") and value not in _LEVELS:
            yield errors.invalid_value(f"metadata.labels[{key}]", value, f"must be one of {', '.join(_LEVELS)}")


def _no_new_definitions(obj: Json, old: Json | None) -> Iterator[Json]:
    if name_of(obj).split(".", 1)[-1] not in ("karpenter.sh", "karpenter.k8s.aws"):
        yield errors.unsupported("metadata.name", "custom resources other than Karpenter's")


def _pod(obj: Json, old: Json | None) -> Iterator[Json]:
    yield from pod_rules.check(obj["spec"], "spec")
    if old is not None:
        yield from pod_rules.check_update(obj["spec"], old["spec"])


_RULES: dict[Resource, tuple[Rule, ...]] = {
    r.NAMESPACES: (_levels,),
    r.NETWORK_POLICIES: (service_rules.policy,),
    r.PODS: (_pod,),
    r.DEPLOYMENTS: (_immutable(("spec", "selector")), _template, _selects_its_template, _restart_always, _deployment),
    r.REPLICA_SETS: (_immutable(("spec", "selector")), _template, _selects_its_template, _restart_always),
    r.DAEMON_SETS: (_immutable(("spec", "selector")), _template, _selects_its_template, _restart_always),
    r.JOBS: (
        _immutable(*(("spec", field) for field in job_rules.IMMUTABLE)),
        _template,
        job_rules.job,
    ),
    r.SERVICES: (_immutable(("spec", "clusterIP"), ("spec", "ipFamilies")), service_rules.service),
    r.CONFIG_MAPS: (data_rules.config_map,),
    r.QUOTAS: (quotas.check_quota,),
    r.LIMIT_RANGES: (quotas.check_limits,),
    r.SECRETS: (data_rules.secret, _immutable(("type",))),
    r.VOLUMES: (volume_rules.volume,),
    r.VOLUME_CLAIMS: (volume_rules.claim,),
    r.CLAIMS: (claim_rules.claim("spec"),),
    r.CLAIM_TEMPLATES: (claim_rules.claim("spec", "spec"),),
    r.ROLES: (rbac_rules.namespaced_role,),
    r.CLUSTER_ROLES: (rbac_rules.cluster_role,),
    r.ROLE_BINDINGS: (rbac_rules.binding,),
    r.CLUSTER_ROLE_BINDINGS: (rbac_rules.cluster_binding,),
    r.PRIORITY_CLASSES: (_immutable(("value",), ("preemptionPolicy",)),),
    r.CRDS: (_no_new_definitions,),
    r.NODE_POOLS: (karpenter_rules.node_pool, _quantities),
    r.NODE_CLASSES: (karpenter_rules.node_class,),
    r.NODE_OVERLAYS: (karpenter_rules.node_overlay,),
}
