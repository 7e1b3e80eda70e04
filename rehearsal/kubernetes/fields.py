"""Field ownership for server-side apply: which manager owns which field, conflicts, and what an apply removes.

A field is a path: a tuple of steps `("f", name)`, `("k", ((key, value), …))` for an item of a keyed list, or
`("v", value)` for an item of a set, as in the API's `fieldsV1`.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rehearsal.kubernetes import schema
from rehearsal.kubernetes.objects import Json, now

Step = tuple[str, Any]
Path = tuple[Step, ...]
_ITSELF = (".", None)
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
                found.add((*here, _ITSELF))
                found |= paths_of(schema.items(node), item, here)
            return found or {prefix}
        if declared.get("x-kubernetes-list-type") == "set":
            return {(*prefix, ("v", item)) for item in value} or {prefix}
    return {prefix}


def _key_of(item: Json, keys: list[str], node: Json) -> tuple[tuple[str, Any], ...]:
    defaults = {"protocol": "TCP"}
    return tuple((key, item.get(key, defaults.get(key))) for key in sorted(keys) if key in item or key in defaults)


def owned_part(obj: Json) -> Json:
    """`obj` without what no manager owns."""
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
    return all(item.get(key, "TCP" if key == "protocol" else None) == value for key, value in step)


def remove_at(value: Any, path: Path) -> None:
    """Delete a path from `value`, in place; an item of a keyed list goes when its own `.` path is removed."""
    *parents, (kind, step) = path
    if kind == ".":
        remove_at(value, tuple(parents))
        return
    parent = value_at(value, tuple(parents)) if parents else value
    if isinstance(parent, dict) and kind == "f":
        parent.pop(step, None)
    elif isinstance(parent, list):
        parent[:] = [i for i in parent if not (_has_key(i, step) if kind == "k" else i == step)]


def merge(node: Json, live: Any, applied: Any) -> Any:
    """`applied` laid over `live`: maps and keyed lists merge, sets unite, everything else is replaced."""
    declared = {**schema.resolve(node), **node}
    if isinstance(applied, dict) and isinstance(live, dict) and declared.get("x-kubernetes-map-type") != "atomic":
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
            found.add((*prefix, _ITSELF))
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


def record_update(node: Json, old: Json | None, new: Json, owner: Owner) -> list[Owner]:
    """Owners after a write that is no apply: the writer takes what it changed, what is gone is nobody's."""
    after = owned_part(new)
    present = paths_of(node, after) if after else set()
    before = owned_part(old) if old else {}
    changed = {path for path in present if value_at(before, _real(path)) != value_at(after, _real(path))}
    changed = {path for path in changed if path[-1] != _ITSELF or value_at(before, path[:-1]) is None}
    owners = [replace(o, paths=(o.paths & present) - changed) for o in (read_owners(old) if old else [])]
    return _add(owners, replace(owner, paths=frozenset(changed)), keep=True)


def _real(path: Path) -> Path:
    return path[:-1] if path[-1:] == (_ITSELF,) else path


def _add(owners: list[Owner], new: Owner, *, keep: bool) -> list[Owner]:
    same = next((o for o in owners if o.same_as(new)), None)
    if same is None:
        return [*owners, replace(new, time=now())] if new.paths else owners
    paths = same.paths | new.paths if keep else new.paths
    time = same.time if paths == same.paths else now()
    return [replace(o, paths=paths, time=time) if o is same else o for o in owners]


def apply(
    node: Json, live: Json, applied: Json, owner: Owner, *, complete: Callable[[Json], None], force: bool
) -> tuple[Json, list[tuple[str, Path]]]:
    """(the merged object with its managedFields, conflicts as (manager, path)). With `force` nothing conflicts.

    `complete` fills in defaults, so that a field that is only left to its default does not conflict with it.
    """
    wanted = owned_part(applied)
    paths = paths_of(node, wanted) if wanted else set()
    owners = read_owners(live)
    merged = copy.deepcopy(merge(node, live, wanted))
    complete(merged)
    conflicts = [
        (other.manager, path)
        for other in owners
        if not other.same_as(owner)
        for path in sorted(other.paths & paths, key=repr)
        if path[-1] != _ITSELF and value_at(live, path) != value_at(merged, path)
    ]
    if conflicts and not force:
        return live, conflicts
    taken = {path for _, path in conflicts}
    owners = [o if o.same_as(owner) else replace(o, paths=o.paths - taken) for o in owners]
    earlier = next((o.paths for o in owners if o.same_as(owner)), frozenset())
    others = {path for o in owners if not o.same_as(owner) for path in o.paths}
    for path in sorted(earlier - paths, key=len, reverse=True):
        kept = path in others or (path[-1] == _ITSELF and any(o[: len(path) - 1] == path[:-1] for o in others))
        if not kept:
            remove_at(merged, path)
    owners = _add(owners, replace(owner, paths=frozenset(paths)), keep=False)
    merged["metadata"] = {**merged["metadata"], "managedFields": write_owners(owners)}
    return merged, []


def show(path: Path) -> str:
    """A path as the conflict message writes it: `.spec.replicas`."""
    text = ""
    for kind, step in path:
        if kind == "f":
            text += f".{step}"
        elif kind == "k":
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in step) + "]"
    return text
