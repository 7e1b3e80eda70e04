"""What policies allow: IAM's decision for the elements that our statements have; anything else is an error.

The order of IAM's evaluation (docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html): a
Deny that matches wins, then an Allow that matches, else the call is refused. Boundaries, session policies and policies
of resources are not looked at.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

Statement = Mapping[str, Any]
Context = Mapping[str, str | tuple[str, ...]]
"""Condition key -> its value in the request; several values for a key such as aws:TagKeys."""

ELEMENTS = {"Sid", "Effect", "Action", "Resource", "Condition"}


class NotUnderstood(ValueError):
    """A statement has an element or an operator that is not evaluated here."""


def allows(statements: Iterable[Statement], *, action: str, resource: str, context: Context | None = None) -> bool:
    """Whether a request is allowed. Raises NotUnderstood rather than guess."""
    matching = {statement["Effect"] for statement in statements if _applies(statement, action, resource, context or {})}
    if not matching <= {"Allow", "Deny"}:
        raise NotUnderstood(f"Effect {matching}")
    return matching == {"Allow"}


def _applies(statement: Statement, action: str, resource: str, context: Context) -> bool:
    if unknown := statement.keys() - ELEMENTS:
        raise NotUnderstood(f"element {', '.join(sorted(unknown))}")
    return (
        any(_like(pattern.lower(), action.lower()) for pattern in _values(statement["Action"]))
        and any(_like(pattern, resource) for pattern in _values(statement["Resource"]))
        and all(
            _holds(operator, context.get(key), _values(expected))
            for operator, keys in statement.get("Condition", {}).items()
            for key, expected in keys.items()
        )
    )


def _holds(operator: str, actual: str | tuple[str, ...] | None, expected: list[str]) -> bool:
    """One key of one operator; a key that the request lacks fails it, but for `…IfExists` and `ForAllValues:`.

    `Null` asks for nothing but whether the request has the key.
    """
    if operator == "Null":
        return (actual is None) is (expected == ["true"])
    quantifier, _, name = operator.rpartition(":")
    optional = name.endswith("IfExists")
    compare = OPERATORS.get(name.removesuffix("IfExists"))
    if compare is None or quantifier not in ("", "ForAllValues"):
        raise NotUnderstood(f"operator {operator}")
    if actual is None:
        return optional or quantifier == "ForAllValues"
    values = (actual,) if isinstance(actual, str) else actual
    if not quantifier and len(values) != 1:
        raise NotUnderstood(f"operator {operator} on {len(values)} values")
    return all(any(compare(wanted, value) for wanted in expected) for value in values)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in text), re.DOTALL)


def _like(pattern: str, value: str) -> bool:
    return _pattern(pattern).fullmatch(value) is not None


OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda wanted, value: wanted == value,
    "StringLike": _like,
    "ArnEquals": _like,
}


def _values(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]
