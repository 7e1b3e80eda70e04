"""Tolerations, node affinity and selectors: kubernetes/kubernetes v1.35, pkg/apis/core/validation/validation.go
(ValidateTolerations, ValidateNodeSelectorRequirement) and apimachinery's pkg/apis/meta/v1/validation.
"""

from collections.abc import Iterator

from rehearsal.kubernetes import errors, value_formats
from rehearsal.kubernetes.objects import Json, dig

_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"


def check(spec: Json, path: str) -> Iterator[Json]:
    """Problems of a pod spec's tolerations and affinity."""
    for index, toleration in enumerate(spec.get("tolerations", ())):
        yield from _toleration(toleration, f"{path}.tolerations[{index}]")
    required = dig(spec, "affinity", "nodeAffinity", _TERMS)
    if required is not None:
        here = f"{path}.affinity.nodeAffinity.{_TERMS}.nodeSelectorTerms"
        if not required.get("nodeSelectorTerms"):
            yield errors.required(here, "must have at least one node selector term")
        for index, term in enumerate(required.get("nodeSelectorTerms", ())):
            for nth, requirement in enumerate(term.get("matchExpressions", ())):
                yield from _requirement(requirement, f"{here}[{index}].matchExpressions[{nth}]")


def selector(value: Json | None, path: str) -> Iterator[Json]:
    """Problems of a LabelSelector that must select something."""
    if not dig(value, "matchLabels") and not dig(value, "matchExpressions"):
        yield errors.invalid_value(path, "{}", "empty selector is invalid")
    yield from requirements(value, path)


def requirements(value: Json | None, path: str) -> Iterator[Json]:
    """Problems of a LabelSelector's expressions."""
    for index, requirement in enumerate(dig(value, "matchExpressions", default=())):
        yield from _requirement(requirement, f"{path}.matchExpressions[{index}]")


def _toleration(toleration: Json, path: str) -> Iterator[Json]:
    operator, value = toleration.get("operator") or "Equal", toleration.get("value", "")
    if not toleration.get("key") and operator != "Exists":
        message = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield errors.invalid_value(f"{path}.operator", operator, message)
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        message = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield errors.invalid_value(f"{path}.effect", toleration.get("effect", ""), message)
    if operator == "Exists" and value:
        yield errors.invalid_value(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif said := value_formats.label_value(value):
        yield errors.invalid_value(f"{path}.operator", value, said)


def _requirement(requirement: Json, path: str) -> Iterator[Json]:
    operator, values = requirement.get("operator"), requirement.get("values") or []
    if operator in ("In", "NotIn") and not values:
        yield errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist") and values:
        yield errors.field_forbidden(
            f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        )
    elif operator in ("Gt", "Lt") and len(values) != 1:
        yield errors.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    for index, value in enumerate(values):
        if said := value_formats.label_value(value):
            yield errors.invalid_value(f"{path}.values[{index}]", value, said)
