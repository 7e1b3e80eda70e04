"""Draws the dashboard's body with the data that runs publish, as CloudWatch would: a picture to look at.

`python -m tests.constructs_lib.dashboard_picture docs/images/dashboard.png` renews the picture in the documentation.
With an experiment after it, the whole dashboard is drawn with that one chosen. Runs of three experiments are simulated;
operations are those of one day.
"""

from __future__ import annotations

import html
import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from specdecode.analysis import compare_measured, measure
from specdecode.analysis.datums import metric_data, request_data
from specdecode.experiment import Experiment, load
from specdecode.experiment.workload import Slo
from specdecode.measures.accounting import Accounting
from specdecode.measures.distribution import quantile
from specdecode.measures.publish import Datum
from specdecode.names import SAMPLE_PRESET
from specdecode.records import RequestRecord

from constructs_lib.observability.dashboard_body import CASE, EXPERIMENT, LOAD_CASE, body
from tests.specdecode.analysis.browser import Page, visit
from tests.specdecode.analysis.report_picture import IMAGES, stamp
from tests.specdecode.analysis.simulate import context, run
from tests.specdecode.analysis.simulate_load import Server, loads
from tests.specdecode.analysis.simulate_load import run as run_loads

SEARCH = re.compile(r"SEARCH\('\{(?P<schema>[^}]+)\} (?P<terms>.*)', '(?P<statistic>[^']+)'\)")
COLUMN, ROW = 58, 38
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")
SIX_LOADS = "six-loads"
ALARMS = ("NoHeartbeat", "NodeWithoutLease", "StuckRun", "RunFailed", "WatchdogProblems", "SpeedupRegression")
BUSY = range(60, 200)
"""Of the day's 288 periods of five minutes, those in which a run holds the node."""
OPERATED = {
    "Nodes": lambda at: at in range(58, 202),
    "RunsHolding": lambda at: at in BUSY,
    "RunsWaiting": lambda at: at in range(120, 200),
    "LeaseAge": lambda at: 300.0 * (at - 59) if at in BUSY else 0.0,
    "WatchdogHeartbeat": lambda at: 1,
    "ExecutionsStarted": lambda at: at in (60, 120),
    "ExecutionsSucceeded": lambda at: at == 200,
    "cluster_node_count": lambda at: 2 + (at in BUSY),
    "node_cpu_utilization": lambda at: 5 + at % 9,
    "node_memory_utilization": lambda at: 20 + at % 3,
    "namespace_number_of_running_pods": lambda at: 3 * (at in BUSY),
}
"""Plain metrics of a simulated day, by period. The others are 0."""
STEPS = """run | step | since
qwen3-32b-20261122-200503-9ced | Benchmark | 18:10
qwen3-32b-20261122-120103-b2f1 | ExecutionSucceeded | 14:02"""
Series = dict[str, list[tuple[float, list[float]]]]
"""Label -> time and values of each datum."""


def default_body() -> dict[str, Any]:
    """The body that is deployed."""
    return body(
        region="us-east-2",
        cluster_name="specdecode",
        state_machine_arn="arn:aws:states:us-east-2:111122223333:stateMachine:m",
        log_group="/pipeline",
        operations_namespace="SpecDecode/Operations",
        node_price=35.76,
        alarm_arns=[f"arn:aws:cloudwatch:us-east-2:111122223333:alarm:{name}" for name in ALARMS],
    )


def published(experiment: Experiment, *, seed: int = 1, hours: float = 0.0) -> list[Datum]:
    """All that one simulated run of the experiment sends to CloudWatch, `hours` later than the first."""
    given = {case.name: 0.9 if case.structured else 0.45 for case in experiment.workload.cases}
    return sent(experiment, run(experiment, seed=seed, acceptance=given), hours=hours)


def published_loads(labels: Sequence[str]) -> list[Datum]:
    """The same of a run at six loads, with an objective; `labels`: of its two types of prompts."""
    tested = loads((1, 2, 4, 8, 16, 32), slo=Slo(tpot_s=0.021, share=0.7), cases=2)
    pairs = zip(tested.workload.cases, labels, strict=True)
    cases = tuple(case.model_copy(update={"label": label}) for case, label in pairs)
    workload = tested.workload.model_copy(update={"cases": cases})
    tested = tested.model_copy(update={"workload": workload, "name": SIX_LOADS})
    arm = Server(base_s=0.026, per_sequence_s=0.0016, k=5, acceptance=0.55)
    return sent(tested, run_loads(tested, {"base": Server(), "sd": arm}, seed=3))


def neuron_cores() -> list[Datum]:
    """What the serving pods send beside the results."""
    shared = {"MetricName": "NeuronCoreUtilization", "Counts": [1.0]}
    return [
        {
            **shared,
            "Dimensions": [{"Name": "Variant", "Value": arm}],
            "Timestamp": 300.0 * at,
            "Values": [61.0 + at % 5],
        }
        for arm in ("base", "sd")
        for at in range(40)
    ]


