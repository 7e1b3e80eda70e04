"""The dashboard's body holds what it promises, and its rules catch what CloudWatch would refuse."""

import json
from pathlib import Path
from typing import Any

import pytest
from specdecode.experiment import load
from specdecode.measures.metrics import ALL_METRICS
from specdecode.measures.publish import Datum
from specdecode.names import SAMPLE_PRESET

from constructs_lib.observability.dashboard_body import CASE, EXPERIMENT, LOAD_CASE, OF_ARMS, OF_REQUESTS
from constructs_lib.observability.dashboard_rules import problems
from tests.constructs_lib.dashboard_picture import (
    SIX_LOADS,
    default_body,
    neuron_cores,
    picture,
    published,
    published_loads,
    screenshot,
    shown,
)
from tests.specdecode.analysis.browser import chromium

OTHER = "gpt-oss-120b-eagle3"
EXPERIMENTS = {name: load(name) for name in (SAMPLE_PRESET, OTHER)}
LABELS = [case.label for case in EXPERIMENTS[SAMPLE_PRESET].workload.cases]
PREDICTABLE = [case.label for case in EXPERIMENTS[SAMPLE_PRESET].workload.cases if case.structured]


@pytest.fixture(scope="module")
def data() -> list[Datum]:
    """What one run of each of three experiments publishes: the sample's, one with other arms, one at six loads."""
    of_one_load = [datum for experiment in EXPERIMENTS.values() for datum in published(experiment)]
    return [*of_one_load, *published_loads(LABELS[:2]), *neuron_cores()]


@pytest.fixture
def dashboard() -> dict[str, Any]:
    return default_body()


def chosen(experiment: str) -> dict[str, dict[str, Any]]:
    """The metric widgets by title (the later of two), with the experiment and the first prompt type chosen."""
    text = json.dumps(default_body()).replace(EXPERIMENT, experiment).replace(CASE, LABELS[0])
    widgets = json.loads(text.replace(LOAD_CASE, LABELS[0]))["widgets"]
    return {w["properties"]["title"] + f" {w['y']}": w for w in widgets if w["type"] == "metric"}


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [
        metric[0]["expression"]
        for widget in dashboard["widgets"]
        if widget["type"] == "metric"
        for metric in widget["properties"]["metrics"]
        if isinstance(metric[0], dict)
    ]


def test_the_body_is_valid_small_and_names_no_experiment(dashboard: dict[str, Any]) -> None:
    assert problems(dashboard) == []
    assert len(dashboard["widgets"]) <= 40
    for name in (SAMPLE_PRESET, *LABELS[:3]):
        assert f'"{name}"' not in json.dumps(dashboard).replace("\\", "")


def test_operations_stand_before_results_and_alarms_before_all(dashboard: dict[str, Any]) -> None:
    kinds = [widget["type"] for widget in dashboard["widgets"]]
    results = [w["properties"].get("markdown", "")[:9] for w in dashboard["widgets"]].index("# Results")
    assert kinds.index("alarm") == 1 and kinds.index("log") < results
    plain = [n for n, w in enumerate(dashboard["widgets"]) if "AWS/States" in json.dumps(w)]
    assert plain and max(plain) < results


@pytest.mark.parametrize("experiment", [*EXPERIMENTS, SIX_LOADS])
def test_no_widget_is_empty_and_arms_of_another_experiment_are_not_in_it(experiment: str, data: list[Datum]) -> None:
    widgets = chosen(experiment)
    arms = {"Base", "SD", *(["Base-async"] if experiment == OTHER else [])}
    for title, widget in widgets.items():
        found = shown(widget, data)
        assert found, title
        if f'Experiment=\\"{experiment}\\"' in json.dumps(widget) and title.startswith(("End-to-end", "1M")):
            assert {label.split()[-1] for label in found} == arms, "all arms on one axis"


def test_titles_are_the_reports() -> None:
    metrics = {metric.title for metric in ALL_METRICS}
    assert {title.partition(",")[0] for title in (OF_REQUESTS | OF_ARMS).values()} <= metrics


def test_each_bar_is_of_its_own_arm_and_prompt_type(data: list[Datum]) -> None:
    for name, title in OF_REQUESTS.items():
        (bars,) = [shown(w, data) for w in chosen(SAMPLE_PRESET).values() if f'"{name}\\" Experiment' in json.dumps(w)]
        assert set(bars) == {f"{case} {arm}" for case in LABELS for arm in ("Base", "SD")}, title
        for case in LABELS:
            for arm in ("Base", "SD"):
                (sent,) = [
                    d["Values"]
                    for d in data
                    if d["MetricName"] == name
                    and [item["Value"] for item in d["Dimensions"]] == [SAMPLE_PRESET, arm, case]
                ]
                assert min(sent) <= bars[f"{case} {arm}"][0][1] <= max(sent)
            if name == "EndToEndLatency" and case in PREDICTABLE:
                assert bars[f"{case} SD"] < bars[f"{case} Base"]


