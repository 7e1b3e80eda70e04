"""Rules across fields, which a schema cannot say: 422 with every problem at once."""

import re
from collections.abc import Callable, Iterator

from rehearsal.kubernetes import cel, errors, karpenter_rules, pod_rules, quantity, queries, quotas
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.objects import Json, dig, name_of
from rehearsal.kubernetes.resources import Resource
from rehearsal.kubernetes.store import Store

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_SERVICE_NAME = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
_LABEL_KEY = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$")
_ANNOTATIONS_LIMIT = 256 * 1024
_DATA_LIMIT = 1024 * 1024
_FREE_NAMES = (r.ROLES, r.CLUSTER_ROLES, r.ROLE_BINDINGS, r.CLUSTER_ROLE_BINDINGS)

Rule = Callable[[Json, Json | None], Iterator[Json]]


def check(store: Store, resource: Resource, obj: Json, old: Json | None) -> None:
    """Raise 422 when `obj` (over `old`, on an update) breaks a rule of its kind."""
    causes = list(_metadata(resource, obj))
    for rule in _RULES.get(resource, ()):
        causes += rule(obj, old)
    if causes:
        raise errors.invalid(resource, obj["metadata"].get("name", ""), causes)


def _metadata(resource: Resource, obj: Json) -> Iterator[Json]:
    metadata = obj["metadata"]
    name = metadata.get("name")
    if not name:
        yield errors.required("metadata.name", "name or generateName is required")
    elif resource is r.SERVICES and not (_SERVICE_NAME.match(name) and len(name) <= 63):
        yield errors.invalid_value(
            "metadata.name", name, "a DNS-1035 label must start with a letter, at most 63 characters"
        )
    elif resource is r.NAMESPACES and not (_LABEL.match(name) and len(name) <= 63):
        yield errors.invalid_value("metadata.name", name, "a lowercase RFC 1123 label must be at most 63 characters")
    elif resource not in _FREE_NAMES and not (_SUBDOMAIN.match(name) and len(name) <= 253):
        yield errors.invalid_value(
            "metadata.name",
            name,
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'",
        )
    yield from labels("metadata.labels", metadata.get("labels"))
    for key in metadata.get("annotations") or {}:
        if not _LABEL_KEY.match(key.lower() if "/" in key else key):
            yield errors.invalid_value(
                "metadata.annotations", key, "name part must consist of alphanumeric characters, '-', '_' or '.'"
            )
    if sum(len(k) + len(v) for k, v in (metadata.get("annotations") or {}).items()) > _ANNOTATIONS_LIMIT:
        yield errors.cause(
            "metadata.annotations", "FieldValueTooLong", f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        )


def labels(path: str, values: dict[str, str] | None) -> Iterator[Json]:
    for key, value in (values or {}).items():
        if not _LABEL_KEY.match(key):
            yield errors.invalid_value(path, key, "name part must consist of alphanumeric characters, '-', '_' or '.'")
        if not _LABEL_VALUE.match(value):
            yield errors.invalid_value(
                path,
                value,
                "a valid label must be empty or consist of alphanumeric characters, '-', '_' or '.' (at most 63)",
            )


def _immutable(*paths: tuple[str, ...]) -> Rule:
    def rule(obj: Json, old: Json | None) -> Iterator[Json]:
        for path in paths:
            if old is not None and dig(obj, *path) != dig(old, *path):
                yield errors.invalid_value(".".join(path), "…", "field is immutable")

    return rule


def _data_size(obj: Json, old: Json | None) -> Iterator[Json]:
    size = sum(len(v.encode()) for kind in ("data", "binaryData", "stringData") for v in (obj.get(kind) or {}).values())
    if size > _DATA_LIMIT:
        yield errors.cause("", "FieldValueTooLong", f"Too long: may not be more than {_DATA_LIMIT} bytes")
    if old and old.get("immutable") and obj.get("data") != old.get("data"):
        yield errors.field_forbidden("data", "field is immutable when `immutable` is set")


def _template(obj: Json, old: Json | None) -> Iterator[Json]:
    yield from labels("spec.template.metadata.labels", dig(obj, "spec", "template", "metadata", "labels"))
    yield from pod_rules.check(obj["spec"]["template"].get("spec") or {}, "spec.template.spec")


