"""The dashboard's body holds what it promises, and its rules catch what CloudWatch would refuse."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from specdecode.experiment import load
from specdecode.measures.publish import Datum
from specdecode.names import SAMPLE_PRESET

from constructs_lib.observability.dashboard_body import CASE, LOAD_METRICS, MAIN_METRICS, OTHER_METRICS, OWN_METRICS
from constructs_lib.observability.dashboard_body import EXPERIMENT as CHOSEN
from constructs_lib.observability.dashboard_rules import problems
from tests.constructs_lib.dashboard_picture import (
    SIX_LOADS,
    default_body,
    picture,
    published,
    published_loads,
    screenshot,
    shown,
)
from tests.specdecode.analysis.browser import chromium

ALARM = "arn:aws:cloudwatch:us-east-2:111122223333:alarm:a"


EXPERIMENT = load(SAMPLE_PRESET)
SEVEN = [name for name, _ in (*MAIN_METRICS, *OTHER_METRICS)]
LABELS = [case.label for case in EXPERIMENT.workload.cases]
PREDICTABLE = [each.label for each in EXPERIMENT.workload.cases if each.structured and each.group == "sample"]


@pytest.fixture(scope="module")
def data() -> list[Datum]:
    """What one run of the default preset publishes."""
    return published(EXPERIMENT)


@pytest.fixture
def dashboard() -> dict[str, Any]:
    return default_body()


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [
        metric[0]["expression"]
        for widget in dashboard["widgets"]
        if widget["type"] == "metric"
        for metric in widget["properties"]["metrics"]
        if isinstance(metric[0], dict)
    ]


def test_the_body_is_valid(dashboard: dict[str, Any]) -> None:
    assert problems(dashboard) == []
    assert len(json.dumps(dashboard)) < 500_000


def widgets(dashboard: dict[str, Any], *, metric: str, case: str, view: str) -> list[dict[str, Any]]:
    wanted = f'TestCase,Variant}} MetricName="{metric}" TestCase="{case}"'
    return [
        widget
        for widget in dashboard["widgets"]
        if widget["type"] == "metric" and widget["properties"]["view"] == view
        if any(isinstance(m[0], dict) and wanted in m[0]["expression"] for m in widget["properties"]["metrics"])
    ]


@pytest.mark.parametrize("case", LABELS)
@pytest.mark.parametrize("metric", SEVEN)
def test_after_one_run_a_widget_of_every_metric_and_case_has_a_bar_for_each_arm(
    dashboard: dict[str, Any], data: list[Datum], metric: str, case: str
) -> None:
    (widget,) = widgets(dashboard, metric=metric, case=case, view="bar")
    bars = shown(widget, data)
    assert set(bars) == {"Base", "SD"}, "both arms on one axis"
    for arm, ((_, value),) in bars.items():
        (values,) = [
            d["Values"]
            for d in data
            if d["MetricName"] == metric and [item["Value"] for item in d["Dimensions"]] == [arm, case]
        ]
        assert min(values) <= value <= max(values)
    if metric == "EndToEndLatency":
        assert bars["SD"] < bars["Base"] or case not in PREDICTABLE


@pytest.mark.parametrize("metric", SEVEN)
def test_any_other_case_can_be_chosen_and_has_its_trend_below(dashboard: dict[str, Any], metric: str) -> None:
    (bar,) = widgets(dashboard, metric=metric, case=CASE, view="bar")
    (line,) = widgets(dashboard, metric=metric, case=CASE, view="timeSeries")
    assert bar["y"] < line["y"]
    assert line["properties"]["start"] == "-P3M" and "start" not in bar["properties"]


def test_bars_are_of_the_whole_range_and_not_of_its_last_five_minutes(dashboard: dict[str, Any]) -> None:
    bars = [w["properties"] for w in dashboard["widgets"] if w["properties"].get("view") == "bar"]
    assert len(bars) > 70 and all(item["setPeriodToTimeRange"] for item in bars)


def test_a_run_of_six_loads_has_a_bar_for_each_load_and_arm(dashboard: dict[str, Any], data: list[Datum]) -> None:
    """With `Load` as a dimension of its own: what is drawn by the sample's dimensions is of the first load."""
    over_load = [*published_loads(LABELS[:2]), *_of_another(published_loads(LABELS[:2]))]
    chosen = json.loads(json.dumps(dashboard).replace(CASE, LABELS[0]).replace(CHOSEN, SIX_LOADS))["widgets"]
    drawn = {
        widget["properties"]["title"]: shown(widget, [*data, *over_load])
        for widget in chosen
        if "by load" in widget["properties"].get("title", "")
    }
    levels = [f"c{size:04}" for size in (1, 2, 4, 8, 16, 32)]
    assert levels == sorted(levels), "lists are by letter"
    assert set(drawn.pop("Speed-up over the baseline, by load")) == {f"{level} SD" for level in levels}
    assert len(drawn) == len(LOAD_METRICS) + 1
    for title, bars in drawn.items():
        assert set(bars) == {f"{level} {arm}" for level in levels for arm in ("Base", "SD")}, title
    wait = drawn["Inter-token latency, s, p50, by load"]
    assert wait["c0001 SD"] < wait["c0001 Base"] and wait["c0032 SD"] > wait["c0032 Base"]
    (kept,) = [w for w in chosen if w["properties"].get("title") == "Largest load that keeps the objective"]
    assert shown(kept, over_load) == {"Base": [(0.0, 4.0)], "SD": [(0.0, 8.0)]}
    (latency,) = widgets(dashboard, metric="TTFT", case=LABELS[0], view="bar")
    by_load = drawn["Time to first token, s, p50, by load"]
    assert shown(latency, over_load) == {arm: by_load[f"c0001 {arm}"] for arm in ("Base", "SD")}


