"""The rules of roles and bindings: kubernetes/kubernetes v1.35, pkg/apis/rbac/validation/validation.go."""

from collections.abc import Iterator

from rehearsal.kubernetes import errors, value_formats
from rehearsal.kubernetes.objects import Json

_SUBJECTS = ("ServiceAccount", "User", "Group")
"""In the order in which `ValidateRoleBindingSubject` names them."""
_GROUP = "rbac.authorization.k8s.io"


def namespaced_role(obj: Json, old: Json | None) -> Iterator[Json]:
    return _rules(obj, namespaced=True)


def cluster_role(obj: Json, old: Json | None) -> Iterator[Json]:
    return _rules(obj, namespaced=False)


def binding(obj: Json, old: Json | None) -> Iterator[Json]:
    return _binding(obj, old, ("Role", "ClusterRole"), namespaced=True)


def cluster_binding(obj: Json, old: Json | None) -> Iterator[Json]:
    return _binding(obj, old, ("ClusterRole",), namespaced=False)


def _rules(obj: Json, *, namespaced: bool) -> Iterator[Json]:
    for index, rule in enumerate(obj.get("rules") or ()):
        here = f"rules[{index}]"
        if rule.get("nonResourceURLs"):
            if namespaced:
                message = "namespaced rules cannot apply to non-resource URLs"
                yield errors.invalid_value(f"{here}.nonResourceURLs", rule["nonResourceURLs"], message)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                message = "rules cannot apply to both regular resources and non-resource URLs"
                yield errors.invalid_value(f"{here}.nonResourceURLs", rule["nonResourceURLs"], message)
            continue
        if not rule.get("apiGroups"):
            yield errors.required(f"{here}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield errors.required(f"{here}.resources", "resource rules must supply at least one resource")


def _binding(obj: Json, old: Json | None, kinds: tuple[str, ...], *, namespaced: bool) -> Iterator[Json]:
    if old is not None and obj["roleRef"] != old["roleRef"]:
        yield errors.invalid_value("roleRef", obj["roleRef"], "cannot change roleRef")
    if (kind := obj["roleRef"].get("kind", "")) not in kinds:
        yield _not_supported("roleRef.kind", kind, kinds)
    for index, subject in enumerate(obj.get("subjects") or ()):
        here, group = f"subjects[{index}]", subject.get("apiGroup", "")
        if not subject.get("name"):
            yield errors.required(f"{here}.name")
        if (kind := subject.get("kind", "")) not in _SUBJECTS:
            yield _not_supported(f"{here}.kind", kind, _SUBJECTS)
            continue
        if kind != "ServiceAccount":
            if group != _GROUP:
                yield _not_supported(f"{here}.apiGroup", group, (_GROUP,))
            continue
        if (name := subject.get("name")) and (said := value_formats.dns_subdomain(name)):
            yield errors.invalid_value(f"{here}.name", name, said)
        if group:
            yield _not_supported(f"{here}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield errors.required(f"{here}.namespace")


def _not_supported(field: str, value: str, choices: tuple[str, ...]) -> Json:
    listed = ", ".join(f'"{choice}"' for choice in choices)
    return errors.cause(field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}')
