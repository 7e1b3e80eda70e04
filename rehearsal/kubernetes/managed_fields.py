"""Fields of an object as paths, and `metadata.managedFields`, which says who owns them.

A field is a path: a tuple of steps `("f", name)`, `("k", ((key, value), …))` for an item of a keyed list, or
`("v", value)` for an item of a set, as in the API's `fieldsV1`.
"""

import json
from dataclasses import dataclass
from typing import Any

from rehearsal.kubernetes import schema
from rehearsal.kubernetes.objects import Json

Step = tuple[str, Any]
Path = tuple[Step, ...]
ITSELF = (".", None)
_SYSTEM_METADATA = (
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink",
    "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Owner:
    """One entry of metadata.managedFields."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    paths: frozenset[Path]

    def same_as(self, other: "Owner") -> bool:
        mine = (self.manager, self.operation, self.api_version, self.subresource)
        return mine == (other.manager, other.operation, other.api_version, other.subresource)


def _list_keys(node: Json) -> list[str] | None:
    return node.get("x-kubernetes-list-map-keys") if node.get("x-kubernetes-list-type") == "map" else None


def paths_of(node: Json, value: Any, prefix: Path = ()) -> set[Path]:
    """Every leaf field of `value`."""
    declared = {**schema.resolve(node), **node}
    if isinstance(value, dict) and declared.get("x-kubernetes-map-type") != "atomic":
        found: set[Path] = set()
        for key, item in value.items():
            found |= paths_of(schema.child(node, key), item, (*prefix, ("f", key)))
        return found or {prefix}
    if isinstance(value, list):
        keys = _list_keys(declared)
        if keys:
            found = set()
            for item in value:
                here = (*prefix, ("k", _key_of(item, keys, schema.items(node))))
                found.add((*here, ITSELF))
                found |= paths_of(schema.items(node), item, here)
            return found or {prefix}
        if declared.get("x-kubernetes-list-type") == "set":
            return {(*prefix, ("v", item)) for item in value} or {prefix}
    return {prefix}


def _key_of(item: Json, keys: list[str], node: Json) -> tuple[tuple[str, Any], ...]:
    """A key that is left out has its default: that of its type, if the schema of 1.35 has no other."""
    return tuple((key, item.get(key, _default(key, schema.child(node, key)))) for key in sorted(keys))


def _default(key: str, node: Json) -> Any:
    return "TCP" if key == "protocol" else 0 if "integer" in node.get("type", "") else ""


def owned_part(obj: Json) -> Json:
    """`obj` without the fields that no manager owns."""
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _SYSTEM_METADATA}
    rest = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata")}
    return {**rest, "metadata": metadata} if metadata else rest


def value_at(value: Any, path: Path) -> Any:
    """The value of a path, or None."""
    for kind, step in path:
        if kind == "f":
            value = value.get(step) if isinstance(value, dict) else None
        elif kind == "k":
            value = next((i for i in value or () if isinstance(i, dict) and _has_key(i, step)), None)
        elif kind == "v":
            return step if isinstance(value, list) and step in value else None
        if value is None:
            return None
    return value


def _has_key(item: Json, step: tuple[tuple[str, Any], ...]) -> bool:
    return all(item.get(key, "TCP" if key == "protocol" else type(value)()) == value for key, value in step)


def remove_at(value: Any, path: Path) -> None:
    """Delete a path from `value`, in place. An item of a keyed list is deleted by its own `.` path, never by its
    keys.
    """
    *parents, (kind, step) = path
    if kind == ".":
        remove_at(value, tuple(parents))
        return
    parent = value_at(value, tuple(parents)) if parents else value
    if parents and parents[-1][0] == "k" and step in dict(parents[-1][1]):
        return
    if isinstance(parent, dict) and kind == "f":
        parent.pop(step, None)
    elif isinstance(parent, list):
        parent[:] = [i for i in parent if not (_has_key(i, step) if kind == "k" else i == step)]


def merge(node: Json, live: Any, applied: Any) -> Any:
    """`live` with `applied` merged into it: maps and keyed lists merge, sets unite, everything else is replaced.
    Null merges nothing into what would merge, and replaces the rest.
    """
    declared = {**schema.resolve(node), **node}
    is_map = isinstance(live, dict) and declared.get("x-kubernetes-map-type") != "atomic"
    if applied is None and (is_map or declared.get("x-kubernetes-list-type") in ("map", "set")):
        return live
    if isinstance(applied, dict) and is_map:
        merged = dict(live)
        for key, item in applied.items():
            merged[key] = merge(schema.child(node, key), live[key], item) if key in live else item
        return merged
    if isinstance(applied, list) and isinstance(live, list):
        keys = _list_keys(declared)
        if keys:
            result = list(live)
            for item in applied:
                step = _key_of(item, keys, schema.items(node))
                at = next((i for i, old in enumerate(result) if _has_key(old, step)), None)
                if at is None:
                    result.append(item)
                else:
                    result[at] = merge(schema.items(node), result[at], item)
            return result
        if declared.get("x-kubernetes-list-type") == "set":
            return [*live, *(item for item in applied if item not in live)]
    return applied


def read_owners(obj: Json) -> list[Owner]:
    return [
        Owner(
            manager=entry.get("manager", ""),
            operation=entry["operation"],
            api_version=entry.get("apiVersion", ""),
            subresource=entry.get("subresource", ""),
            time=entry.get("time", ""),
            paths=frozenset(_parse(entry.get("fieldsV1") or {})),
        )
        for entry in (obj.get("metadata") or {}).get("managedFields") or ()
    ]


def write_owners(owners: list[Owner]) -> list[Json]:
    entries = []
    for owner in owners:
        if not owner.paths:
            continue
        entry: Json = {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": owner.api_version,
            "time": owner.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _format(owner.paths),
        }
        entries.append({**entry, "subresource": owner.subresource} if owner.subresource else entry)
    return entries


def _parse(tree: Json, prefix: Path = ()) -> set[Path]:
    found: set[Path] = set()
    for label, below in tree.items():
        if label == ".":
            found.add((*prefix, ITSELF))
            continue
        kind, _, text = label.partition(":")
        step: Any = text
        if kind == "k":
            step = tuple(sorted(json.loads(text).items()))
        elif kind == "v":
            step = json.loads(text)
        found |= _parse(below, (*prefix, (kind, step))) if below else {(*prefix, (kind, step))}
    return found


def _format(paths: frozenset[Path]) -> Json:
    tree: Json = {}
    for path in sorted(paths, key=repr):
        node = tree
        for kind, step in path:
            if kind == "k":
                label = "k:" + json.dumps(dict(step), separators=(",", ":"))
            elif kind == "v":
                label = "v:" + json.dumps(step)
            else:
                label = "." if kind == "." else f"f:{step}"
            node = node.setdefault(label, {})
    return tree


def show(path: Path) -> str:
    """A path in the form of the conflict message: `.spec.replicas`."""
    text = ""
    for kind, step in path:
        if kind == "f":
            text += f".{step}"
        elif kind == "k":
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in step) + "]"
    return text


def without_itself(path: Path) -> Path:
    """The path of an item if `path` is the path of its `.`; else `path`."""
    return path[:-1] if path[-1:] == (ITSELF,) else path
