"""What a real API server says of an object of Karpenter's: upstream's CRD, its CEL read by `cel-python`."""

import copy
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import celpy
import jsonschema
import yaml
from celpy import celtypes

Node = dict[str, Any]


def _find(text: celtypes.StringType, pattern: celtypes.StringType) -> celtypes.StringType:
    """`find` of Kubernetes' CEL libraries ("Kubernetes regex library"): the first match, or the empty string."""
    found = re.search(pattern, text)
    return celtypes.StringType(found.group() if found else "")


def _split(text: celtypes.StringType, at: celtypes.StringType) -> celtypes.ListType:
    """`split` of CEL's strings extension."""
    return celtypes.ListType([celtypes.StringType(part) for part in text.split(at)])


ENVIRONMENT = celpy.Environment()


@functools.cache
def _program(rule: str) -> celpy.Runner:
    """Core CEL with the two functions that Karpenter's rules use besides."""
    return ENVIRONMENT.program(ENVIRONMENT.compile(rule), functions={"find": _find, "split": _split})


def holds(rule: str, value: Any, old: Any = None) -> bool:
    """Whether a rule holds. An error in it refuses the object, as an API server does."""
    given = {"self": celpy.json_to_cel(value), "oldSelf": celpy.json_to_cel(old)}
    try:
        found = _program(rule).evaluate(given)
    except celpy.CELEvalError:
        return False
    return isinstance(found, celtypes.BoolType) and bool(found)


@dataclass
class Verdict:
    """Why an object is refused; empty where it is accepted."""

    structure: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    """The rules themselves, each as often as it is broken."""

    def __bool__(self) -> bool:
        """Whether the object is refused."""
        return bool(self.structure or self.rules)


class Crd:
    """One CustomResourceDefinition with one version."""

    def __init__(self, text: str) -> None:
        spec = yaml.safe_load(text)["spec"]
        (version,) = spec["versions"]
        self.kind: str = spec["names"]["kind"]
        self.api_version = f"{spec['group']}/{version['name']}"
        self.schema: Node = version["schema"]["openAPIV3Schema"]
        self._strict = jsonschema.Draft202012Validator(_strict(self.schema))

    def rules(self) -> set[str]:
        """Every rule that it has for `spec`."""
        return {rule for node in _nodes(self.schema["properties"]["spec"]) for rule in _own(node)}

    def verdict(self, obj: Node, old: Node | None = None) -> Verdict:
        """On a create, or on an update of `old`; unknown fields are refused, as strict validation does."""
        found = Verdict()
        obj = _filled(self.schema, obj)
        found.structure += [f"{error.json_path}: {error.message}" for error in self._strict.iter_errors(obj)]
        if not found.structure:
            before = _filled(self.schema, old) if old else None
            found.rules += _broken(self.schema["properties"]["spec"], obj["spec"], before and before["spec"])
        return found


def _own(node: Node) -> list[str]:
    return [item["rule"] for item in node.get("x-kubernetes-validations", ())]


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in (*(node.get("properties") or {}).values(), node.get("items"), node.get("additionalProperties")):
        if isinstance(child, dict):
            yield from _nodes(child)


def _broken(node: Node, value: Any, old: Any) -> Iterator[str]:
    for rule in _own(node):
        if ("oldSelf" not in rule or old is not None) and not holds(rule, value, old):
            yield rule
    if isinstance(value, dict):
        rest = node.get("additionalProperties")
        for key, item in value.items():
            child = (node.get("properties") or {}).get(key, rest)
            if isinstance(child, dict):
                yield from _broken(child, item, old.get(key) if isinstance(old, dict) else None)
    elif isinstance(value, list):
        for item in value:
            yield from _broken(node.get("items") or {}, item, None)


def _strict(node: Node) -> Node:
    """The schema with every object closed that names its fields."""
    closed = copy.deepcopy(node)
    for part in _nodes(closed):
        if part.get("properties") and "additionalProperties" not in part:
            part["additionalProperties"] = bool(part.get("x-kubernetes-preserve-unknown-fields"))
    return closed


def _filled(node: Node, value: Any) -> Any:
    """With the schema's defaults, which an API server sets before it validates."""
    if isinstance(value, list):
        return [_filled(node.get("items") or {}, item) for item in value]
    if not isinstance(value, dict):
        return value
    properties = node.get("properties") or {}
    filled = {key: _filled(properties.get(key) or {}, item) for key, item in value.items()}
    for key, child in properties.items():
        if key not in filled and "default" in child:
            filled[key] = _filled(child, copy.deepcopy(child["default"]))
    return filled
