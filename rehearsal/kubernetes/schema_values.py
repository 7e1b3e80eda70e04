"""Objects as the API server reads them by their schema: defaults, unknown fields dropped, nulls read as Go does."""

from collections.abc import Callable
from typing import Any

from rehearsal.kubernetes.objects import Json
from rehearsal.kubernetes.schema import child, items, resolve


def with_defaults(node: Json, value: Any) -> Any:
    """`value` with the schema's own `default`s filled in (CRDs; the built-in kinds' are in `defaults`)."""
    node = resolve(node)
    if isinstance(value, dict):
        filled = {key: with_defaults(child(node, key), item) for key, item in value.items()}
        for key, sub in (node.get("properties") or {}).items():
            if key not in filled and "default" in sub:
                filled[key] = with_defaults(sub, sub["default"])
        return filled
    if isinstance(value, list):
        return [with_defaults(items(node), item) for item in value]
    return value


def known_part(node: Json, value: Any, path: str = "") -> tuple[Any, list[str]]:
    """`value` without the fields that its schema does not know, and a message for each dropped field."""
    node = {**resolve(node), **node}
    dropped: list[str] = []
    if isinstance(value, list):
        parts = [known_part(items(node), item, f"{path}[{index}]") for index, item in enumerate(value)]
        return [part for part, _ in parts], [said for _, more in parts for said in more]
    if not isinstance(value, dict):
        return value, dropped
    properties, rest = node.get("properties") or {}, node.get("additionalProperties", True)
    kept: Json = {}
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        below = properties.get(key, rest)
        if isinstance(below, dict):
            kept[key], more = known_part(below, item, here)
            dropped += more
        elif rest is False or (properties and not node.get("x-kubernetes-preserve-unknown-fields")):
            dropped.append(f'unknown field "{here}"')
        else:
            kept[key] = item
    return kept, dropped


def without_nulls(node: Json, value: Any) -> Any:
    """`value` as Go reads it: a null field is absent, a null item of a list or of a free map is its type's zero."""
    node = {**resolve(node), **node}
    if isinstance(value, dict):
        known = node.get("properties") or {}
        return {
            key: _zero(child(node, key)) if item is None else without_nulls(child(node, key), item)
            for key, item in value.items()
            if item is not None or (key not in known and isinstance(node.get("additionalProperties"), dict))
        }
    if isinstance(value, list):
        below = items(node)
        return [_zero(below) if item is None else without_nulls(below, item) for item in value]
    return value


def _zero(node: Json) -> Any:
    node = {**resolve(node), **node}
    if node.get("format") == "quantity":
        return "0"
    kinds = node.get("type", "object")
    return _ZEROS.get(kinds if isinstance(kinds, str) else kinds[0], dict)()


_ZEROS: dict[str, Callable[[], Any]] = {"array": list, "string": str, "integer": int, "number": int, "boolean": bool}
