"""Types and small helpers for every part."""

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]


def now() -> str:
    """The time as Kubernetes writes it: RFC 3339, UTC, whole seconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> float:
    """Seconds since the epoch of a Kubernetes timestamp."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def dig(obj: Any, *path: str | int, default: Any = None) -> Any:
    """The value at `path` of nested maps and lists; `default` if a step is missing or null."""
    for step in path:
        if isinstance(obj, Mapping):
            obj = obj.get(step)
        elif isinstance(obj, list) and isinstance(step, int) and step < len(obj):
            obj = obj[step]
        else:
            return default
        if obj is None:
            return default
    return obj


def name_of(obj: Json) -> str:
    return str(obj["metadata"]["name"])


def namespace_of(obj: Json) -> str:
    return str(obj["metadata"].get("namespace", ""))


def uid_of(obj: Json) -> str:
    return str(obj["metadata"]["uid"])


def labels_of(obj: Json) -> dict[str, str]:
    return dict(obj["metadata"].get("labels") or {})


def annotations_of(obj: Json) -> dict[str, str]:
    return dict(obj["metadata"].get("annotations") or {})


def terminating(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def owner_reference(owner: Json, *, controller: bool = True) -> Json:
    """An ownerReference to `owner`, as a controller writes it into the objects that it creates."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": controller,
        "blockOwnerDeletion": True,
    }


def controlled_by(obj: Json, owner: Json) -> bool:
    return any(
        ref["uid"] == uid_of(owner) and ref.get("controller") for ref in obj["metadata"].get("ownerReferences") or ()
    )


def set_condition(conditions: list[Json], kind: str, status: str, *, reason: str = "", message: str = "") -> list[Json]:
    """`conditions` with that of type `kind` set. Its transition time changes only if its status changes."""
    old = next((c for c in conditions if c["type"] == kind), None)
    since = old["lastTransitionTime"] if old and old["status"] == status and "lastTransitionTime" in old else now()
    new: Json = {"type": kind, "status": status, "lastTransitionTime": since}
    if reason:
        new["reason"] = reason
    if message:
        new["message"] = message
    if old is None:
        return [*conditions, new]
    return [new if c is old else c for c in conditions]


def condition(obj: Json, kind: str) -> Json | None:
    conditions: Iterable[Json] = dig(obj, "status", "conditions", default=())
    return next((c for c in conditions if c["type"] == kind), None)


def is_true(obj: Json, kind: str) -> bool:
    found = condition(obj, kind)
    return found is not None and found["status"] == "True"
