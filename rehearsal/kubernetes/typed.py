"""The check of a server-side apply: is the body of its kind's schema?

The API server merges the body field by field (structured-merge-diff), so it must know each field. Then it converts the
result to its own type. A failure there is an error of the server: status 500 without a reason. Texts: as a real API
server 1.35 answered (docs/rehearsal/kubernetes.md).
"""

import json
from collections.abc import Iterator
from typing import Any

from rehearsal.kubernetes import errors, schema, schema_check, value_formats
from rehearsal.kubernetes.objects import Json, dig
from rehearsal.kubernetes.requests import Target

_NAMES = {"object": "map", "array": "list", "integer": "numeric (int or float)", "number": "numeric (int or float)"}


def check(target: Target, body: Json, *, is_new: bool) -> None:
    """Raise 500 for unknown fields, wrong types and duplicate keys of lists, all in one answer, or for the first value
    that cannot be read; 400 for an object without a name. An apply to a stored object may leave its name out.
    """
    node, resource = schema.schema_of(target.resource), target.resource
    found = list(_problems(node, body, ""))
    metadata = dig(body, "metadata", default={})
    named = metadata if isinstance(metadata, dict) else {}
    kind = f"{resource.api_version if resource.group else '/' + resource.version}, Kind={resource.kind}"
    where = f"({_text(named.get('namespace'))}/{_text(named.get('name'))}; {kind})"
    if found:
        told = found[0] if len(found) == 1 else "errors:\n" + "\n".join(f"  {problem}" for problem in found)
        raise errors.ApiError(500, "", f"failed to create typed patch object {where}: {told}")
    if not named.get("name") and (is_new or "name" in named):
        message = f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        raise errors.bad_request(message)
    if not str(named.get("resourceVersion", "0")).isdecimal():
        message = f'strconv.ParseUint: parsing "{named["resourceVersion"]}": invalid syntax'
        raise errors.ApiError(500, "", message)
    for said in _unreadable(node, body):
        message = f"failed to convert new object {where} to proper version: unable to convert unstructured object to "
        raise errors.ApiError(500, "", f"{message}{kind}: {said}")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _unreadable(node: Json, value: Any) -> Iterator[str]:
    """Malformed quantities, times and bytes, and ports that are too big. The API server cuts other numbers to the size
    of their type; the double refuses them later.
    """
    declared = {**schema.resolve(node), **node}
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _unreadable(schema.child(declared, key), item)
    elif isinstance(value, list):
        for item in value:
            yield from _unreadable(schema.items(declared), item)
    elif value is not None:
        form = declared.get("format", "")
        form = "int32" if form in ("port", "target-port") else "" if form in ("int32", "int64") else form
        if said := value_formats.malformed(form, value):
            yield said


def _problems(node: Json, value: Any, path: str) -> list[str]:
    if value is None:
        return []
    declared = {**schema.resolve(node), **node}
    if "oneOf" in declared or "anyOf" in declared:  # a quantity, or a number or a string
        return [] if not isinstance(value, dict | list) else [f"{path}: expected scalar, got {_shown(value, 'scalar')}"]
    if not schema_check.matches_type(declared, value):
        expected = _expected(declared)
        return [f"{path}: expected {expected}, got {_shown(value, expected)}"]
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
    kind = declared.get("x-kubernetes-list-type")
    keys = declared.get("x-kubernetes-list-map-keys") if kind == "map" else None
    seen = set()
    for index, item in enumerate(value):
        if kind in ("map", "set") and (said := _no_item(kind, item)):
            found.append(f"{path}: element {index}: associative list {said}")
            continue
        if kind == "set":
            if item in value[:index]:
                found.append(f"{path}: duplicate entries for key [={json.dumps(item)}]")
            found += _problems(items, item, f"{path}[={json.dumps(item)}]")
            continue
        here = f"{path}[{index}]"
        if keys and isinstance(item, dict):
            named = {key: item.get(key, "TCP" if key == "protocol" else None) for key in keys}
            here = f"{path}[{','.join(f'{key}={json.dumps(part)}' for key, part in named.items())}]"
            if here in seen:
                found.append(f"{path}: duplicate entries for key {here.removeprefix(path)}")
            seen.add(here)
        found += _problems(items, item, here)
    return found


def _no_item(kind: str, item: Any) -> str:
    if kind == "map":
        return "with keys may not have a null element" if item is None else ""
    what = {type(None): "explicit null", dict: "map type", list: "list type"}.get(type(item))
    return f"without keys has an element that's {'an' if item is None else 'a'} {what}" if what else ""


def _expected(declared: Json) -> str:
    names: list[str] = declared["type"] if isinstance(declared["type"], list) else [declared["type"]]
    return _NAMES.get(names[0]) or names[0]


def _shown(value: Any, expected: str) -> str:
    """A value of a wrong type in the server's words: the name of its type if a number belongs there, else Go's own
    notation.
    """
    if expected.startswith("numeric"):
        return {dict: "map", list: "list", str: "string", bool: "boolean"}.get(type(value), type(value).__name__)
    return f"&value.valueUnstructured{{Value:{json.dumps(value)}}}" if expected == "string" else f"&{{{value}}}"