def _selects_its_template(obj: Json, old: Json | None) -> Iterator[Json]:
    chosen = dig(obj, "spec", "template", "metadata", "labels", default={})
    if not queries.matches(obj["spec"]["selector"], chosen):
        message = "`selector` does not match template `labels`"
        yield errors.invalid_value("spec.template.metadata.labels", chosen, message)


def _restart_always(obj: Json, old: Json | None) -> Iterator[Json]:
    policy = dig(obj, "spec", "template", "spec", "restartPolicy")
    if policy != "Always":
        message = f'Unsupported value: "{policy}": supported values: "Always"'
        yield errors.cause("spec.template.spec.restartPolicy", "FieldValueNotSupported", message)


def _job(obj: Json, old: Json | None) -> Iterator[Json]:
    spec = obj["spec"]
    if dig(spec, "template", "spec", "restartPolicy") not in ("Never", "OnFailure"):
        message = 'Required value: valid values: "OnFailure", "Never"'
        yield errors.cause("spec.template.spec.restartPolicy", "FieldValueRequired", message)
    if "podFailurePolicy" in spec and dig(spec, "template", "spec", "restartPolicy") != "Never":
        message = 'Invalid value: only "Never" is supported when podFailurePolicy is specified'
        yield errors.cause("spec.template.spec.restartPolicy", "FieldValueInvalid", message)
    for field in ("successPolicy", "managedBy", "backoffLimitPerIndex", "maxFailedIndexes"):
        if field in spec:
            yield errors.unsupported(f"spec.{field}", f"Jobs with {field}")
    if spec.get("completionMode") == "Indexed":
        yield errors.unsupported("spec.completionMode", "indexed Jobs")


def _deployment(obj: Json, old: Json | None) -> Iterator[Json]:
    if dig(obj, "spec", "paused"):
        yield errors.unsupported("spec.paused", "paused Deployments")


def _service(obj: Json, old: Json | None) -> Iterator[Json]:
    spec = obj["spec"]
    if not spec.get("ports"):
        yield errors.required("spec.ports")
    if spec["type"] != "ClusterIP" or spec.get("externalIPs") or spec.get("externalName"):
        yield errors.unsupported("spec.type", "a Service that is reached from outside the cluster")
    if not spec.get("selector"):
        yield errors.unsupported("spec.selector", "a Service without a selector")
    for index, port in enumerate(spec.get("ports", ())):
        if port["targetPort"] != port["port"] and not isinstance(port["targetPort"], str):
            yield errors.unsupported(
                f"spec.ports[{index}].targetPort",
                "a port that differs from its targetPort (the Service's IP is its pod's own)",
            )
        if len(spec["ports"]) > 1 and not port.get("name"):
            yield errors.required(f"spec.ports[{index}].name")


def _volume(obj: Json, old: Json | None) -> Iterator[Json]:
    spec = obj["spec"]
    driver = dig(spec, "csi", "driver")
    if driver != "s3.csi.aws.com":
        yield errors.unsupported("spec.csi.driver", "a volume that is not a Mountpoint for Amazon S3 (s3.csi.aws.com)")
    elif not dig(spec, "csi", "volumeAttributes", "bucketName"):
        yield errors.required("spec.csi.volumeAttributes.bucketName")
    for key in ("accessModes", "capacity"):
        if not spec.get(key):
            yield errors.required(f"spec.{key}")
    if old is not None and dig(old, "spec", "csi") != dig(obj, "spec", "csi"):
        yield errors.field_forbidden(
            "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
        )


def _volume_claim(obj: Json, old: Json | None) -> Iterator[Json]:
    if not dig(obj, "spec", "accessModes"):
        yield errors.required("spec.accessModes", "at least 1 access mode is required")
    if not dig(obj, "spec", "resources", "requests", "storage"):
        yield errors.required("spec.resources[storage]")
    if old is not None:
        mutable = ("volumeName", "resources")
        before, after = ({k: v for k, v in o["spec"].items() if k not in mutable} for o in (old, obj))
        bound = dig(old, "spec", "volumeName")
        if before != after or (bound and bound != dig(obj, "spec", "volumeName")):
            yield errors.field_forbidden(
                "spec", "spec is immutable after creation except resources.requests for bound claims"
            )


