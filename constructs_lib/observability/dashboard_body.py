"""The body of the CloudWatch dashboard: plain data from names, so that it can be tested without the CDK.

Source of the format: Amazon CloudWatch API Reference, "Dashboard body structure and syntax".

First what a person on duty needs, then the results. No prompt type, arm or experiment is named here: widgets are SEARCH
expressions. A SEARCH finds what had data in the last two weeks, at most 500 series a graph (CloudWatch User Guide,
"Search expression syntax"). Alarms on results use Metrics Insights, since no alarm can watch a SEARCH.
"""

from typing import Any

from specdecode import names

from constructs_lib.observability.dashboard_widgets import (
    STATISTIC,
    Canvas,
    bars,
    computed,
    graph,
    plain,
    search,
    values,
)

OF_REQUESTS = {
    "EndToEndLatency": "End-to-end latency, s",
    "InterTokenLatency": "Time per output token, s",
    "TTFT": "Time to first token, s",
    "RequestOutputThroughput": "Output throughput of a request, tokens/s",
    "TokensPerStep": "Tokens per step",
    "OutputTokens": "Output tokens",
    "InputTokens": "Input tokens",
}
"""Metrics with a value for each request, by their names in CloudWatch, which are the public sample's. Titles are the
report's.
"""
OF_ARMS = {"AcceptanceRate": "Draft acceptance rate", "ErrorRate": "Error rate"}
TRENDS = ("EndToEndLatency", "InterTokenLatency", "TTFT", "RequestOutputThroughput")
BY_LOAD = TRENDS[1:]
OF_EXPERIMENT = ("Experiment", "TestCase", "Variant")
OVER_LOAD = ("Experiment", "Load", "Variant")
"""Dimensions of a figure of all prompt types at one load. A figure of one type also has `TestCase`."""
START = "-P3D"
"""Time range of the dashboard: long enough that on Monday a run of Friday is still there."""
TREND = {"start": "-P3M", "period": 3600}
"""Time range of a trend. Each point is an hour, so about one run, and is kept for 455 days (CloudWatch User Guide,
"Metrics retention"). Points of five minutes are kept for 63 days only.
"""
EXPERIMENT, CASE, LOAD_CASE = "__EXPERIMENT__", "__TESTCASE__", "__LOADCASE__"
"""Texts that the dashboard's variables replace."""
NODE_HOURS = "RUNNING_SUM(FILL(nodes, 0) * PERIOD(nodes) / 3600)"
"""Node-hours. The watchdog counts nodes every five minutes; the mean of a period times its length is node-hours."""
STEPS = (
    "filter type like /StateEntered|^Execution(Succeeded|Failed|Aborted|TimedOut)/ "
    '| parse execution_arn "*:execution:*:*" as before, machine, run | fields coalesce(details.name, type) as at '
    "| stats latest(at) as step, latest(@timestamp) as since by run | sort since desc | limit 20"
)
"""Logs Insights: the last step that each run entered, or how it ended, from the state machine's log."""

ON_DUTY = """# On duty
Each alarm's description says what to do first; `docs/operations.md` has the rest. `specdecode status RUN_ID` shows a \
run, `specdecode stop RUN_ID` ends it and gives its node back, `specdecode capacity` shows who holds which node."""
RESULTS = f"""# Results of `{EXPERIMENT}` (choose the experiment above)
**Bars** are of all requests in the time range at the top right, one bar an arm; choose the range of one run to see \
that run alone. Verdicts and how sure they are: `specdecode report RUN_ID --open`. **Speed-up** above 1: the arm is \
faster than its baseline. **Outputs identical** below 1: the arms wrote different text at temperature 0; look at the \
first difference in the report before you believe a speed-up. **Time per output token** is by the server's count: \
a streamed chunk is not a token."""
OF_CASE = f"# Prompt type `{CASE}` over three months, every experiment that has it"
OF_LOADS = f"""# Over the load: experiments at several loads
`c0008`: 8 requests at a time; `r0000.5`: one every two seconds. Second row: prompt type `{LOAD_CASE}`."""
BY_CASE_AND_ARM = "${PROP('Dim.TestCase')} ${PROP('Dim.Variant')}"
BY_EXPERIMENT_AND_ARM = "${PROP('Dim.Experiment')} ${PROP('Dim.Variant')}"
BY_LOAD_AND_ARM = "${PROP('Dim.Experiment')} ${PROP('Dim.Load')} ${PROP('Dim.Variant')}"


