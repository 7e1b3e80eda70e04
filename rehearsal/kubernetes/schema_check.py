"""The check of an object against its schema: types, required fields, sizes, choices.

All problems of an object come in one answer. An unknown or mistyped field is a 400, a missing or impossible value a
422. Why no library walks: ADR 197.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from rehearsal.kubernetes import errors, quantity, value_formats
from rehearsal.kubernetes.objects import Json, dig
from rehearsal.kubernetes.resources import Resource
from rehearsal.kubernetes.schema import items, resolve, schema_of

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "null": lambda v: v is None,
}


def problems(resource: Resource, obj: Json) -> tuple[list[str], list[Json]]:
    """(unknown or mistyped fields, causes of a 422) of `obj`."""
    unknown: list[str] = []
    causes: list[Json] = []
    _walk(schema_of(resource), obj, "", unknown, causes)
    return unknown, causes


def check(resource: Resource, obj: Json) -> None:
    """Raise 400 for unknown or mistyped fields, 422 for missing or impossible values."""
    causes = check_types(resource, obj)
    if causes:
        raise errors.invalid(resource, dig(obj, "metadata", "name", default=""), causes)


def check_types(resource: Resource, obj: Json) -> list[Json]:
    """Raise 400 for unknown or mistyped fields; else return the causes of a 422. In kinds of a CRD a mistyped field is
    such a cause.
    """
    unknown, causes = problems(resource, obj)
    if resource.is_custom:
        mistyped = [said for said in unknown if not said.startswith("unknown field")]
        causes += [
            errors.cause(said.split('"')[1], "FieldValueTypeInvalid", f"Invalid value: {said}") for said in mistyped
        ]
        unknown = [said for said in unknown if said not in mistyped]
    if unknown:
        text = ", ".join(unknown)
        raise errors.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {text}"
        )
    return causes


def _walk(node: Json, value: Any, path: str, unknown: list[str], causes: list[Json]) -> None:
    node = {**resolve(node), **node}
    alternatives = node.get("oneOf") or node.get("anyOf")
    if alternatives:
        if not any(matches_type(resolve(a), value) for a in alternatives):
            unknown.append(f'field "{path}" has the wrong type ({_type_name(value)})')
            return
        if node.get("format") in ("port", "target-port") and (said := value_formats.malformed("int32", value)):
            unknown.append(f'field "{path}": {said}')
            return
    elif not matches_type(node, value):
        unknown.append(f'field "{path}" must be of type {_expected(node)}, not {_type_name(value)}')
        return
    if node.get("nonempty") and value in ("", []):
        causes.append(errors.required(path))
    elif isinstance(value, dict):
        _walk_map(node, value, path, unknown, causes)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _walk(items(node), item, f"{path}[{index}]", unknown, causes)
        _check_size(node, len(value), path, "Items", causes)
    elif said := value_formats.malformed(node.get("format", ""), value):
        unknown.append(f'field "{path}": {said}')
    else:
        _check_scalar(node, value, path, causes)


def _walk_map(node: Json, value: Json, path: str, unknown: list[str], causes: list[Json]) -> None:
    properties = node.get("properties") or {}
    rest = node.get("additionalProperties", True)
    form = dig(node, "propertyNames", "format", default="")
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        if said := value_formats.problem(form, key):
            causes.append(errors.invalid_value(path, key, said))
        if key in properties:
            _walk(properties[key], item, here, unknown, causes)
        elif isinstance(rest, dict):
            _walk(rest, item, here, unknown, causes)
        elif rest is False or (properties and not node.get("x-kubernetes-preserve-unknown-fields")):
            unknown.append(f'unknown field "{here}"')
    causes += [errors.required(f"{path}.{key}".lstrip(".")) for key in node.get("required", ()) if key not in value]
    _check_size(node, len(value), path, "Properties", causes)


def _check_size(node: Json, size: int, path: str, suffix: str, causes: list[Json]) -> None:
    if size > node.get(f"max{suffix}", size):
        causes.append(errors.invalid_value(path, size, f"must have at most {node[f'max{suffix}']} items"))
    if size < node.get(f"min{suffix}", size):
        causes.append(errors.invalid_value(path, size, f"should have at least {node[f'min{suffix}']} items"))


def _check_scalar(node: Json, value: Any, path: str, causes: list[Json]) -> None:
    if "enum" in node and value not in node["enum"]:
        supported = ", ".join(json.dumps(choice) for choice in node["enum"] if choice)
        message = f"Unsupported value: {json.dumps(value)}: supported values: {supported}"
        causes.append(errors.cause(path, "FieldValueNotSupported", message))
    if "pattern" in node and not re.search(node["pattern"], str(value)):
        causes.append(errors.invalid_value(path, value, f"should match '{node['pattern']}'"))
    form = node.get("format", "")
    if (value != "" or form == "port") and (said := value_formats.problem(form, value)):
        causes.append(errors.invalid_value(path, value, said))
    if isinstance(value, str):
        _check_size(node, len(value), path, "Length", causes)
    if isinstance(value, bool) or (isinstance(value, str) and node.get("format") != "quantity"):
        return
    amount = quantity.parse(value) if isinstance(value, str) else value
    if amount < node.get("minimum", amount):
        causes.append(errors.invalid_value(path, value, f"must be greater than or equal to {node['minimum']}"))
    if amount > node.get("maximum", amount):
        causes.append(errors.invalid_value(path, value, f"must be less than or equal to {node['maximum']}"))


def matches_type(node: Json, value: Any) -> bool:
    """Whether `value` is of the JSON type that `node` asks for, if it asks for one."""
    expected = node.get("type")
    names = [expected] if isinstance(expected, str) else (expected or [])
    return not names or any(_TYPES[name](value) for name in names)


def _expected(node: Json) -> str:
    names = node["type"]
    return names if isinstance(names, str) else " or ".join(n for n in names if n != "null")


def _type_name(value: Any) -> str:
    return next((name for name in _TYPES if _TYPES[name](value)), "unknown")
