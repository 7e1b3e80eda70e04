"""Draws a dashboard's body with the data that a run published, as CloudWatch would: a picture to look at.

`python -m tests.constructs_lib.dashboard_picture docs/images/dashboard.png` renews the picture in the documentation.
"""

from __future__ import annotations

import html
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from specdecode.analysis import compare_measured, measure
from specdecode.analysis.datums import metric_data
from specdecode.experiment import Experiment, load
from specdecode.experiment.workload import Slo
from specdecode.measures.accounting import Accounting
from specdecode.measures.distribution import quantile
from specdecode.measures.publish import Datum, places
from specdecode.measures.publish import metric_data as request_data
from specdecode.names import SAMPLE_PRESET
from specdecode.records import RequestRecord

from constructs_lib.observability.dashboard_body import CASE, EXPERIMENT, body
from tests.specdecode.analysis.browser import Page, visit
from tests.specdecode.analysis.simulate import context, run
from tests.specdecode.analysis.simulate_load import Server, loads
from tests.specdecode.analysis.simulate_load import run as run_loads

SEARCH = re.compile(r"SEARCH\('\{(?P<schema>[^}]+)\} (?P<terms>.*)', '(?P<statistic>[^']+)'\)")
COLUMN, ROW = 58, 38
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")
SIX_LOADS = "six-loads"
Series = dict[str, list[tuple[float, list[float]]]]
"""Label -> time and values of each datum."""


def default_body(cases: Sequence[str] | None = None) -> dict[str, Any]:
    """The body that is deployed; `cases`: other labels than the default preset's."""
    return body(
        region="us-east-2",
        cluster_name="specdecode",
        state_machine_arn="arn:aws:states:us-east-2:111122223333:stateMachine:m",
        operations_namespace="SpecDecode/Operations",
        alarm_arns=["arn:aws:cloudwatch:us-east-2:111122223333:alarm:a"],
        cases=cases or [case.label for case in load(SAMPLE_PRESET).workload.cases],
    )


def published(experiment: Experiment, *, seed: int = 1, hours: float = 0.0) -> list[Datum]:
    """All that one simulated run of the experiment sends to CloudWatch, `hours` later than the first."""
    given = {case.name: 0.9 if case.structured else 0.45 for case in experiment.workload.cases}
    return sent(experiment, run(experiment, seed=seed, acceptance=given), hours=hours)


def published_loads(labels: Sequence[str]) -> list[Datum]:
    """The same of a run at six loads, with an objective; `labels`: of its two types of prompts."""
    tested = loads((1, 2, 4, 8, 16, 32), slo=Slo(tpot_s=0.021, share=0.7), cases=2)
    named = [
        case.model_copy(update={"label": label}) for case, label in zip(tested.workload.cases, labels, strict=True)
    ]
    workload = tested.workload.model_copy(update={"cases": tuple(named)})
    tested = tested.model_copy(update={"workload": workload, "name": SIX_LOADS})
    arm = Server(base_s=0.026, per_sequence_s=0.0016, k=5, acceptance=0.55)
    return sent(tested, run_loads(tested, {"base": Server(), "sd": arm}, seed=3))