def _claim(path: tuple[str, ...]) -> Rule:
    def rule(obj: Json, old: Json | None) -> Iterator[Json]:
        devices = dig(obj, *path, "devices", default={})
        here = ".".join((*path, "devices"))
        names = [request["name"] for request in devices.get("requests", ())]
        for index, request in enumerate(devices.get("requests", ())):
            if "exactly" not in request:
                yield errors.unsupported(f"{here}.requests[{index}]", "a request that is not `exactly`")
            for selector in dig(request, "exactly", "selectors", default=()):
                try:
                    cel.check(selector["cel"]["expression"])
                except cel.Unsupported as problem:
                    where = f"{here}.requests[{index}].exactly.selectors"
                    yield errors.invalid_value(where, selector["cel"]["expression"], str(problem))
        for kind in ("constraints", "config"):
            for index, entry in enumerate(devices.get(kind, ())):
                for name in entry.get("requests", ()):
                    if name not in names:
                        message = "must be the name of a request in the claim"
                        yield errors.invalid_value(f"{here}.{kind}[{index}].requests", name, message)
        if old is not None and dig(obj, "spec") != dig(old, "spec"):
            yield errors.invalid_value("spec", "…", "field is immutable")

    return rule


def _quantities(obj: Json, old: Json | None) -> Iterator[Json]:
    for key, value in (dig(obj, "spec", "limits", default={})).items():
        try:
            quantity.parse(value)
        except ValueError as problem:
            yield errors.invalid_value(f"spec.limits.{key}", value, str(problem))


def _no_new_definitions(obj: Json, old: Json | None) -> Iterator[Json]:
    if name_of(obj).split(".", 1)[-1] not in ("karpenter.sh", "karpenter.k8s.aws"):
        yield errors.unsupported("metadata.name", "custom resources other than Karpenter's")


def _role_ref(obj: Json, old: Json | None) -> Iterator[Json]:
    if old is not None and obj["roleRef"] != old["roleRef"]:
        yield errors.invalid_value("roleRef", obj["roleRef"], "cannot change roleRef")


def _pod(obj: Json, old: Json | None) -> Iterator[Json]:
    yield from pod_rules.check(obj["spec"], "spec")
    if old is not None:
        yield from pod_rules.check_update(obj["spec"], old["spec"])


_RULES: dict[Resource, tuple[Rule, ...]] = {
    r.PODS: (_pod,),
    r.DEPLOYMENTS: (_immutable(("spec", "selector")), _template, _selects_its_template, _restart_always, _deployment),
    r.REPLICA_SETS: (_immutable(("spec", "selector")), _template, _selects_its_template, _restart_always),
    r.DAEMON_SETS: (_immutable(("spec", "selector")), _template, _selects_its_template, _restart_always),
    r.JOBS: (_immutable(("spec", "template"), ("spec", "selector"), ("spec", "completions")), _template, _job),
    r.SERVICES: (_immutable(("spec", "clusterIP")), _service),
    r.CONFIG_MAPS: (_data_size,),
    r.QUOTAS: (quotas.check_quota,),
    r.LIMIT_RANGES: (quotas.check_limits,),
    r.SECRETS: (_data_size, _immutable(("type",))),
    r.VOLUMES: (_volume,),
    r.VOLUME_CLAIMS: (_volume_claim,),
    r.CLAIMS: (_claim(("spec",)),),
    r.CLAIM_TEMPLATES: (_claim(("spec", "spec")),),
    r.ROLE_BINDINGS: (_role_ref,),
    r.CLUSTER_ROLE_BINDINGS: (_role_ref,),
    r.CRDS: (_no_new_definitions,),
    r.NODE_POOLS: (karpenter_rules.node_pool, _quantities),
    r.NODE_CLASSES: (karpenter_rules.node_class,),
    r.NODE_OVERLAYS: (karpenter_rules.node_overlay,),
}
