"""The body of the CloudWatch dashboard: plain data from names, so that it can be tested without the CDK.

Source of the format: Amazon CloudWatch API Reference, "Dashboard body structure and syntax".

Each metric and test case has one widget, with a bar for each arm over the whole time range that the reader chose.
Several runs in that range share a bar. Trends stand below. Widgets are SEARCH expressions over {TestCase, Variant}.
Alarms on results use Metrics Insights, since no alarm can watch a SEARCH.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specdecode import names

from constructs_lib.observability.dashboard_widgets import STATISTIC, Canvas, bars, counts, graph, plain, search

MAIN_METRICS = (
    ("EndToEndLatency", "End-to-end latency, s (figure 3 of the article)"),
    ("InterTokenLatency", "Inter-token latency, s (figure 4)"),
    ("TTFT", "Time to first token, s (figure 5)"),
    ("RequestOutputThroughput", "Output throughput of a request, tokens/s"),
)
OTHER_METRICS = (
    ("OutputTokens", "Output tokens of a request"),
    ("InputTokens", "Input tokens of a request"),
    ("TokensPerStep", "Tokens per engine step"),
)
"""The rest of the seven metrics that every test case has a widget for."""
OWN_METRICS = (
    ("AcceptanceRate", "Draft acceptance rate (accepted / drafted)"),
    ("CostPerMillionOutputTokens", "$ per million output tokens"),
    ("ErrorRate", "Share of requests that failed"),
)
LOAD_METRICS = (
    ("InterTokenLatency", "Inter-token latency, s"),
    ("TTFT", "Time to first token, s"),
    ("RequestOutputThroughput", "Output throughput of a request, tokens/s"),
)
"""Metrics of runs at several loads, shown load by load."""
OVER_LOAD = ("Experiment", "Variant", "Load")
"""Dimensions of a figure of all test cases at one load. A figure of one case also has `TestCase`."""
START = "-P3D"
"""Time range of the dashboard: long enough that on Monday a run of Friday is still there."""
TREND = {"start": "-P3M", "period": 3600}
"""Time range of a trend. Each point is an hour, so about one run, and is kept for 455 days (CloudWatch User Guide,
"Metrics retention"). Points of five minutes are kept for 63 days only.
"""
CASE = "__TESTCASE__"
"""Text that the dashboard variable `TestCase` replaces."""
EXPERIMENT = "__EXPERIMENT__"
"""Text that the dashboard variable `Experiment` replaces. Loads are shown for one experiment: arms of two experiments
would have the same names.
"""
NODE_HOURS = "RUNNING_SUM(FILL(nodes, 0) * PERIOD(nodes) / 3600)"
"""Node-hours. The watchdog counts nodes every five minutes; the mean of a period times its length is node-hours."""
LEASE_HOURS = "lease / 3600"

HOW_TO_READ = """## Does speculative decoding pay?
**Speed-up** above 1: the arm is faster than its baseline in output throughput, over whole requests. Its confidence \
interval and the verdict are in the run's report (`specdecode report RUN_ID --open`), not here.
**Bars** are of all requests in the range at the top right, one bar an arm. Choose the range of one run to see that \
run alone. For throughput the *low* percentiles are the bad ones. **Trends** have a range of their own: three months, \
one point an hour.
**Inter-token latency** is per token by the server's count. A streamed chunk is not a token: with speculation a chunk \
holds several, so a tool that counts chunks shows the opposite of the truth.
**Outputs identical** below 1: the arms wrote different text at temperature 0. Look at the first difference in the \
report before you believe any speed-up."""
BY_ARM = "${PROP('Dim.Variant')}"
BY_LOAD_AND_ARM = "${PROP('Dim.Load')} ${PROP('Dim.Variant')}"
BY_CASE_AND_ARM = "${PROP('Dim.TestCase')} ${PROP('Dim.Variant')}"


def body(
    *,
    region: str,
    cluster_name: str,
    state_machine_arn: str,
    operations_namespace: str,
    alarm_arns: list[str],
    cases: Sequence[str],
) -> dict[str, Any]:
    """The whole dashboard. `cases`: known values of the dimension `TestCase`. The reader can choose others."""
    canvas = Canvas(region=region)
    canvas.text(HOW_TO_READ, height=5)
    speedup, same = search("Speedup", statistic="Average"), search("OutputsIdentical", statistic="Minimum")
    of_all_cases = max(8, len(cases) * 2 // 3)
    canvas.graphs(
        bars("Speed-up over the baseline", speedup, BY_CASE_AND_ARM, note=1.0),
        bars("Outputs identical (1 = all)", same, BY_CASE_AND_ARM),
        height=of_all_cases,
    )
    canvas.graphs({**graph("Speed-up, run by run", (speedup, BY_CASE_AND_ARM)), **TREND})
    canvas.graphs(
        *(bars(title, search(metric, statistic="Average"), BY_CASE_AND_ARM) for metric, title in OWN_METRICS),
        height=of_all_cases,
    )
    canvas.text(f"## Test case `{CASE}`: all arms, then run by run", height=1)
    _case(canvas, CASE)
    for metrics in (MAIN_METRICS, OTHER_METRICS):
        canvas.graphs(
            *(
                {**graph(f"{_title(title)}, run by run", (search(metric, case=CASE), BY_ARM)), **TREND}
                for metric, title in metrics
            )
        )
    _over_load(canvas)
    for case in cases:
        canvas.text(f"## Test case `{case}`: all arms", height=1)
        _case(canvas, case)
    canvas.text("## Pipeline, node and cluster", height=1)
    _operations(canvas, cluster_name, state_machine_arn, operations_namespace)
    if alarm_arns:
        canvas.alarms("Alarms", alarm_arns)
    return {"start": START, "periodOverride": "inherit", "widgets": canvas.widgets, "variables": _variables()}


def _case(canvas: Canvas, case: str) -> None:
    """One widget for each metric. It has a bar for each arm, on one axis."""
    for metrics, height in ((MAIN_METRICS, 5), (OTHER_METRICS, 4)):
        canvas.graphs(
            *(bars(_title(title), search(metric, case=case), BY_ARM) for metric, title in metrics), height=height
        )


def _over_load(canvas: Canvas) -> None:
    """A bar for each load and arm. `c0008`: 8 requests at a time; `r0000.5`: one every two seconds."""
    canvas.text(
        f"## Over the load: `{EXPERIMENT}`, each bar a load (`c0008`: 8 at a time) and an arm. Second row: `{CASE}`",
        height=1,
    )
    gain = search("Speedup", statistic="Average", dimensions=OVER_LOAD, experiment=EXPERIMENT)
    kept = search("LargestLoadKept", statistic="Average", dimensions=OVER_LOAD[:2], experiment=EXPERIMENT)
    canvas.graphs(
        bars("Speed-up over the baseline, by load", gain, BY_LOAD_AND_ARM, note=1.0),
        bars("Largest load that keeps the objective", kept, BY_ARM),
        height=6,
    )
    of_case = (*OVER_LOAD, "TestCase")
    canvas.graphs(
        *(
            bars(
                f"{_title(title)}, by load",
                search(metric, case=CASE, dimensions=of_case, experiment=EXPERIMENT),
                BY_LOAD_AND_ARM,
            )
            for metric, title in LOAD_METRICS
        ),
        bars(
            "Share of requests that keep the objective, by load",
            search("GoodRequests", case=CASE, statistic="Average", dimensions=of_case, experiment=EXPERIMENT),
            BY_LOAD_AND_ARM,
        ),
        height=8,
    )


def _title(metric: str) -> str:
    return f"{metric}, {STATISTIC}"


def _operations(canvas: Canvas, cluster_name: str, state_machine_arn: str, operations_namespace: str) -> None:
    machine = ["StateMachineArn", state_machine_arn]
    ended = ("ExecutionsStarted", "ExecutionsSucceeded", "ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted")
    watched = ("WatchdogHeartbeat", "NodesWithoutLease", "RunsReleasedByWatchdog", "WatchdogProblems")
    held = ("Nodes", "RunsHolding", "RunsWaiting")
    cluster = ["ClusterName", cluster_name]
    canvas.graphs(
        counts("Runs", "AWS/States", machine, ended, statistic="Sum"),
        counts("Duration of a run, ms", "AWS/States", machine, ("ExecutionTime",), statistic="Maximum"),
        counts("Watchdog", operations_namespace, [], watched, statistic="Maximum"),
    )
    nodes = plain("nodes", operations_namespace, "Nodes", "Average")
    canvas.graphs(
        counts("Nodes, and runs that hold or wait for one", operations_namespace, [], held, statistic="Maximum"),
        {
            **graph("Node-hours since the start of the range", (NODE_HOURS, "node-hours")),
            "metrics": [[{"expression": NODE_HOURS, "label": "node-hours", "id": "e1"}], nodes],
        },
        {
            **graph("Hours for which a run has held its node, the longest", (LEASE_HOURS, "lease")),
            "metrics": [
                [{"expression": LEASE_HOURS, "label": "lease", "id": "e1"}],
                plain("lease", operations_namespace, "LeaseAge", "Maximum"),
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
        {
            "type": "pattern",
            "pattern": EXPERIMENT,
            "inputType": "select",
            "id": "experiment",
            "label": "Experiment of several loads",
            "visible": True,
            "search": f'{{{names.METRIC_NAMESPACE},{",".join(sorted(OVER_LOAD))}}} MetricName="Speedup"',
            "populateFrom": "Experiment",
            "defaultValue": "__FIRST",
        },
    ]
