"""What Jobs must keep to: kubernetes/kubernetes v1.35, pkg/apis/batch/validation/validation.go."""

from collections.abc import Iterator

from rehearsal.kubernetes import errors
from rehearsal.kubernetes.objects import Json, dig


def job(obj: Json, old: Json | None) -> Iterator[Json]:
    spec = obj["spec"]
    if dig(spec, "template", "spec", "restartPolicy") not in ("Never", "OnFailure"):
        message = 'Required value: valid values: "OnFailure", "Never"'
        yield errors.cause("spec.template.spec.restartPolicy", "FieldValueRequired", message)
    if "podFailurePolicy" in spec and dig(spec, "template", "spec", "restartPolicy") != "Never":
        message = 'Invalid value: only "Never" is supported when podFailurePolicy is specified'
        yield errors.cause("spec.template.spec.restartPolicy", "FieldValueInvalid", message)
    if "podFailurePolicy" in spec and spec["podReplacementPolicy"] != "Failed":
        message = f'Unsupported value: "{spec["podReplacementPolicy"]}": supported values: "Failed"'
        yield errors.cause("spec.podReplacementPolicy", "FieldValueNotSupported", message)
    for index, rule in enumerate(dig(spec, "podFailurePolicy", "rules", default=())):
        if codes := rule.get("onExitCodes"):
            here = f"spec.podFailurePolicy.rules[{index}].onExitCodes.values"
            yield from _exit_codes(codes["values"], codes["operator"], here)
    for field in ("successPolicy", "managedBy", "backoffLimitPerIndex", "maxFailedIndexes"):
        if field in spec:
            yield errors.unsupported(f"spec.{field}", f"Jobs with {field}")
    if spec.get("completionMode") == "Indexed":
        yield errors.unsupported("spec.completionMode", "indexed Jobs")


def _exit_codes(values: list[int], operator: str, path: str) -> Iterator[Json]:
    if not values:
        yield errors.invalid_value(path, "[]", "at least one value is required")
    if values != sorted(values):
        yield errors.invalid_value(path, str(values), "must be ordered")
    for index, value in enumerate(values):
        if value in values[:index]:
            yield errors.cause(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {value}")
        if value == 0 and operator == "In":
            yield errors.invalid_value(f"{path}[{index}]", value, "must not be 0 for the In operator")
