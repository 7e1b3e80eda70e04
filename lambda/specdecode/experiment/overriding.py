"""One document laid over another, and single values set by their dotted paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]
OF_ONE_MODEL = ("revision", "size_gib", "import_prefix", "family")
"""Fields that belong to one model: a model with another `id` does not inherit them."""


def merge(base: Any, change: Any) -> Any:
    """`change` over `base`: mappings merge key by key, everything else (lists too) is replaced.

    A model with another id does not inherit the fields in OF_ONE_MODEL.
    """
    if isinstance(base, dict) and isinstance(change, dict):
        if "id" in base and "id" in change and base["id"] != change["id"]:
            base = {key: value for key, value in base.items() if key not in OF_ONE_MODEL}
        return {**base, **{key: merge(base.get(key), value) for key, value in change.items()}}
    return change


def override(document: Document, changes: Mapping[str, Any]) -> tuple[Document, dict[str, str]]:
    """`document` with each dotted path of `changes` set, and why the others could not be.

    An item of a list is named by its `name` or its number.
    """
    failed: dict[str, str] = {}
    for path, value in sorted(changes.items(), key=lambda change: not change[0].endswith(".id")):
        try:
            document = _set(document, path.split("."), value)
        except LookupError as error:
            failed[path] = str(error.args[0])
    return document, failed


def fix_of(path: str, value: Any) -> str:
    """What to write in place of a path that leads nowhere."""
    field, _, key = path.rpartition(".")
    if field != "workload.requests":
        return "give a path that the document has"
    given = {"max": 50, "precision": 0.03} | {key: value}
    return f"write it whole: --set '{field}={{{', '.join(f'{name}: {each}' for name, each in given.items())}}}'"


def _set(node: Any, path: list[str], value: Any) -> Any:
    key, rest = path[0], path[1:]
    if isinstance(node, list):
        at, used = _item(node, path)
        rest = path[used:]
        return [*node[:at], _set(node[at], rest, value) if rest else value, *node[at + 1 :]]
    if node is None:
        node = {}
    if not isinstance(node, dict):
        raise LookupError(f"here stands {node!r}, which has no `{key}`")
    if not rest:
        return merge(node, {key: value}) if key == "id" else {**node, key: value}
    return {**node, key: _set(node.get(key), rest, value)}


def _item(items: list[Any], path: list[str]) -> tuple[int, int]:
    """Index of the item that the head of `path` names, and how many parts its name takes (names may hold dots)."""
    for used in range(len(path), 0, -1):
        name = ".".join(path[:used])
        for at, item in enumerate(items):
            if isinstance(item, dict) and item.get("name") == name:
                return at, used
    if path[0].isdecimal() and int(path[0]) < len(items):
        return int(path[0]), 1
    known = ", ".join(str(item["name"]) for item in items if isinstance(item, dict) and "name" in item)
    raise LookupError(f"no item is called `{path[0]}`" + (f"; there are {known}" if known else ""))