def test_a_run_of_six_loads_has_a_bar_for_each_load_and_arm(data: list[Datum]) -> None:
    levels = [f"c{size:04}" for size in (1, 2, 4, 8, 16, 32)]
    drawn = {
        title.rpartition(" ")[0]: shown(w, data)
        for title, w in chosen(SIX_LOADS).items()
        if "Load" in json.dumps(w["properties"]["metrics"])
    }
    assert set(drawn.pop("Speed-up over the baseline")) == {f"{SIX_LOADS} {level} SD" for level in levels}
    kept = drawn.pop("Largest load that keeps the objective, if there is one")
    assert kept == {f"{SIX_LOADS} Base": [(0.0, 4.0)], f"{SIX_LOADS} SD": [(0.0, 8.0)]}
    assert len(drawn) == 4
    for title, bars in drawn.items():
        assert set(bars) == {f"{SIX_LOADS} {level} {arm}" for level in levels for arm in ("Base", "SD")}, title
    wait = drawn["Time per output token, s, p50"]
    assert wait[f"{SIX_LOADS} c0001 SD"] < wait[f"{SIX_LOADS} c0001 Base"]
    assert wait[f"{SIX_LOADS} c0032 SD"] > wait[f"{SIX_LOADS} c0032 Base"]


@pytest.mark.skipif(chromium() is None, reason="no Chromium: `apt-get install chromium` to run this test")
def test_the_dashboard_is_drawn_as_a_picture(dashboard: dict[str, Any], data: list[Datum], tmp_path: Path) -> None:
    """Look at it: `python -m tests.constructs_lib.dashboard_picture picture.png`."""
    markup = picture(dashboard, data, case=LABELS[0], experiment=SAMPLE_PRESET)
    assert not any(text in markup for text in (CASE, EXPERIMENT, LOAD_CASE))
    assert markup.count("<rect") >= 7 * 2 * len(LABELS)
    screenshot(markup, tmp_path / "dashboard.png")
    assert (tmp_path / "dashboard.png").stat().st_size > 100_000


@pytest.mark.parametrize("metric", [*OF_ARMS, "Speedup", "OutputsIdentical"])
def test_every_metric_beyond_the_requests_is_shown(dashboard: dict[str, Any], metric: str) -> None:
    assert any(f'MetricName="{metric}"' in expression for expression in expressions(dashboard))


def _bar(dashboard: dict[str, Any]) -> dict[str, Any]:
    return next(w for w in dashboard["widgets"] if w["properties"].get("view") == "bar")


def _expression(dashboard: dict[str, Any], **new: Any) -> None:
    _bar(dashboard)["properties"]["metrics"][0][0].update(new)


BREAKS = {
    "setPeriodToTimeRange": lambda d: _bar(d)["properties"].pop("setPeriodToTimeRange"),
    "no relative start": lambda d: _bar(d)["properties"].update(start="3 months"),
    "no relative start: now": lambda d: d.update(start="now"),
    "no valid SEARCH": lambda d: _expression(d, expression="SEARCH('x')"),
    "1024 at most": lambda d: _expression(d, expression=f"SEARCH('{{a}} b=\"{'x' * 1024}\"', 'p50')"),
    "no such view": lambda d: _bar(d)["properties"].update(view="chart"),
    "no such type": lambda d: d["widgets"][1].update(type="metrics"),
    "no region": lambda d: _bar(d)["properties"].pop("region"),
    "no metrics": lambda d: _bar(d)["properties"].update(metrics=[]),
    "ids of expressions": lambda d: _expression(d, id="E1"),
    "same id": lambda d: d["variables"][0].update(id=d["variables"][1]["id"]),
    "what it replaces": lambda d: d["variables"][0].pop("pattern"),
    "values, or search": lambda d: d["variables"][1].pop("values"),
    "widgets; 1 to 500": lambda d: d.update(widgets=d["widgets"] * 20),
    "1 to 100 alarms": lambda d: d["widgets"][1]["properties"].update(alarms=[]),
    "without markdown": lambda d: d["widgets"][0]["properties"].update(markdown=""),
    "names its SOURCE": lambda d: next(w for w in d["widgets"] if w["type"] == "log")["properties"].update(query="x"),
    "pairs of dimensions": lambda d: _bar(d)["properties"]["metrics"].append(["AWS/States", "x", "y"]),
}


@pytest.mark.parametrize("expected", BREAKS)
def test_the_rules_catch(dashboard: dict[str, Any], expected: str) -> None:
    BREAKS[expected](dashboard)
    assert any(expected in problem for problem in problems(dashboard)), problems(dashboard)
