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
    pod = dig(spec, "template", "spec", default={})
    names = [container["name"] for kind in ("initContainers", "containers") for container in pod.get(kind, ())]
    for index, rule in enumerate(dig(spec, "podFailurePolicy", "rules", default=())):
        if bool(rule.get("onExitCodes")) == bool(rule.get("onPodConditions")):
            message = "specifying one of OnExitCodes and OnPodConditions is required, and not both"
            yield errors.invalid_value(f"spec.podFailurePolicy.rules[{index}]", "", message)
        if (name := dig(rule, "onExitCodes", "containerName")) is not None and name not in names:
            message = "must be one of the container or initContainer names in the pod template"
            yield errors.invalid_value(f"spec.podFailurePolicy.rules[{index}].onExitCodes.containerName", name, message)
        if codes := rule.get("onExitCodes"):
            here = f"spec.podFailurePolicy.rules[{index}].onExitCodes.values"
            yield from _exit_codes(codes["values"], codes["operator"], here)
    for field in ("successPolicy", "managedBy", "backoffLimitPerIndex", "maxFailedIndexes", "manualSelector"):
        if spec.get(field) is not None and spec[field] is not False:
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
