"""Mutants of the seeds. Each has one wrong (or odd) field. They are the same every time."""

import copy
import functools
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rehearsal.kubernetes import schema

SEED = 14
_FOLDER = Path(__file__).parent
_FREE = {
    "labels", "annotations", "matchLabels", "nodeSelector", "data", "binaryData", "stringData", "hard", "capacity",
    "volumeAttributes", "parameters", "default", "defaultRequest", "limits", "requests",
}  # fmt: skip
"""Maps that accept every key, so no field in them is unknown."""
_TEXTS = [
    "Upper Case", "-dash", "dash-", "a/b", "a..b", "/abs", "../up", "x" * 64, "x" * 254, "é", "1", "true", " ", "a_b",
    "a:b", "example.com/a", "$(A)", "\n",
]  # fmt: skip
_NUMBERS = [-1, 0, 1, 1.5, "5", 65536, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**31) - 1]
_KEYS = ["a b", "/a", "Upper", "x" * 64, "example.com/", "a/b/c", "..", "é", "", "cpu", "requests.cpu"]
Json = dict[str, Any]
Path_ = tuple[str | int, ...]
Change = Callable[[Any], Any]
"""The new value, of the old one."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A seed with one change, to be sent to the namespace `open` or `restricted`."""

    seed: str
    name: str
    namespace: str
    path: Path_ = ()
    change: Change = copy.copy

    @property
    def body(self) -> Json:
        return self.of(seeds()[self.seed])

    def of(self, whole: Json) -> Json:
        """`whole`, which is the seed or what a server made of it, with the change."""
        body = copy.deepcopy(whole)
        parent = body
        for step in self.path[:-1]:
            parent = parent.setdefault(step, {}) if isinstance(parent, dict) else parent[step]
        if self.change is _gone:
            del parent[self.path[-1]]
        elif self.path:
            old = parent.get(self.path[-1]) if isinstance(parent, dict) else parent[self.path[-1]]
            parent[self.path[-1]] = self.change(old)
        return body


@functools.cache
def seeds() -> dict[str, Json]:
    found: dict[str, Json] = yaml.safe_load((_FOLDER / "seeds.yaml").read_text())
    return found


@functools.cache
def classes() -> dict[str, Json]:
    found: list[Json] = yaml.safe_load((_FOLDER / "mutants.yaml").read_text())
    return {kind["class"]: kind for kind in found}


def mutants(name: str) -> Iterator[Mutant]:
    """The mutants of one class, in the order of the seeds. Every name is there once."""
    kind, seen = classes()[name], set()
    for seed, path, change, shown in _everywhere(kind["everywhere"]) if "everywhere" in kind else _listed(kind):
        where = ".".join(map(str, path))
        called = f"{seed} {where}" + (f" = {_short(shown)}" if shown is not None else "")
        if called not in seen:
            seen.add(called)
            yield Mutant(seed=seed, name=called, namespace=kind.get("namespace", "open"), path=path, change=change)