def body(
    *,
    region: str,
    cluster_name: str,
    state_machine_arn: str,
    log_group: str,
    operations_namespace: str,
    node_price: float,
    alarm_arns: list[str],
) -> dict[str, Any]:
    """The whole dashboard. `node_price`: US dollars an hour of the deployment's node; `log_group`: of the machine."""
    canvas = Canvas(region=region)
    canvas.text(ON_DUTY, height=2)
    if alarm_arns:
        canvas.alarms("Alarms", alarm_arns)
    _operations(canvas, state_machine_arn, log_group, operations_namespace, node_price)
    _cluster(canvas, cluster_name)
    canvas.text(RESULTS, height=3)
    _results(canvas)
    canvas.text(OF_CASE, height=1)
    canvas.graphs(
        *(
            {**graph(_title(name), (search(name, OF_EXPERIMENT, TestCase=CASE), BY_EXPERIMENT_AND_ARM)), **TREND}
            for name in TRENDS
        )
    )
    canvas.text(OF_LOADS, height=2)
    _over_load(canvas)
    return {"start": START, "periodOverride": "inherit", "widgets": canvas.widgets, "variables": _variables()}


def _operations(canvas: Canvas, machine: str, log_group: str, namespace: str, price: float) -> None:
    watched = (
        ("WatchdogHeartbeat", "heartbeat"),
        ("NodesWithoutLease", "nodes that no run holds"),
        ("RunsReleasedByWatchdog", "runs that it ended"),
        ("WatchdogProblems", "problems"),
    )
    held = (("Nodes", "nodes"), ("RunsHolding", "runs that hold one"), ("RunsWaiting", "runs that wait for one"))
    ended = tuple((f"Executions{name}", name.lower()) for name in ("Started", "Succeeded", "Failed", "Aborted"))
    timed_out = ("ExecutionsTimedOut", "timed out")
    nodes = plain("nodes", namespace, "Nodes", "Average")
    lease = plain("lease", namespace, "LeaseAge", "Maximum")
    money = f"Since the start of the range (every node at ${price:.2f} an hour: at most)"
    canvas.graphs(
        values("Now", namespace, [], held, statistic="Maximum", view="singleValue"),
        computed("Longest hold now", [("lease / 3600", "hours")], lease),
        computed(money, [(NODE_HOURS, "node-hours"), (f"{NODE_HOURS} * {price:g}", "US dollars")], nodes),
        height=4,
    )
    canvas.log("Runs: the step that each entered last", log_group, STEPS)
    canvas.graphs(
        values("Runs", "AWS/States", ["StateMachineArn", machine], (*ended, timed_out), statistic="Sum"),
        values("Nodes, and runs that hold or wait for one", namespace, [], held, statistic="Maximum"),
        values("Watchdog", namespace, [], watched, statistic="Maximum"),
    )


def _cluster(canvas: Canvas, cluster_name: str) -> None:
    insights, cluster = "ContainerInsights", ["ClusterName", cluster_name]
    nodes = (("cluster_node_count", "all"), ("cluster_failed_node_count", "failed"))
    used = (("node_cpu_utilization", "CPU"), ("node_memory_utilization", "memory"))
    pods = (("namespace_number_of_running_pods", "pods"),)
    cores = search("NeuronCoreUtilization", ("Variant",), statistic="Average")
    canvas.graphs(
        values("Nodes of the cluster", insights, cluster, nodes, statistic="Maximum"),
        values("Node CPU and memory in use, %", insights, cluster, used, statistic="Maximum"),
        values("Running pods", insights, [*cluster, "Namespace", names.NAMESPACE], pods, statistic="Maximum"),
        graph("NeuronCores in use, %", (cores, "${PROP('Dim.Variant')}")),
        height=5,
    )


