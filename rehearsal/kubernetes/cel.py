"""The part of CEL that device selectors use: comparisons of a device's attributes, `&&`, `||`, `!`, `in`, semver.

Anything else is refused by name (`Unsupported`). Why no library: ADR 197.
"""

import re
from typing import Any

from rehearsal.kubernetes.objects import Json

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+)|(?P<string>'[^']*'|\"[^\"]*\")|(?P<name>[A-Za-z_]\w*)|(?P<op>&&|\|\||==|!=|<=|>=|[<>!()\[\].,]))"
)
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "in")


class Unsupported(Exception):
    """The expression needs more than this evaluator knows."""


class Semver(tuple[int, ...]):
    """A version, compared by its numbers."""


def _semver(text: str) -> Semver:
    return Semver(int(part) for part in re.findall(r"\d+", text.split("-")[0])[:4])


def check(expression: str) -> None:
    """Raise Unsupported if the expression cannot be evaluated here."""
    _Parser(expression, None, {}).parse()


def holds(expression: str, driver: str, attributes: Json) -> bool:
    """Whether a device satisfies a selector. CEL's runtime errors (a missing attribute, a wrong type) make it false."""
    try:
        return _Parser(expression, driver, attributes).parse() is True
    except (KeyError, AttributeError, TypeError):
        return False


class _Parser:
    """Recursive descent that evaluates while it parses. With `driver` None it checks the grammar only."""

    def __init__(self, text: str, driver: str | None, attributes: Json) -> None:
        self._text, self._driver, self._attributes = text, driver, attributes
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if not found:
                raise Unsupported(f"CEL not supported by the rehearsal: {text[at:]!r} in {text!r}")
            self._tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        self._at = 0

    def parse(self) -> Any:
        value = self._or()
        if self._at < len(self._tokens):
            raise self._unsupported()
        return value

    def _unsupported(self) -> Unsupported:
        here = self._tokens[self._at][1] if self._at < len(self._tokens) else "its end"
        return Unsupported(f"CEL not supported by the rehearsal: at {here!r} in {self._text!r}")

    def _peek(self, *texts: str) -> bool:
        return (
            self._at < len(self._tokens)
            and self._tokens[self._at][1] in texts
            and self._tokens[self._at][0] != "string"
        )

    def _take(self, *texts: str) -> str:
        if texts and not self._peek(*texts):
            raise self._unsupported()
        if self._at >= len(self._tokens):
            raise self._unsupported()
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _or(self) -> Any:
        value = self._and()
        while self._peek("||"):
            self._take()
            right = self._and()
            value = value or right
        return value

    def _and(self) -> Any:
        value = self._comparison()
        while self._peek("&&"):
            self._take()
            right = self._comparison()
            value = value and right
        return value

    def _comparison(self) -> Any:
        left = self._unary()
        if not self._peek(*_COMPARISONS):
            return left
        op, right = self._take(), self._unary()
        if self._driver is None:
            return True
        match op:
            case "==":
                return left == right
            case "!=":
                return left != right
            case "in":
                return left in right
            case "<":
                return left < right
            case "<=":
                return left <= right
            case ">":
                return left > right
        return left >= right

    def _unary(self) -> Any:
        if self._peek("!"):
            self._take()
            return not self._unary()
        return self._postfix(self._primary())

    def _primary(self) -> Any:
        if self._at >= len(self._tokens):
            raise self._unsupported()
        kind, text = self._tokens[self._at]
        if text == "(" and kind == "op":
            self._take()
            value = self._or()
            self._take(")")
            return value
        if text == "[" and kind == "op":
            self._take()
            listed = []
            while not self._peek("]"):
                listed.append(self._or())
                if not self._peek("]"):
                    self._take(",")
            self._take("]")
            return listed
        self._take()
        if kind == "number":
            return int(text)
        if kind == "string":
            return text[1:-1]
        if text in ("true", "false"):
            return text == "true"
        if text == "semver":
            self._take("(")
            value = self._or()
            self._take(")")
            return _semver(str(value))
        if text == "device":
            return self._device()
        self._at -= 1
        raise self._unsupported()

    def _device(self) -> Any:
        self._take(".")
        part = self._take("driver", "attributes")
        if part == "driver":
            return self._driver or ""
        self._take("[")
        domain = str(self._primary())
        self._take("]")
        self._take(".")
        name = self._take()
        if self._driver is None:
            return ""
        key = name if domain == self._driver and name in self._attributes else f"{domain}/{name}"
        kind, value = next(iter(self._attributes[key].items()))
        return _semver(value) if kind == "version" else value

    def _postfix(self, value: Any) -> Any:
        while self._peek("."):
            self._take()
            method = self._take(
                "startsWith", "endsWith", "contains", "matches", "compareTo", "isLessThan", "isGreaterThan"
            )
            self._take("(")
            argument = self._or()
            self._take(")")
            value = True if self._driver is None else _call(method, value, argument)
        return value


def _call(method: str, value: Any, argument: Any) -> Any:
    match method:
        case "startsWith":
            return value.startswith(argument)
        case "endsWith":
            return value.endswith(argument)
        case "contains":
            return argument in value
        case "matches":
            return re.search(argument, value) is not None
        case "compareTo":
            return (value > argument) - (value < argument)
        case "isLessThan":
            return value < argument
    return value > argument
