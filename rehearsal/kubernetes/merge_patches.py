"""Merges of a patch: JSON merge patch and strategic merge patch."""

from typing import Any

from rehearsal.kubernetes import errors, schema
from rehearsal.kubernetes.objects import Json


def json_merge(target: Any, patch: Any) -> Any:
    """RFC 7396: null deletes, maps merge, the rest replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = json_merge(merged.get(key), value)
    return merged


def strategic_merge(node: Json, target: Any, patch: Any) -> Any:
    """Kubernetes' own merge. Lists with a merge key merge by it. It knows `$patch`, `$setElementOrder/…`, `$retainKeys`
    and `$deleteFromPrimitiveList/…`.
    """
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    merged = dict(target) if isinstance(target, dict) else {}
    if "$retainKeys" in patch:
        merged = {key: value for key, value in merged.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key in ("$patch", "$retainKeys") or key.startswith("$setElementOrder/"):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.split("/", 1)[1]
            merged[field] = [item for item in merged.get(field, []) if item not in value]
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, list):
            order = patch.get(f"$setElementOrder/{key}")
            merged[key] = _merge_list(schema.child(node, key), merged.get(key) or [], value, order)
        else:
            merged[key] = strategic_merge(schema.child(node, key), merged.get(key), value)
    return merged


def _merge_list(node: Json, target: list[Any], patch: list[Any], order: list[Any] | None) -> list[Any]:
    declared = {**node, **schema.resolve(node)} if "$ref" in node else node
    if "merge" not in declared.get("x-kubernetes-patch-strategy", "").split(","):
        return patch
    key = declared.get("x-kubernetes-patch-merge-key")
    if key is None:
        merged = [*target, *(item for item in patch if item not in target)]
        return _ordered(merged, order, lambda item: item)
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    merged = list(target)
    for item in patch:
        if key not in item:
            raise errors.bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((i for i, old in enumerate(merged) if old.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            merged = [old for old in merged if old.get(key) != item[key]]
        elif at is None:
            merged.append(strategic_merge(schema.items(node), {}, item))
        else:
            merged[at] = strategic_merge(schema.items(node), merged[at], item)
    return _ordered(merged, [entry[key] for entry in order] if order else None, lambda item: item[key])


def _ordered(merged: list[Any], order: list[Any] | None, key: Any) -> list[Any]:
    if not order:
        return merged
    rank = {value: index for index, value in enumerate(order)}
    return sorted(merged, key=lambda item: rank.get(key(item), len(rank)))
