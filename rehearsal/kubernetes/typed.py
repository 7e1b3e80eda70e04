"""Whether the body of a server-side apply is of its kind's schema.

The API server merges it field by field (structured-merge-diff) and needs to know each; what it does not know is an
error of its own, not of the client's: status 500 without a reason (Kubernetes 1.35).
"""

import json
from typing import Any

from rehearsal.kubernetes import errors, schema
from rehearsal.kubernetes.objects import Json
from rehearsal.kubernetes.requests import Target

_NAMES = {"object": "map", "array": "list", "integer": "numeric (int or float)", "number": "numeric (int or float)"}


def check(target: Target, body: Json) -> None:
    """Raise 500 for unknown fields, wrong types and duplicate keys of lists, all in one answer."""
    found = list(_problems(schema.schema_of(target.resource), body, ""))
    if not found:
        return
    told = found[0] if len(found) == 1 else "errors:\n" + "\n".join(f"  {problem}" for problem in found)
    resource = target.resource
    where = f"{target.namespace}/{target.name}; {resource.api_version}, Kind={resource.kind}"
    raise errors.ApiError(500, "", f"failed to create typed patch object ({where}): {told}")


def _problems(node: Json, value: Any, path: str) -> list[str]:
    declared = {**schema.resolve(node), **node}
    if "oneOf" in declared or "anyOf" in declared:  # a quantity, or a number or a string
        return [] if not isinstance(value, dict | list) else [f"{path}: expected scalar, got {_shown(value)}"]
    if not schema.matches_type(declared, value):
        return [f"{path}: expected {_expected(declared)}, got {_shown(value)}"]
    if isinstance(value, dict):
        return _of_map(declared, value, path)
    return _of_list(node, declared, value, path) if isinstance(value, list) else []


def _of_map(declared: Json, value: Json, path: str) -> list[str]:
    properties, rest = declared.get("properties") or {}, declared.get("additionalProperties", True)
    found = []
    for key, item in value.items():
        below = properties.get(key, rest)
        if isinstance(below, dict):
            found += _problems(below, item, f"{path}.{key}")
        elif rest is False or (properties and not declared.get("x-kubernetes-preserve-unknown-fields")):
            found.append(f"{path}.{key}: field not declared in schema")
    return found


def _of_list(node: Json, declared: Json, value: list[Any], path: str) -> list[str]:
    items, found = schema.items(node), list[str]()
    keys = declared.get("x-kubernetes-list-map-keys") if declared.get("x-kubernetes-list-type") == "map" else None
    seen = set()
    for index, item in enumerate(value):
        here = f"{path}[{index}]"
        if keys and isinstance(item, dict):
            named = {key: item.get(key, "TCP" if key == "protocol" else None) for key in keys}
            here = f"{path}[{','.join(f'{key}={json.dumps(part)}' for key, part in named.items())}]"
            if here in seen:
                found.append(f"{path}: duplicate entries for key {here.removeprefix(path)}")
            seen.add(here)
        found += _problems(items, item, here)
    return found


def _expected(declared: Json) -> str:
    names = declared["type"] if isinstance(declared["type"], list) else [declared["type"]]
    return _NAMES.get(names[0], names[0])


def _shown(value: Any) -> str:
    return {dict: "map", list: "list", str: "string", bool: "boolean"}.get(type(value), type(value).__name__)
