"""Label and field selectors."""

import re
from collections.abc import Callable, Mapping

from rehearsal.kubernetes import errors
from rehearsal.kubernetes.objects import Json, dig, labels_of

Predicate = Callable[[Json], bool]
_SET = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s!=,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<not>!?)\s*(?P<key>[^\s!=,()]+)\s*$")


def _split(text: str) -> list[str]:
    """At the commas that are outside parentheses."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def label_selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Predicate of labels for `a=b,c!=d,e in (f,g),!h`. Raises 400 when it cannot be read."""
    tests = [_label_test(part) for part in _split(text)]
    return lambda labels: all(test(labels) for test in tests)


def _label_test(part: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.match(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(part):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(part):
        key, negated = found["key"], bool(found["not"])
        return lambda labels: (key in labels) != negated
    raise errors.bad_request(f'unable to parse requirement: "{part}"')


def matches(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """A LabelSelector object against labels; None selects nothing, {} everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(requirement_holds(expr, labels) for expr in selector.get("matchExpressions") or ())


def requirement_holds(requirement: Json, labels: Mapping[str, str]) -> bool:
    """One `{key, operator, values}` of a LabelSelector, a node selector term or a Karpenter requirement."""
    key, values = requirement["key"], requirement.get("values") or []
    present, actual = key in labels, labels.get(key)
    match requirement["operator"]:
        case "In":
            return actual in values
        case "NotIn":
            return actual not in values
        case "Exists":
            return present
        case "DoesNotExist":
            return not present
        case "Gt":
            return present and int(actual or 0) > int(values[0])
        case "Lt":
            return present and int(actual or 0) < int(values[0])
    return False


def field_selector(text: str) -> Predicate:
    """Predicate of objects for `metadata.name=x,status.phase!=Running`. Any scalar path can be asked for."""
    tests: list[tuple[list[str], str, bool]] = []
    for part in _split(text):
        found = _EQUAL.match(part)
        if not found:
            raise errors.bad_request(f'invalid selector: "{part}"; can\'t understand')
        tests.append((found["key"].split("."), found["value"], found["op"] != "!="))
    return lambda obj: all((str(dig(obj, *path, default="")) == value) == equal for path, value, equal in tests)


def object_selector(labels: str, fields: str) -> Predicate:
    """Both selectors of a list request as one predicate."""
    by_label, by_field = label_selector(labels), field_selector(fields)
    return lambda obj: by_label(labels_of(obj)) and by_field(obj)


def continued(token: str) -> tuple[int, int] | None:
    """Resource version and position of a list that goes on; raises 400 for a token that is none of ours."""
    if not token:
        return None
    version, dash, start = token.partition("-")
    if not (dash and version.isdecimal() and start.isdecimal()):
        raise errors.bad_request("continue key is not valid: invalid continue token")
    return int(version), int(start)