def _results(canvas: Canvas) -> None:
    """Every metric with a bar for each prompt type and arm, on one axis."""

    def of_all(name: str, title: str, statistic: str = "Average", note: float | None = None) -> dict[str, Any]:
        found = search(name, OF_EXPERIMENT, statistic=statistic, Experiment=EXPERIMENT)
        return bars(title, found, BY_CASE_AND_ARM, note=note)

    shown = [
        of_all("Speedup", "Speed-up over the baseline", note=1.0),
        of_all("CostPerMillionOutputTokens", "1M output tokens cost, $"),
        of_all("OutputsIdentical", "Outputs identical (1 = all)", "Minimum"),
        *(of_all(name, _title(name), STATISTIC) for name in OF_REQUESTS),
        *(of_all(name, title) for name, title in OF_ARMS.items()),
    ]
    for first in range(0, len(shown), 3):
        canvas.graphs(*shown[first : first + 3], height=15)
    speedup = search("Speedup", OF_EXPERIMENT, statistic="Average", Experiment=EXPERIMENT)
    canvas.graphs({**graph("Speed-up, run by run over three months", (speedup, BY_CASE_AND_ARM)), **TREND})


def _over_load(canvas: Canvas) -> None:
    """A bar for each load and arm."""
    gain = search("Speedup", OVER_LOAD, statistic="Average")
    kept = search("LargestLoadKept", ("Experiment", "Variant"), statistic="Average")
    canvas.graphs(
        bars("Speed-up over the baseline", gain, BY_LOAD_AND_ARM, note=1.0),
        bars("Largest load that keeps the objective, if there is one", kept, BY_EXPERIMENT_AND_ARM),
        height=7,
    )
    of_case = sorted((*OVER_LOAD, "TestCase"))
    good = search("GoodRequests", of_case, statistic="Average", TestCase=LOAD_CASE)
    canvas.graphs(
        *(bars(_title(name), search(name, of_case, TestCase=LOAD_CASE), BY_LOAD_AND_ARM) for name in BY_LOAD),
        bars("Requests that keep the objective (1 = all)", good, BY_LOAD_AND_ARM),
        height=9,
    )


def _title(name: str) -> str:
    return f"{OF_REQUESTS[name]}, {STATISTIC}"


def _variables() -> list[dict[str, Any]]:
    statistics = [{"value": value, "label": value} for value in (STATISTIC, "p90", "p99", "Average", "Minimum")]
    return [
        _choice("experiment", "Experiment", EXPERIMENT, OF_EXPERIMENT, "Experiment"),
        {**_variable("statistic", "Statistic", STATISTIC, "radio", STATISTIC), "values": statistics},
        _choice("testcase", "Prompt type, over time", CASE, OF_EXPERIMENT, "TestCase"),
        _choice("loadcase", "Prompt type, by load", LOAD_CASE, (*OVER_LOAD, "TestCase"), "TestCase"),
    ]


def _choice(id: str, label: str, pattern: str, dimensions: tuple[str, ...], of: str) -> dict[str, Any]:
    found = f'{{{",".join((names.METRIC_NAMESPACE, *sorted(dimensions)))}}} MetricName="TTFT"'
    return {**_variable(id, label, pattern, "select", "__FIRST"), "search": found, "populateFrom": of}


def _variable(id: str, label: str, pattern: str, kind: str, default: str) -> dict[str, Any]:
    shared = {"type": "pattern", "visible": True, "pattern": pattern, "defaultValue": default}
    return {**shared, "inputType": kind, "id": id, "label": label}
