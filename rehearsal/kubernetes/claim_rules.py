"""The rules of claims for devices: kubernetes/kubernetes v1.35, pkg/apis/resource/validation/validation.go."""

from collections.abc import Callable, Iterator

from rehearsal.kubernetes import cel, errors
from rehearsal.kubernetes.objects import Json, dig


def claim(*path: str) -> Callable[[Json, Json | None], Iterator[Json]]:
    """The rule for a claim spec at `path`."""

    def rule(obj: Json, old: Json | None) -> Iterator[Json]:
        devices = dig(obj, *path, "devices", default={})
        here = ".".join((*path, "devices"))
        names = [request["name"] for request in devices.get("requests", ())]
        yield from duplicates(names, f"{here}.requests")
        for index, request in enumerate(devices.get("requests", ())):
            yield from _request(request, f"{here}.requests[{index}]")
        for kind in ("constraints", "config"):
            for index, entry in enumerate(devices.get(kind, ())):
                yield from _entry(entry, names, f"{here}.{kind}[{index}]")
        if old is not None and dig(obj, "spec") != dig(old, "spec"):
            yield errors.invalid_value("spec", "…", "field is immutable")

    return rule


def duplicates(names: list[str], path: str) -> Iterator[Json]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield errors.cause(path, "FieldValueDuplicate", f'Duplicate value: "{name}"')


def _request(request: Json, path: str) -> Iterator[Json]:
    if "exactly" not in request:
        yield errors.unsupported(path, "a request that is not `exactly`")
        return
    exactly = request["exactly"]
    if exactly.get("adminAccess"):
        message = "admin access to devices requires a namespace that is labelled for it"
        yield errors.field_forbidden(f"{path}.exactly.adminAccess", message)
    count = exactly.get("count", 0)
    if exactly["allocationMode"] == "All" and count:
        yield errors.invalid_value(f"{path}.exactly.count", count, 'must not be specified when allocationMode is "All"')
    if exactly["allocationMode"] == "ExactCount" and count <= 0:
        yield errors.invalid_value(f"{path}.exactly.count", count, "must be greater than zero")
    for selector in exactly.get("selectors", ()):
        try:
            cel.check(dig(selector, "cel", "expression", default=""))
        except cel.Unsupported as problem:
            expression = dig(selector, "cel", "expression", default="")
            yield errors.invalid_value(f"{path}.exactly.selectors", expression, str(problem))


def _entry(entry: Json, names: list[str], path: str) -> Iterator[Json]:
    yield from duplicates(entry.get("requests", []), f"{path}.requests")
    for name in entry.get("requests", ()):
        if name not in names:
            yield errors.invalid_value(f"{path}.requests", name, "must be the name of a request in the claim")
    if ".constraints[" in path and not entry.get("matchAttribute"):
        yield errors.required(f"{path}.matchAttribute")
    if ".config[" in path and "opaque" not in entry:
        yield errors.required(f"{path}.opaque")
