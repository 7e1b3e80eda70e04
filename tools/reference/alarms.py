"""docs/reference/alarms.md: every alarm of the templates."""

import re
from collections.abc import Mapping
from typing import Any

from tools.reference import page, table

SIGNS = {
    "GreaterThanThreshold": ">",
    "GreaterThanOrEqualToThreshold": "≥",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "≤",
}
MISSING = {
    "breaching": "alarm",
    "notBreaching": "fine",
    "ignore": "stays as it is",
    "missing": "insufficient data",
}

INTRODUCTION = """Every alarm writes to the alerts topic; `alert_email` of the [settings](../settings.md) has it
mailed. What to do beyond the line in the table: [operations](../operations.md#when-it-fails). In the console an
alarm's name is that of the stack, this one and a random part."""


def render(templates: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (_name(logical_id), resource["Properties"]["AlarmDescription"], _condition(resource["Properties"]))
        for template in templates.values()
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    ]
    budgets = [
        resource["Properties"]
        for template in templates.values()
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Budgets::Budget"
    ]
    notices = [
        f"at {notice['Notification']['Threshold']:g} % {notice['Notification']['NotificationType'].lower()}"
        for budget in budgets
        for notice in budget["NotificationsWithSubscribers"]
    ]
    return page(
        "Alarms",
        INTRODUCTION,
        table(("alarm", "what it says", "goes off when"), sorted(rows)),
        f"A monthly budget of the account (`budget_usd`) writes to the same topic {' and '.join(notices)}.",
    )


def _name(logical_id: str) -> str:
    """Its logical id without the CDK's hash."""
    return f"`{logical_id[:-8]}`"


def _condition(alarm: Mapping[str, Any]) -> str:
    sign, threshold = SIGNS[alarm["ComparisonOperator"]], f"{alarm['Threshold']:g}"
    period = alarm.get("Period") or max(_period(metric) for metric in alarm["Metrics"])
    if "MetricName" in alarm:
        value = f"{alarm['Statistic'].lower()} of `{alarm['MetricName']}`"
    else:
        value = " + ".join(f"`{name}`" for name in _metrics(alarm["Metrics"]))
    times = alarm["EvaluationPeriods"]
    often = f"{times} times {period // 60} min in a row" if times > 1 else f"in {period // 60} min"
    return f"{value} {sign} {threshold}, {often}; without data: {MISSING[alarm.get('TreatMissingData', 'missing')]}"


def _period(metric: Mapping[str, Any]) -> int:
    return int(metric.get("Period") or metric.get("MetricStat", {}).get("Period", 0))


def _metrics(metrics: list[Mapping[str, Any]]) -> list[str]:
    """Names of the metrics that an expression is about."""
    found = [metric["MetricStat"]["Metric"]["MetricName"] for metric in metrics if "MetricStat" in metric]
    for metric in metrics:
        found += re.findall(r"SELECT (\w+\(\w+\))", metric.get("Expression", ""))
    return found
