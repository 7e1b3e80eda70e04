"""The CEL of device selectors. `cel-python` reads it (ADR 197); Kubernetes' own functions of versions stand here."""

import functools
import re
from collections.abc import Iterator
from typing import Any

import celpy
from celpy.adapter import json_to_cel
from celpy.celparser import CELParseError
from celpy.celtypes import BoolType, IntType, MapType, StringType
from celpy.evaluation import CELEvalError

from rehearsal.kubernetes.objects import Json

FIELDS = {"driver", "attributes"}
"""What the double knows of a device."""


class Unsupported(Exception):
    """The expression is no CEL, or needs a name that the double does not have."""


class Semver(tuple[int, ...]):
    """A version, compared by its numbers."""


def _semver(text: object) -> Semver:
    return Semver(int(part) for part in re.findall(r"\d+", str(text).split("-")[0])[:4])


def _compared(left: object, right: object) -> IntType:
    if not (isinstance(left, Semver) and isinstance(right, Semver)):
        raise TypeError("only versions are compared so")
    return IntType((left > right) - (left < right))


FUNCTIONS: dict[str, Any] = {
    "semver": _semver,
    "compareTo": _compared,
    "isLessThan": lambda left, right: BoolType(_compared(left, right) < 0),
    "isGreaterThan": lambda left, right: BoolType(_compared(left, right) > 0),
}
"""Kubernetes' CEL library of versions (k8s.io/apiserver/pkg/cel/library/semverlib.go)."""
METHODS = {*FUNCTIONS, "startsWith", "endsWith", "contains", "matches", "size"} - {"semver"}
_ENVIRONMENT = celpy.Environment()


def check(expression: str) -> None:
    """Raise Unsupported if the expression cannot be evaluated here."""
    _program(expression)


def holds(expression: str, driver: str, attributes: Json) -> bool:
    """Whether a device satisfies a selector. CEL's runtime errors (a missing attribute, a wrong type) make it false."""
    domains: dict[str, MapType] = {}
    for name, typed in attributes.items():
        domain, _, short = name.rpartition("/")
        kind, value = next(iter(typed.items()))
        cel: Any = _semver(value) if kind == "version" else json_to_cel(value)
        domains.setdefault(domain or driver, MapType())[StringType(short)] = cel
    device = MapType({StringType("driver"): StringType(driver), StringType("attributes"): MapType(domains)})
    try:
        found = _program(expression).evaluate({"device": device})
    except CELEvalError:
        return False
    return isinstance(found, BoolType) and bool(found)


@functools.cache
def _program(expression: str) -> celpy.Runner:
    try:
        tree = _ENVIRONMENT.compile(expression)
    except CELParseError:
        raise Unsupported(f"CEL not supported by the rehearsal: {expression!r} is no CEL") from None
    if unknown := sorted(set(_unknown(tree))):
        raise Unsupported(f"CEL not supported by the rehearsal: {', '.join(unknown)} in {expression!r}")
    return _ENVIRONMENT.program(tree, functions=FUNCTIONS)


def _unknown(tree: Any) -> Iterator[str]:
    """Names that nothing here stands for. An API server refuses them before it looks at a device."""
    for part in tree.iter_subtrees():
        match part.data, part.children:
            case "ident", [name] if name != "device":
                yield str(name)
            case "ident_arg", [name, *_] if name != "semver":
                yield f"{name}()"
            case "member_dot_arg", [_, name, *_] if name not in METHODS:
                yield f".{name}()"
            case "member_dot", [of, name] if [*of.scan_values(bool)] == ["device"] and name not in FIELDS:
                yield f"device.{name}"
