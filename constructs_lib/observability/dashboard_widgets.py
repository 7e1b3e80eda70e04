"""Widgets of a CloudWatch dashboard as plain data, and their places.

Source of the format: Amazon CloudWatch API Reference, "Dashboard body structure and syntax".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specdecode import names

Widget = dict[str, Any]

STATISTIC = "p50"
"""Text that the dashboard variable `Statistic` replaces."""


@dataclass
class Canvas:
    """Places widgets row by row on the 24 columns of a dashboard."""

    region: str
    widgets: list[Widget] = field(default_factory=list)
    _y: int = 0

    def text(self, markdown: str, *, height: int) -> None:
        """Markdown over the whole width, `height` units high."""
        self._place([("text", {"markdown": markdown})], height)

    def graphs(self, *graphs: dict[str, Any], height: int = 6) -> None:
        """Metric widgets side by side, equally wide."""
        self._place([("metric", {"region": self.region, **graph}) for graph in graphs], height)

    def log(self, title: str, group: str, query: str) -> None:
        """What Logs Insights finds in a log group, as a table over the whole width."""
        properties = {"title": title, "query": f"SOURCE '{group}' | {query}", "view": "table"}
        self._place([("log", {"region": self.region, **properties})], 5)

    def alarms(self, title: str, arns: list[str]) -> None:
        """The state of alarms."""
        self._place([("alarm", {"title": title, "alarms": arns})], 3)

    def _place(self, items: list[tuple[str, dict[str, Any]]], height: int) -> None:
        width = 24 // len(items)
        for number, (kind, properties) in enumerate(items):
            self.widgets.append(
                {
                    "type": kind,
                    "x": number * width,
                    "y": self._y,
                    "width": width,
                    "height": height,
                    "properties": properties,
                }
            )
        self._y += height


def search(metric: str, dimensions: Sequence[str], *, statistic: str = STATISTIC, **given: str) -> str:
    """A SEARCH for the metrics that have exactly these dimensions, some with a `given` value."""
    terms = " ".join(f'{name}="{value}"' for name, value in {"MetricName": metric, **given}.items())
    return f"SEARCH('{{{','.join((names.METRIC_NAMESPACE, *dimensions))}}} {terms}', '{statistic}')"


def graph(title: str, *expressions: tuple[str, str]) -> Widget:
    """Lines of math expressions over time, each with the label of its series."""
    return {
        "title": title,
        "view": "timeSeries",
        "stacked": False,
        "period": 300,
        "yAxis": {"left": {"min": 0, "showUnits": False}},
        "metrics": [
            [{"expression": expression, "label": label, "id": f"e{number}"}]
            for number, (expression, label) in enumerate(expressions, start=1)
        ],
    }


def bars(title: str, expression: str, label: str, *, note: float | None = None) -> Widget:
    """One bar for each series, over the whole time range. `note` draws a line.

    Without `setPeriodToTimeRange` a bar shows the most recent period only (aws-cdk-lib 2.x, GraphWidgetProps), which is
    empty five minutes after a run.
    """
    found = {**graph(title, (expression, label)), "view": "bar", "setPeriodToTimeRange": True}
    if note is not None:
        found["annotations"] = {"horizontal": [{"value": note, "label": "baseline"}]}
    return found


def values(
    title: str,
    namespace: str,
    dimensions: list[str],
    metrics: Sequence[tuple[str, str]],
    *,
    statistic: str,
    view: str = "timeSeries",
) -> Widget:
    """Plain metrics of one source, each with its label."""
    return {
        "title": title,
        "view": view,
        "stacked": False,
        "period": 300,
        "stat": statistic,
        "metrics": [[namespace, metric, *dimensions, {"label": label}] for metric, label in metrics],
    }


def computed(title: str, expressions: Sequence[tuple[str, str]], *of: list[Any]) -> Widget:
    """The latest values of expressions over plain metrics."""
    found = graph(title, *expressions)
    return {**found, "view": "singleValue", "metrics": [*found["metrics"], *of]}


def plain(id: str, namespace: str, name: str, statistic: str) -> list[Any]:
    """A plain metric that only feeds an expression."""
    return [namespace, name, {"id": id, "stat": statistic, "visible": False}]
