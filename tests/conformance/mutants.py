"""Mutants of the seeds: one wrong (or odd) thing each, drawn the same way every time, with what Kubernetes answers."""

import copy
import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SEED = 14
_FOLDER = Path(__file__).parent
_FREE = {
    "labels", "annotations", "matchLabels", "nodeSelector", "data", "binaryData", "stringData", "hard", "capacity",
    "volumeAttributes", "parameters", "default", "defaultRequest", "limits", "requests",
}  # fmt: skip
"""Maps that take every key: no place for an unknown field."""
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One object to be sent, and the status that Kubernetes and the double answer with."""

    name: str
    body: Json
    namespace: str
    kubernetes: int
    double: int


@functools.cache
def seeds() -> dict[str, Json]:
    found: dict[str, Json] = yaml.safe_load((_FOLDER / "seeds.yaml").read_text())
    return found


@functools.cache
def classes() -> list[Json]:
    found: list[Json] = yaml.safe_load((_FOLDER / "mutants.yaml").read_text())
    return found


def mutants(only: str = "") -> Iterator[Mutant]:
    """Those of one class, or all of them in the order of the list."""
    for kind in (kind for kind in classes() if not only or kind["class"] == only):
        for name, body in _of_class(kind):
            yield Mutant(
                name=f"{kind['class']}: {name}",
                body=body,
                namespace=kind.get("namespace", "open"),
                kubernetes=kind["kubernetes"],
                double=kind.get("double", kind["kubernetes"]),
            )


def _of_class(kind: Json) -> Iterator[tuple[str, Json]]:
    if "everywhere" in kind:
        for seed, body in seeds().items():
            for path, value in _places(body, ()):
                if (changed := _spoiled(kind["everywhere"], path, value, seed)) is not None:
                    yield _mutant(seed, path, changed)
        return
    for seed, paths in kind["at"].items():
        for path in map(_steps, paths):
            old = _at(seeds()[seed], path)
            if "drop" in kind:
                yield _mutant(seed, path, None)
            elif "twice" in kind:
                yield _mutant(seed, path, [*old, old[0]])
            for value in kind.get("values", ()):
                yield _mutant(seed, path, _drawn(value, f"{kind['class']} {seed} {path}"))
            for more in kind.get("extra", ()):
                yield _mutant(seed, path, {**(old or {}), **more})


def _steps(path: str) -> tuple[str | int, ...]:
    """`spec.ports.0.name` as steps; a key with dots of its own (`example.com/pool`) is the rest of the path."""
    head, dot, key = path.partition(".example.com/")
    steps: list[str | int] = [int(step) if step.isdecimal() else step for step in head.split(".")]
    if "/" in head:  # count/jobs.batch
        return (*(s for s in head.split(".")[:2]), ".".join(head.split(".")[2:]))
    return (*steps, f"example.com/{key}") if dot else tuple(steps)


def _at(body: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        body = body.get(step) if isinstance(body, dict) else body[step]
    return body


def _drawn(value: Any, salt: str) -> Any:
    draw = random.Random(f"{SEED} {salt} {value}")
    match value:
        case {"below": limit}:
            return limit - draw.randint(1, 10**6)
        case {"above": limit}:
            return limit + draw.randint(1, 10**6)
        case {"letters": count}:
            return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=count))
    return value


def _places(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    yield path, value
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        if key not in ("apiVersion", "kind", "parameters") or len(path) > 1:
            yield from _places(item, (*path, key))


def _spoiled(how: str, path: tuple[str | int, ...], value: Any, seed: str) -> Any:
    if "parameters" in path or not path:
        return None
    if how == "type":
        return {"not": "this"} if not isinstance(value, dict | list) else "text"
    last = path[-1]
    free = (last in _FREE or (seed, last) == ("Service", "selector")) and isinstance(value, dict)
    return {**value, "frobnicate": 1} if isinstance(value, dict) and not free else None


def _mutant(seed: str, path: tuple[str | int, ...], value: Any) -> tuple[str, Json]:
    body = copy.deepcopy(seeds()[seed])
    parent = body
    for step in path[:-1]:
        parent = parent.setdefault(step, {}) if isinstance(parent, dict) else parent[step]
    if value is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    shown = str(value)
    where = ".".join(map(str, path))
    return f"{seed} {where} = {shown if len(shown) < 60 else shown[:57] + '...'}", body