def _of_another(data: list[Datum]) -> list[Datum]:
    """The same arms and loads of another experiment, with figures that nothing of this one has."""
    return [
        {
            **datum,
            "Values": [1000.0 + value for value in datum["Values"]],
            "Dimensions": [
                {**item, "Value": "another"} if item["Name"] == "Experiment" else item for item in datum["Dimensions"]
            ],
        }
        for datum in data
        if any(item["Name"] == "Experiment" for item in datum["Dimensions"])
    ]


@pytest.mark.skipif(chromium() is None, reason="no Chromium: `apt-get install chromium` to run this test")
def test_the_dashboard_is_drawn_as_a_picture(dashboard: dict[str, Any], data: list[Datum], tmp_path: Path) -> None:
    """Look at it: `python -m tests.constructs_lib.dashboard_picture picture.png`."""
    markup = picture(dashboard, data, case=LABELS[0])
    assert CASE not in markup
    assert markup.count("<rect") >= 7 * 2 * len(LABELS)
    screenshot(markup, tmp_path / "dashboard.png")
    assert (tmp_path / "dashboard.png").stat().st_size > 100_000


@pytest.mark.parametrize("metric", [*(name for name, _ in OWN_METRICS), "Speedup", "OutputsIdentical"])
def test_every_metric_beyond_the_sample_is_shown(dashboard: dict[str, Any], metric: str) -> None:
    assert any(f'MetricName="{metric}"' in expression for expression in expressions(dashboard))


def test_pipeline_container_insights_and_alarms_are_shown(dashboard: dict[str, Any]) -> None:
    text = json.dumps(dashboard)
    for part in (
        "ExecutionsFailed",
        "cluster_node_count",
        "NodesWithoutLease",
        "WatchdogProblems",
        "RunsHolding",
        "RunsWaiting",
        "LeaseAge",
        "PERIOD(nodes) / 3600",
        ALARM,
    ):
        assert part in text


def test_a_text_says_how_to_read_it(dashboard: dict[str, Any]) -> None:
    first = dashboard["widgets"][0]
    assert first["type"] == "text"
    assert "A streamed chunk is not a" in first["properties"]["markdown"]


BREAKS = {
    "setPeriodToTimeRange": lambda d: d["widgets"][1]["properties"].pop("setPeriodToTimeRange"),
    "no relative start": lambda d: d["widgets"][3]["properties"].update(start="3 months"),
    "no relative start: now": lambda d: d.update(start="now"),
    "do not fit": lambda d: d["widgets"][3].update(x=20),
    "overlap": lambda d: d["widgets"][3].update(y=d["widgets"][1]["y"], x=0),
    "no valid SEARCH": lambda d: d["widgets"][1]["properties"]["metrics"][0][0].update(expression="SEARCH('x')"),
    "no such view": lambda d: d["widgets"][1]["properties"].update(view="chart"),
    "no such type": lambda d: d["widgets"][1].update(type="metrics"),
    "no region": lambda d: d["widgets"][1]["properties"].pop("region"),
    "no metrics": lambda d: d["widgets"][1]["properties"].update(metrics=[]),
    "ids of expressions": lambda d: d["widgets"][1]["properties"]["metrics"][0][0].update(id="E1"),
    "same id": lambda d: d["variables"][0].update(id=d["variables"][1]["id"]),
    "what it replaces": lambda d: d["variables"][0].pop("pattern"),
    "values, or search": lambda d: d["variables"][0].pop("values"),
    "widgets; 1 to 500": lambda d: d.update(widgets=d["widgets"] * 20),
    "1 to 100 alarms": lambda d: d["widgets"][-1]["properties"].update(alarms=[]),
    "without markdown": lambda d: d["widgets"][0]["properties"].update(markdown=""),
    "pairs of dimensions": lambda d: d["widgets"][-2]["properties"]["metrics"].append(["AWS/States", "x", "y"]),
}


@pytest.mark.parametrize("expected", BREAKS)
def test_the_rules_catch(dashboard: dict[str, Any], expected: str) -> None:
    broken = copy.deepcopy(dashboard)
    BREAKS[expected](broken)
    assert any(expected in problem for problem in problems(broken)), problems(broken)
