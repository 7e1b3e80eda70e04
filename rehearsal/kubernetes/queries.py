"""Label and field selectors."""

import re
from collections.abc import Callable, Iterable, Mapping

from rehearsal.kubernetes import errors, value_formats
from rehearsal.kubernetes.objects import Json, dig, labels_of

Predicate = Callable[[Json], bool]
_SET = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s!=,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<not>!?)\s*(?P<key>[^\s!=,()]+)\s*$")


def _split(text: str) -> list[str]:
    """The parts between commas that are outside parentheses. Empty parts are left out."""
    return [part for part in _parts(text) if part.strip()]


def _parts(text: str) -> list[str]:
    return re.split(r",(?![^(]*\))", text)


def _readable(key: str, values: Iterable[str] = ()) -> None:
    """Raise 400 if no label can have this key or value."""
    said = [value_formats.qualified_name(key), *(value_formats.label_value(value) for value in values)]
    if any(said):
        raise errors.bad_request(f"unable to parse requirement: {key}: {next(filter(None, said))}")


def label_selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Predicate of labels for `a=b,c!=d,e in (f,g),!h`. Raises 400 if it cannot be read."""
    if text.count("(") != text.count(")") or (text.strip() and not all(part.strip() for part in _parts(text))):
        raise errors.bad_request(f"unable to parse requirement: found '{text}', expected: identifier")
    tests = [_label_test(part) for part in _split(text)]
    return lambda labels: all(test(labels) for test in tests)


def _label_test(part: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.match(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        _readable(key, values)
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(part):
        key, value = found["key"], found["value"]
        _readable(key, [value])
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(part):
        key, negated = found["key"], bool(found["not"])
        _readable(key)
        return lambda labels: (key in labels) != negated
    raise errors.bad_request(f'unable to parse requirement: "{part}"')


def matches(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector object selects these labels. None selects nothing, {} selects everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(requirement_holds(expr, labels) for expr in selector.get("matchExpressions") or ())


def requirement_holds(requirement: Json, labels: Mapping[str, str]) -> bool:
    """Whether one `{key, operator, values}` of a LabelSelector, a node selector term or a Karpenter requirement
    holds.
    """
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


_EVERY = ("metadata.name", "metadata.namespace")
_FIELDS = {
    "pods": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    "events": (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "source", "type",
    ),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "secrets": ("type",),
    "jobs": ("status.successful",),
    "replicasets": ("status.replicas",),
    "services": ("spec.clusterIP", "spec.type"),
    "resourceslices": ("spec.nodeName", "spec.driver"),
}  # fmt: skip
"""Fields for selectors besides name and namespace: AddFieldLabelConversionFunc in pkg/apis/*/v1/conversion.go."""


def field_selector(plural: str, text: str) -> Predicate:
    """Predicate of objects for `metadata.name=x,status.phase!=Running`. Raises 400 for unknown fields."""
    tests: list[tuple[list[str], str, bool]] = []
    for part in _split(text):
        found = _EQUAL.match(part)
        if not found:
            raise errors.bad_request(f'invalid selector: "{part}"; can\'t understand')
        if found["key"] not in (*_EVERY, *_FIELDS.get(plural, ())):
            raise errors.bad_request(f"field label not supported: {found['key']}")
        tests.append((found["key"].split("."), found["value"], found["op"] != "!="))
    return lambda obj: all((str(dig(obj, *path, default="")) == value) == equal for path, value, equal in tests)


def object_selector(plural: str, labels: str, fields: str) -> Predicate:
    """Both selectors of a list request as one predicate."""
    by_label, by_field = label_selector(labels), field_selector(plural, fields)
    return lambda obj: by_label(labels_of(obj)) and by_field(obj)


def continued(token: str) -> tuple[int, int] | None:
    """Resource version and position of the next page of a list. Raises 400 if the token is malformed."""
    if not token:
        return None
    version, dash, start = token.partition("-")
    if not (dash and version.isdecimal() and start.isdecimal()):
        raise errors.bad_request("continue key is not valid: invalid continue token")
    return int(version), int(start)


def number(query: Mapping[str, str], name: str) -> int | None:
    """A number in the query, or None. Raises 400 if the text is no number."""
    text = query.get(name, "")
    if not text:
        return None
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def flag(query: Mapping[str, str], name: str) -> bool:
    """A switch in the query. Any value but `false` and `0` means on."""
    return name in query and query[name].lower() not in ("false", "0")


def not_of_the_future(query: Mapping[str, str], current: int) -> None:
    """Raise 504 for a resource version of the future."""
    asked = number(query, "resourceVersion")
    if asked is not None and asked < 0:
        raise errors.bad_request(f'resourceVersion: Invalid value: "{asked}": strconv.ParseUint: invalid syntax')
    if asked is not None and asked > current:
        raise errors.too_large_version(asked, current)
