"""The rules of Jobs: kubernetes/kubernetes v1.35, pkg/apis/batch/validation/validation.go."""

from collections.abc import Iterator

from rehearsal.kubernetes import errors, value_formats
from rehearsal.kubernetes.objects import Json, dig, name_of

MOST_INDEXED_AT_ONCE = 100_000
"""`maxParallelismForIndexedJob`."""

IMMUTABLE = (
    "template",
    "selector",
    "completions",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
"""Fields of the spec that no update changes: `ValidateJobSpecUpdate`. (An indexed Job's completions and a suspended
Job's template may change there. The pipeline never does that.)
"""


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
    yield from _completion(obj)


def _completion(obj: Json) -> Iterator[Json]:
    spec = obj["spec"]
    if (mode := spec["completionMode"]) not in ("Indexed", "NonIndexed"):
        message = f'Unsupported value: "{mode}": supported values: "Indexed", "NonIndexed"'
        yield errors.cause("spec.completionMode", "FieldValueNotSupported", message)
    if mode != "Indexed":
        return
    if (completions := spec.get("completions")) is None:
        message = "when completion mode is Indexed"
        yield errors.cause("spec.completions", "FieldValueRequired", f"Required value: {message}")
    elif completions > 0 and value_formats.dns_label(hostname := f"{name_of(obj)}-{completions - 1}"):
        message = f"will not able to create pod with invalid DNS label: {hostname}"
        yield errors.invalid_value("metadata.name", name_of(obj), message)
    if spec["parallelism"] > MOST_INDEXED_AT_ONCE:
        message = f"must be less than or equal to {MOST_INDEXED_AT_ONCE} when completion mode is Indexed"
        yield errors.invalid_value("spec.parallelism", spec["parallelism"], message)


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