def sent(experiment: Experiment, records: Iterable[RequestRecord], *, hours: float = 0.0) -> list[Datum]:
    """What a report of these records sends."""
    around = context()
    levels = measure(experiment=experiment, records=records, context=around)
    comparison = compare_measured(experiment=experiment, levels=levels, context=around)
    data = [*metric_data(comparison), *request_data(experiment, levels, Accounting("usage"))]
    return [{**datum, "Timestamp": 1_790_000_000.0 + hours * 3600} for datum in data]


def series(expression: str, label: str, data: Sequence[Datum]) -> tuple[Series, str]:
    """What a SEARCH finds, by label, and its statistic. Its terms match whole values, its schema all dimensions."""
    found = SEARCH.fullmatch(expression)
    if found is None:
        return {}, "Average"
    _, *dimensions = found["schema"].split(",")
    terms = dict(re.findall(r'(\w+)="([^"]*)"', found["terms"]))
    lines: Series = defaultdict(list)
    for datum in data:
        own = {item["Name"]: item["Value"] for item in datum["Dimensions"]}
        known = {"MetricName": datum["MetricName"], **own}
        if set(own) == set(dimensions) and all(known[key] == value for key, value in terms.items()):
            name = label
            for key, value in own.items():
                name = name.replace(f"${{PROP('Dim.{key}')}}", value)
            values = [v for v, n in zip(datum["Values"], datum["Counts"], strict=True) for _ in range(int(n))]
            lines[name].append((datum["Timestamp"], values))
    return dict(lines), found["statistic"]


def statistic(name: str, values: Sequence[float]) -> float:
    if name.startswith("p"):
        return quantile(sorted(values), int(name[1:]) / 100)
    return {"Average": sum(values) / len(values), "Minimum": min(values), "Maximum": max(values)}[name]


