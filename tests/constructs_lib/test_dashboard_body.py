"""The dashboard's body holds what it promises, and its rules catch what CloudWatch would refuse."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from constructs_lib.dashboard_body import ARMS, OWN_METRICS, SAMPLE_METRICS, body
from constructs_lib.dashboard_rules import problems

ALARM = "arn:aws:cloudwatch:us-east-2:111122223333:alarm:a"


@pytest.fixture
def dashboard() -> dict[str, Any]:
    return body(
        region="us-east-2",
        cluster_name="specdecode",
        state_machine_arn="arn:aws:states:us-east-2:111122223333:stateMachine:m",
        operations_namespace="SpecDecode/Operations",
        alarm_arns=[ALARM],
    )


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


@pytest.mark.parametrize("metric", [name for name, _ in SAMPLE_METRICS])
def test_every_metric_of_the_sample_is_shown_for_both_arms_side_by_side(dashboard: dict[str, Any], metric: str) -> None:
    places = [
        (widget["y"], widget["x"], arm)
        for widget in dashboard["widgets"]
        if widget["type"] == "metric"
        for arm in ARMS
        if any(
            isinstance(m[0], dict) and f'MetricName="{metric}" Variant="{arm}"' in m[0]["expression"]
            for m in widget["properties"]["metrics"]
        )
    ]
    assert [arm for _, _, arm in sorted(places)] == list(ARMS)
    assert places[0][0] == places[1][0], "not in the same row"


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
