"""What CloudWatch demands of a dashboard's body. It is checked at synth: no emulator and no `cdk synth` checks it.

Places are the canvas's: rows of equal widgets on 24 columns, which neither overlap nor leave the page.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

MAX_WIDGETS = 500
MAX_SEARCH = 1024
"""Characters (CloudWatch User Guide, "Search expression limits")."""
KINDS = {"metric", "text", "alarm", "log", "explorer", "custom"}
VIEWS = {"timeSeries", "singleValue", "gauge", "bar", "pie", "table"}
SEARCH = re.compile(
    r"^SEARCH\('\{[^{}',]+(,[^{}',]+)*\} [^']+', '(p\d{1,2}|Average|Minimum|Maximum|Sum|SampleCount)'\)$"
)

RELATIVE = re.compile(r"^-P(\d+[DWM]|T\d+[MH])$")
"""A start without an end: `-PT8H`, `-P3D`, `-P3M` (GraphWidgetProps.start of aws-cdk-lib)."""


def problems(body: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong with the body. Empty if CloudWatch would accept it."""
    widgets = body.get("widgets", [])
    found = [] if 0 < len(widgets) <= MAX_WIDGETS else [f"{len(widgets)} widgets; 1 to {MAX_WIDGETS} are allowed"]
    for number, widget in enumerate(widgets):
        found += [f"widget {number}: {problem}" for problem in _content(widget)]
    if not RELATIVE.match(body.get("start", "-P1D")):
        found.append(f"no relative start: {body['start']}")
    ids = [variable.get("id") for variable in body.get("variables", [])]
    if len(ids) != len(set(ids)):
        found.append("two variables have the same id")
    for variable in body.get("variables", []):
        found += [f"variable {variable.get('id')}: {problem}" for problem in _variable(variable)]
    return found


def _content(widget: Mapping[str, Any]) -> Iterator[str]:
    properties = widget.get("properties", {})
    if widget["type"] not in KINDS:
        yield f"no such type: {widget['type']}"
    elif widget["type"] == "text" and not properties.get("markdown"):
        yield "a text widget without markdown"
    elif widget["type"] == "alarm" and not 1 <= len(properties.get("alarms", ())) <= 100:
        yield "an alarm widget shows 1 to 100 alarms"
    elif widget["type"] == "log" and not (properties.get("region") and "SOURCE '" in properties.get("query", "")):
        yield "a log widget has a region, and a query that names its SOURCE"
    elif widget["type"] == "metric":
        yield from _metric(properties)


def _metric(properties: Mapping[str, Any]) -> Iterator[str]:
    if not properties.get("region"):
        yield "no region"
    if properties.get("view", "timeSeries") not in VIEWS:
        yield f"no such view: {properties['view']}"
    if properties.get("view") in {"bar", "pie"} and not properties.get("setPeriodToTimeRange"):
        yield "bars of the most recent period only are empty soon after a run: setPeriodToTimeRange"
    if not RELATIVE.match(properties.get("start", "-P1D")):
        yield f"no relative start: {properties['start']}"
    if not properties.get("metrics"):
        yield "no metrics"
    ids: list[str] = []
    for metric in properties.get("metrics", ()):
        if len(metric) == 1 and isinstance(metric[0], Mapping):
            expression = metric[0].get("expression", "")
            ids.append(metric[0].get("id", ""))
            if expression.startswith("SEARCH") and not SEARCH.match(expression):
                yield f"no valid SEARCH: {expression}"
            elif expression.startswith("SEARCH") and len(expression) > MAX_SEARCH:
                yield f"a SEARCH of {len(expression)} characters; {MAX_SEARCH} at most: {expression}"
            elif not expression:
                yield "an expression is missing"
        else:
            names = [part for part in metric if not isinstance(part, Mapping)]
            if len(names) < 2 or len(names) % 2:
                yield f"a metric is a namespace, a name and pairs of dimensions: {metric}"
    if len(ids) != len(set(ids)) or any(not re.match(r"^[a-z]\w*$", name) for name in ids):
        yield f"ids of expressions must be unique and start with a lower-case letter: {ids}"


def _variable(variable: Mapping[str, Any]) -> Iterator[str]:
    if variable.get("type") not in {"property", "pattern"}:
        yield "type is property or pattern"
    elif variable["type"] not in variable:
        yield f"what it replaces ({variable['type']}) is missing"
    if variable.get("inputType") not in {"input", "radio", "select"}:
        yield "inputType is input, radio or select"
    if ("search" in variable) != ("populateFrom" in variable) or ("search" in variable) == ("values" in variable):
        yield "values, or search with populateFrom"