def shown(widget: Mapping[str, Any], data: Sequence[Datum]) -> dict[str, list[tuple[float, float]]]:
    """What a metric widget shows: label -> (time, value); of bars one value over the whole range."""
    properties = widget["properties"]
    found: dict[str, list[tuple[float, float]]] = {}
    for metric in properties["metrics"]:
        given = metric[-1] if isinstance(metric[-1], dict) else {}
        if "expression" not in given:
            if given.get("visible", True):
                found[given["label"]] = operated(metric[1])
            continue
        if not given["expression"].startswith("SEARCH"):
            found[given["label"]] = computed(given["expression"])
            continue
        lines, name = series(given["expression"], given["label"], data)
        for label, points in lines.items():
            if properties["view"] == "bar":
                found[label] = [(0.0, statistic(name, [v for _, values in points for v in values]))]
            else:
                buckets: dict[float, list[float]] = defaultdict(list)
                for at, values in points:
                    buckets[at // properties["period"]] += values
                found[label] = [(at, statistic(name, values)) for at, values in sorted(buckets.items())]
    return found


def operated(metric: str) -> list[tuple[float, float]]:
    """A plain metric over the simulated day."""
    of = OPERATED.get(metric, lambda at: 0)
    return [(float(at), float(of(at))) for at in range(288)]


def computed(expression: str) -> list[tuple[float, float]]:
    """The expressions of the widgets "Longest hold" and "Since the start", at the day's last period."""
    if expression == "lease / 3600":
        return [(287.0, operated("LeaseAge")[190][1] / 3600)]
    hours = sum(value for _, value in operated("Nodes")) * 300 / 3600
    return [(287.0, hours * float(expression.partition(" 3600)")[2].partition("* ")[2] or 1))]


def picture(dashboard: Mapping[str, Any], data: Sequence[Datum], *, case: str, experiment: str) -> str:
    """The dashboard as HTML, with `case` and `experiment` chosen."""
    text = json.dumps(dashboard["widgets"]).replace(EXPERIMENT, experiment)
    widgets = json.loads(text.replace(CASE, case).replace(LOAD_CASE, case))
    parts = []
    for widget in widgets:
        place = (
            f"left:{widget['x'] * COLUMN}px;top:{widget['y'] * ROW}px;width:{widget['width'] * COLUMN - 8}px;"
            f"height:{widget['height'] * ROW - 8}px"
        )
        parts.append(f'<div class="w" style="{place}">{"".join(_content(widget, data))}</div>')
    height = max(widget["y"] + widget["height"] for widget in widgets) * ROW
    style = (
        "body{margin:8px;font:12px sans-serif;background:#f2f3f3;position:relative} b,pre{font-size:12px} "
        "::-webkit-scrollbar{display:none} "
        ".w{position:absolute;background:#fff;border:1px solid #ddd;overflow:hidden;padding:2px 6px} "
        "pre{margin:0;font:12px sans-serif;white-space:pre-wrap} svg{display:block}"
    )
    size = f"height:{height}px;width:{24 * COLUMN}px"
    return f'<!doctype html><style>{style}</style><body style="{size}">{"".join(parts)}'


def _content(widget: Mapping[str, Any], data: Sequence[Datum]) -> Iterator[str]:
    properties = widget["properties"]
    if widget["type"] == "text":
        yield f"<pre>{html.escape(properties['markdown'])}</pre>"
        return
    yield f"<b>{html.escape(properties['title'])}</b>"
    if widget["type"] != "metric":
        yield f"<pre>{STEPS if widget['type'] == 'log' else '   '.join(ALARMS)}</pre>"
        return
    found = shown(widget, data)
    width, height = widget["width"] * COLUMN - 26, widget["height"] * ROW - 36
    draw = {"bar": _bars, "singleValue": _numbers}.get(properties["view"], _lines)
    if found:
        yield f'<svg width="{width}" height="{height}">{"".join(draw(found, width, height))}</svg>'
    else:
        yield "<pre>(no data of a benchmark)</pre>"


def _numbers(found: Mapping[str, list[tuple[float, float]]], width: int, height: int) -> Iterator[str]:
    for number, (label, points) in enumerate(found.items()):
        x = number * width / len(found)
        value = points[-1][1] if len(points) == 1 else points[190][1]
        yield f'<text x="{x}" y="{height * 0.5}" font-size="26">{value:,.4g}</text>'
        yield f'<text x="{x}" y="{height * 0.8}" font-size="12">{html.escape(label)}</text>'


def _bars(found: Mapping[str, list[tuple[float, float]]], width: int, height: int) -> Iterator[str]:
    most = max(points[0][1] for points in found.values()) or 1.0
    room = min(34.0, height / len(found))
    size = min(11.0, room - 1)
    names = min(width * 0.74, 8 + 5.9 * max(map(len, found)))
    for number, (label, points) in enumerate(sorted(found.items())):
        y, value = number * room, points[0][1]
        long = (width - names - 60) * value / most
        colour = COLOURS[sorted({name.split()[-1] for name in found}).index(label.split()[-1]) % len(COLOURS)]
        text = html.escape(label[-int(names / 5.9) :])
        yield f'<text x="0" y="{y + room * 0.65}" font-size="{size}">{text}</text>'
        yield f'<rect x="{names}" y="{y + room * 0.15}" width="{long}" height="{room * 0.7}" fill="{colour}"/>'
        yield f'<text x="{names + long + 4}" y="{y + room * 0.65}" font-size="{size}">{value:.4g}</text>'


def _lines(found: Mapping[str, list[tuple[float, float]]], width: int, height: int) -> Iterator[str]:
    times = [at for points in found.values() for at, _ in points]
    most = max(value for points in found.values() for _, value in points) or 1.0
    first, span = min(times), (max(times) - min(times)) or 1.0
    for number, (label, points) in enumerate(sorted(found.items())):
        colour = COLOURS[number % len(COLOURS)]
        places = [
            (30 + (at - first) / span * (width - 60), (height - 24) * (1 - value / most) + 6) for at, value in points
        ]
        yield f'<polyline fill="none" stroke="{colour}" points="{" ".join(f"{x},{y}" for x, y in places)}"/>'
        yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places)
        if len(found) <= 6:
            room = 5.9 * sum(len(each) + 2 for each in found)
            x = 5.9 * sum(len(each) + 2 for each in sorted(found)[:number]) * min(1.0, width / room)
            size = 11 * min(1.0, width / room)
            yield f'<text x="{x}" y="{height - 2}" fill="{colour}" font-size="{size}">{html.escape(label)}</text>'


def screenshot(markup: str, target: Path, *, rows: int | None = None) -> None:
    """The picture as PNG, of the first `rows` rows or of all. Raises RuntimeError without a Chromium."""

    async def steps(page: Page) -> None:
        await page.open(source, width=24 * COLUMN + 16, height=(rows or 24) * ROW)
        await page.screenshot(target, whole=rows is None)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source = Path(folder) / "dashboard.html"
        source.write_text(markup, encoding="utf-8")
        visit(Path(folder) / "profile", steps)


def main() -> None:
    """Three runs of the sample, one of an experiment with other prompts, one at six loads."""
    target, chosen = Path(sys.argv[1]), (sys.argv[2:] or [SAMPLE_PRESET])[0]
    sample = load(SAMPLE_PRESET)
    data = [datum for each in range(3) for datum in published(sample, seed=each + 1, hours=24.0 * each)]
    labels = [case.label for case in sample.workload.cases[:2]]
    data += [*published(load("gpt-oss-120b-eagle3"), hours=30.0), *published_loads(labels), *neuron_cores()]
    markup = picture(default_body(), data, case=labels[0], experiment=chosen)
    screenshot(markup, target, rows=None if sys.argv[2:] else 57)
    if target.resolve().parent == IMAGES:
        stamp([target])


if __name__ == "__main__":
    main()