def sent(experiment: Experiment, records: Iterable[RequestRecord], *, hours: float = 0.0) -> list[Datum]:
    """What a report of these records sends."""
    around = context()
    levels = measure(experiment=experiment, records=records, context=around)
    comparison = compare_measured(experiment=experiment, levels=levels, context=around)
    labels = {case.name: case.label for case in experiment.workload.cases}
    data = list(metric_data(comparison))
    for at in levels:
        for (variant, case), measured in at.arms.items():
            label = experiment.variant(variant).label
            own = places(experiment, variant=label, case=labels[case], level=at.level)
            data += request_data(measured, accounting=Accounting("usage"), places=own)
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
        if not isinstance(metric[0], dict):
            continue
        lines, name = series(metric[0]["expression"], metric[0]["label"], data)
        for label, points in lines.items():
            if properties["view"] == "bar":
                found[label] = [(0.0, statistic(name, [v for _, values in points for v in values]))]
            else:
                buckets: dict[float, list[float]] = defaultdict(list)
                for at, values in points:
                    buckets[at // properties["period"]] += values
                found[label] = [(at, statistic(name, values)) for at, values in sorted(buckets.items())]
    return found


def picture(dashboard: Mapping[str, Any], data: Sequence[Datum], *, case: str, experiment: str = SIX_LOADS) -> str:
    """The dashboard as HTML, with `case` and `experiment` chosen."""
    parts = []
    for widget in dashboard["widgets"]:
        chosen = _chosen(widget, {CASE: case, EXPERIMENT: experiment})
        place = (
            f"left:{widget['x'] * COLUMN}px;top:{widget['y'] * ROW}px;width:{widget['width'] * COLUMN - 8}px;"
            f"height:{widget['height'] * ROW - 8}px"
        )
        parts.append(f'<div class="w" style="{place}">{"".join(_content(chosen, data))}</div>')
    height = max(widget["y"] + widget["height"] for widget in dashboard["widgets"]) * ROW
    style = (
        "body{margin:8px;font:12px sans-serif;background:#f2f3f3;position:relative} b,pre{font-size:12px} "
        "::-webkit-scrollbar{display:none} "
        ".w{position:absolute;background:#fff;border:1px solid #ddd;overflow:hidden;padding:2px 6px} "
        "pre{margin:0;font:12px sans-serif;white-space:pre-wrap} svg{display:block}"
    )
    size = f"height:{height}px;width:{24 * COLUMN}px"
    return f'<!doctype html><style>{style}</style><body style="{size}">{"".join(parts)}'


def _chosen(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for text, chosen in texts.items():
            value = value.replace(text, chosen)
        return value
    if isinstance(value, dict):
        return {name: _chosen(item, texts) for name, item in value.items()}
    return [_chosen(item, texts) for item in value] if isinstance(value, list) else value


def _content(widget: Mapping[str, Any], data: Sequence[Datum]) -> Iterator[str]:
    properties = widget["properties"]
    if widget["type"] == "text":
        yield f"<pre>{html.escape(properties['markdown'])}</pre>"
        return
    yield f"<b>{html.escape(properties['title'])}</b>"
    if widget["type"] != "metric":
        return
    found = shown(widget, data)
    width, height = widget["width"] * COLUMN - 26, widget["height"] * ROW - 36
    draw = _bars if properties["view"] == "bar" else _lines
    if found:
        yield f'<svg width="{width}" height="{height}">{"".join(draw(found, width, height))}</svg>'
    else:
        yield "<pre>(no data of a benchmark)</pre>"


def _bars(found: Mapping[str, list[tuple[float, float]]], width: int, height: int) -> Iterator[str]:
    most = max(points[0][1] for points in found.values()) or 1.0
    room = min(34.0, height / len(found))
    size = min(12.0, room - 1)
    names = min(width * 0.5, 8 + 6.5 * max(map(len, found)))
    for number, (label, points) in enumerate(sorted(found.items())):
        y, value = number * room, points[0][1]
        long = (width - names - 60) * value / most
        colour = COLOURS[sorted({name.split()[-1] for name in found}).index(label.split()[-1]) % len(COLOURS)]
        text = html.escape(label[-int(names / 6.5) :])
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
        if len(found) <= 4:
            yield f'<text x="{number * 90}" y="{height - 2}" fill="{colour}" font-size="11">{html.escape(label)}</text>'


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
    experiment = load(SAMPLE_PRESET)
    data = [datum for number in range(3) for datum in published(experiment, seed=number + 1, hours=24.0 * number)]
    labels = [case.label for case in experiment.workload.cases[:2]]
    over_load = [datum for datum in published_loads(labels) if not sample(datum)]
    dashboard = default_body()
    heads = [(text["y"], text["properties"]["markdown"]) for text in dashboard["widgets"] if text["type"] == "text"]
    (over,) = [y for y, words in heads if words.startswith("## Over the load")]
    rows = min(y for y, _ in heads if y > over)
    screenshot(picture(dashboard, [*data, *over_load], case=labels[0]), Path(sys.argv[1]), rows=rows)


def sample(datum: Datum) -> bool:
    """Whether it has the dimensions of the public sample, by which all runs are drawn together."""
    return {item["Name"] for item in datum["Dimensions"]} == {"Variant", "TestCase"}


if __name__ == "__main__":
    main()
