"""The body of the CloudWatch dashboard: plain data from names, so that it can be tested without the CDK.

Source of the format: Amazon CloudWatch API Reference, "Dashboard body structure and syntax".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from specdecode import names

Widget = dict[str, Any]

ARMS = ("Base", "SD")
"""Values of the dimension `Variant` of the public sample, side by side; other arms are in the rows for all arms."""

SAMPLE_METRICS = (
    ("EndToEndLatency", "End-to-end latency, s (figure 3 of the article)"),
    ("InterTokenLatency", "Inter-token latency, s (figure 4)"),
    ("TTFT", "Time to first token, s (figure 5)"),
    ("RequestOutputThroughput", "Output throughput of a request, tokens/s"),
    ("OutputTokens", "Output tokens of a request"),
    ("InputTokens", "Input tokens of a request"),
)
OWN_METRICS = (
    ("TokensPerStep", "Tokens per engine step (1 = no speculation)"),
    ("AcceptanceRate", "Draft acceptance rate (accepted / drafted)"),
    ("CostPerMillionOutputTokens", "$ per million output tokens"),
    ("ErrorRate", "Share of requests that failed"),
)
STATISTIC = "p50"
"""Text that the dashboard variable `Statistic` replaces."""
CASE = "__TESTCASE__"
"""Text that the dashboard variable `TestCase` replaces."""
NODE_HOURS = "RUNNING_SUM(FILL(nodes, 0) * PERIOD(nodes) / 3600)"
"""The watchdog counts nodes every five minutes; their mean over a period times its length is node-hours."""
LEASE_HOURS = "lease / 3600"

HOW_TO_READ = """## Does speculative decoding pay?
**Speed-up** above 1: the arm is faster than its baseline in output throughput, over whole requests. Its confidence \
interval and the verdict are in the run's report (`specdecode report RUN_ID --open`), not here.
**Left is Base, right is SD**, same metric, same scale, one line a test case. One point is one run. Compare medians; \
for throughput the *low* percentiles are the bad ones.
**Inter-token latency** is per token by the server's count. A streamed chunk is not a token: with speculation a chunk \
holds several, so a tool that counts chunks shows the opposite of the truth.
**Outputs identical** below 1: the arms wrote different text at temperature 0. Look at the first difference in the \
report before you believe any speed-up."""


@dataclass
class Canvas:
    """Places widgets row by row on the 24 columns of a dashboard."""

    region: str
    widgets: list[Widget] = field(default_factory=list)
    _y: int = 0

    def text(self, markdown: str, *, height: int) -> None:
        """A full-width text."""
        self._place([("text", {"markdown": markdown})], height)

    def graphs(self, *graphs: dict[str, Any], height: int = 6) -> None:
        """Metric widgets side by side, equally wide."""
        self._place([("metric", {"region": self.region, **graph}) for graph in graphs], height)

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


def search(metric: str, *, variant: str | None = None, case: str | None = None, statistic: str = STATISTIC) -> str:
    """A SEARCH over the arms of all experiments (the dimensions of the public sample)."""
    terms = [f'MetricName="{metric}"']
    terms += [f'Variant="{variant}"'] if variant else []
    terms += [f'TestCase="{case}"'] if case else []
    return f"SEARCH('{{{names.METRIC_NAMESPACE},TestCase,Variant}} {' '.join(terms)}', '{statistic}')"


def graph(title: str, *expressions: tuple[str, str], view: str = "timeSeries", note: float | None = None) -> Widget:
    """A metric widget of math expressions, each with the label of its series; `note` draws a line there."""
    found: Widget = {
        "title": title,
        "view": view,
        "stacked": False,
        "period": 300,
        "yAxis": {"left": {"min": 0, "showUnits": False}},
        "metrics": [
            [{"expression": expression, "label": label, "id": f"e{number}"}]
            for number, (expression, label) in enumerate(expressions, start=1)
        ],
    }
    if note is not None:
        found["annotations"] = {"horizontal": [{"value": note, "label": "baseline"}]}
    return found


def counts(title: str, namespace: str, dimensions: list[str], metrics: tuple[str, ...], *, statistic: str) -> Widget:
    """A metric widget of plain metrics of one source."""
    return {
        "title": title,
        "view": "timeSeries",
        "stacked": False,
        "period": 300,
        "stat": statistic,
        "metrics": [[namespace, metric, *dimensions] for metric in metrics],
    }


def body(
    *,
    region: str,
    cluster_name: str,
    state_machine_arn: str,
    operations_namespace: str,
    alarm_arns: list[str],
) -> dict[str, Any]:
    """The whole dashboard."""
    canvas = Canvas(region=region)
    canvas.text(HOW_TO_READ, height=6)
    by_arm = "${PROP('Dim.TestCase')} ${PROP('Dim.Variant')}"
    canvas.graphs(
        graph("Speed-up over the baseline", (search("Speedup", statistic="Average"), by_arm), view="bar", note=1.0),
        graph("Outputs identical (1 = all)", (search("OutputsIdentical", statistic="Minimum"), by_arm), view="bar"),
    )
    canvas.text("## Base and SD side by side, per test case", height=1)
    by_case = "${PROP('Dim.TestCase')}"
    for metric, title in SAMPLE_METRICS:
        canvas.graphs(*(graph(f"{arm}: {title}, {STATISTIC}", (search(metric, variant=arm), by_case)) for arm in ARMS))
    canvas.text("## What speculation does, all arms", height=1)
    plots = [graph(title, (search(metric, statistic="Average"), by_arm)) for metric, title in OWN_METRICS]
    canvas.graphs(*plots[:2])
    canvas.graphs(*plots[2:])
    canvas.text(f"## One test case, all arms: {CASE}", height=1)
    canvas.graphs(
        *(
            graph(f"{title}, {STATISTIC}", (search(metric, case=CASE), "${PROP('Dim.Variant')}"))
            for metric, title in SAMPLE_METRICS[:3]
        )
    )
    canvas.text("## Pipeline, node and cluster", height=1)
    _operations(canvas, cluster_name, state_machine_arn, operations_namespace)
    if alarm_arns:
        canvas.alarms("Alarms", alarm_arns)
    return {"start": "-P14D", "periodOverride": "inherit", "widgets": canvas.widgets, "variables": _variables()}


def _operations(canvas: Canvas, cluster_name: str, state_machine_arn: str, operations_namespace: str) -> None:
    machine = ["StateMachineArn", state_machine_arn]
    ended = ("ExecutionsStarted", "ExecutionsSucceeded", "ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted")
    watched = ("WatchdogHeartbeat", "NodesWithoutLease", "RunsReleasedByWatchdog", "WatchdogProblems")
    cluster = ["ClusterName", cluster_name]
    canvas.graphs(
        counts("Runs", "AWS/States", machine, ended, statistic="Sum"),
        counts("Duration of a run, ms", "AWS/States", machine, ("ExecutionTime",), statistic="Maximum"),
        counts("Watchdog", operations_namespace, [], watched, statistic="Maximum"),
    )
    nodes = _metric("nodes", operations_namespace, "Nodes", "Average")
    canvas.graphs(
        counts("trn2 nodes", operations_namespace, [], ("Nodes",), statistic="Maximum"),
        {
            **graph("Node-hours since the start of the range", (NODE_HOURS, "node-hours")),
            "metrics": [[{"expression": NODE_HOURS, "label": "node-hours", "id": "e1"}], nodes],
        },
        {
            **graph("Hours for which the node has been held", (LEASE_HOURS, "lease")),
            "metrics": [
                [{"expression": LEASE_HOURS, "label": "lease", "id": "e1"}],
                _metric("lease", operations_namespace, "LeaseAge", "Maximum"),
            ],
        },
    )
    canvas.graphs(
        counts(
            "Nodes of the cluster (Container Insights)",
            "ContainerInsights",
            cluster,
            ("cluster_node_count", "cluster_failed_node_count"),
            statistic="Maximum",
        ),
        counts(
            "Node CPU and memory, %",
            "ContainerInsights",
            cluster,
            ("node_cpu_utilization", "node_memory_utilization"),
            statistic="Maximum",
        ),
        counts(
            "Running pods of the experiment",
            "ContainerInsights",
            [*cluster, "Namespace", names.NAMESPACE],
            ("namespace_number_of_running_pods",),
            statistic="Maximum",
        ),
    )


def _metric(id: str, namespace: str, name: str, statistic: str) -> list[Any]:
    """A plain metric that only feeds an expression."""
    return [namespace, name, {"id": id, "stat": statistic, "visible": False}]


def _variables() -> list[dict[str, Any]]:
    return [
        {
            "type": "pattern",
            "pattern": STATISTIC,
            "inputType": "radio",
            "id": "statistic",
            "label": "Statistic",
            "visible": True,
            "defaultValue": STATISTIC,
            "values": [{"value": value, "label": value} for value in (STATISTIC, "p90", "p99", "Average", "Minimum")],
        },
        {
            "type": "pattern",
            "pattern": CASE,
            "inputType": "select",
            "id": "testcase",
            "label": "Test case",
            "visible": True,
            "search": f'{{{names.METRIC_NAMESPACE},TestCase,Variant}} MetricName="TTFT"',
            "populateFrom": "TestCase",
            "defaultValue": "__FIRST",
        },
    ]