def digest() -> str:
    """Hash of all mutants. Recorded answers with another hash are of other mutants."""
    text = json.dumps([(kind, m.name, m.body, m.namespace) for kind in classes() for m in mutants(kind)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _gone(_: Any) -> None:
    """The change that removes a field."""


def _always(value: Any) -> Change:
    return lambda _: copy.deepcopy(value)


def _listed(kind: Json) -> Iterator[tuple[str, Path_, Change, Any]]:
    for seed, paths in kind["at"].items():
        for text in paths:
            path = _steps(text)
            if "drop" in kind:
                yield seed, path, _gone, None
            elif "twice" in kind:
                yield seed, path, lambda old: [*old, old[0]], None
            for value in kind.get("values", ()):
                drawn = _drawn(value, f"{kind['class']} {seed} {path}")
                yield seed, path, _always(drawn), drawn
            for more in kind.get("extra", ()):
                yield seed, path, lambda old, more=more: {**(old or {}), **more}, more


def _everywhere(how: str) -> Iterator[tuple[str, Path_, Change, Any]]:
    for seed, body in seeds().items():
        for path, value, node in _places(body, (), schema.definitions()[_DEFINITIONS[body["kind"]]]):
            for change, shown in _spoiled(how, path, value, seed, node):
                yield seed, path, change, shown


def _spoiled(how: str, path: Path_, value: Any, seed: str, node: Json) -> Iterator[tuple[Change, Any]]:
    """The changes of `value`, and their names."""
    draw = random.Random(f"{SEED} {how} {seed} {path}")
    last = path[-1] if path else ""
    free = (last in _FREE or (seed, last) == ("Service", "selector")) and isinstance(value, dict)
    match how, value:
        case _ if "parameters" in path or not path:
            return
        case "unknown", dict() if not free:
            yield lambda old: {**old, "frobnicate": 1}, None
        case "type", _:
            yield _always({"not": "this"} if not isinstance(value, dict | list) else "text"), None
        case "drop", _ if isinstance(last, str):
            yield _gone, None
        case "null", _:
            yield _always(None), None
        case "empty", _:
            yield _always(type(value)()), None
        case "twice", list():
            yield lambda old: [*old, old[0]], None
        case "text", str():
            yield from ((_always(text), text) for text in draw.sample(_TEXTS, 2))
        case "number", int() if not isinstance(value, bool):
            yield from ((_always(number), number) for number in draw.sample(_NUMBERS, 3))
        case "flip", bool():
            yield from ((_always(other), other) for other in (not value, "true", 1))
        case "key", dict() if free:
            one = next(iter(value.values()))
            for key in draw.sample(_KEYS, 3):
                yield lambda old, key=key: {**old, key: one}, key
        case "field", dict() if not free:
            for field, below in schema.resolve(node).get("properties", {}).items():
                if field not in value and field not in ("status", "managedFields"):
                    made = _plausible(schema.resolve(below))
                    added = {field: made}
                    yield lambda old, added=added: {**old, **added}, f"{field}: {json.dumps(made)}"


def _plausible(node: Json) -> Any:
    """A first value for a field that the seed lacks."""
    kind = node.get("type")
    kinds = [kind] if isinstance(kind, str) else kind or ["string"]
    if "object" in kinds:
        return {}
    if "array" in kinds:
        return [_plausible(schema.resolve(node.get("items", {})))]
    if "integer" in kinds or "number" in kinds:
        return 1
    return True if "boolean" in kinds else "seed"


def _steps(path: str) -> Path_:
    """`spec.ports.0.name` as steps; a key with dots of its own (`example.com/pool`) is the rest of the path."""
    head, dot, key = path.partition(".example.com/")
    steps: list[str | int] = [int(step) if step.isdecimal() else step for step in head.split(".")]
    if "/" in head:  # count/jobs.batch
        return (*(s for s in head.split(".")[:2]), ".".join(head.split(".")[2:]))
    return (*steps, f"example.com/{key}") if dot else tuple(steps)


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


def _places(value: Any, path: Path_, node: Json) -> Iterator[tuple[Path_, Any, Json]]:
    yield path, value, node
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        if key not in ("apiVersion", "kind", "parameters") or len(path) > 1:
            below = schema.child(node, key) if isinstance(key, str) else schema.items(node)
            yield from _places(item, (*path, key), below)


def _short(value: Any) -> str:
    shown = value if isinstance(value, str) else json.dumps(value)
    shown = shown.replace("\n", "\\n")
    return shown if len(shown) < 60 else f"{shown[:48]}... {hashlib.sha256(shown.encode()).hexdigest()[:6]}"


_DEFINITIONS = {
    name.removeprefix("io.k8s.api.").rsplit(".", 1)[-1]: name
    for name in schema.definitions()
    if name.startswith(("io.k8s.api.", "io.k8s.apiextensions-apiserver."))
    and "beta" not in name
    and "alpha" not in name
}
