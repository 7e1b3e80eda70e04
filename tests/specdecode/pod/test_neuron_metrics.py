"""What a neuron-monitor beside a server becomes in CloudWatch. Reports: its user guide."""

import itertools
import json
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from specdecode.exit_codes import Exit
from specdecode.pod import neuron_metrics
from specdecode.pod.program import PodError

REPORTS = Path(__file__).with_name("neuron_monitor.jsonl")
LINES = REPORTS.read_text().splitlines()
UTILIZATION = {"SampleCount": 4.0, "Sum": 180.0, "Minimum": 0.0, "Maximum": 96.0}
MEMORY = {"SampleCount": 1.0, "Sum": 13e9, "Minimum": 13e9, "Maximum": 13e9}


def published(lines, *, send=None, seconds=1):
    """Calls of a monitor that reports every `seconds`."""
    calls = []
    neuron_metrics.publish(lines, variant="SD", send=send or calls.append, clock=itertools.count(0, seconds).__next__)
    return calls


def test_all_cores_and_reports_are_one_statistic_and_memory_is_that_of_all_runtimes():
    (data,) = published(LINES)
    assert {d["MetricName"]: (d["Unit"], d["StatisticValues"]) for d in data} == {
        "NeuronCoreUtilization": ("Percent", UTILIZATION),
        "NeuronDeviceMemoryUsed": ("Bytes", MEMORY),
    }
    assert all(d["Dimensions"] == [{"Name": "Variant", "Value": "SD"}] for d in data)


def test_one_call_a_minute_and_one_for_the_rest():
    assert [len(call) for call in published([LINES[1]] * 40, seconds=4)] == [2, 2, 2]
    assert len(published([LINES[1]] * 5, seconds=100)) == 5


def test_a_monitor_that_sees_nothing_says_so_and_sends_nothing(capsys):
    assert published([LINES[0]] * 5, seconds=100) == []
    assert capsys.readouterr().out.count("no NeuronCore in use") == 1


@pytest.mark.parametrize("line", ["", "{", "[]", "{}", '{"neuron_runtime_data": [{"pid": 1}]}', "3", "null"])
def test_a_report_in_another_format_is_said_once_and_passed_over(capsys, line):
    (data,) = published([line, line, LINES[1]])
    assert len(data) == 2
    assert capsys.readouterr().out.count("not in the known format") == 1


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "PutMetricData"),
        EndpointConnectionError(endpoint_url="https://monitoring.example.com"),
    ],
)
def test_what_cloudwatch_refuses_stops_nothing(capsys, error):
    tried = []

    def send(data):
        tried.append(data)
        raise error

    published([LINES[1]] * 4, send=send, seconds=100)
    assert len(tried) == 4
    assert capsys.readouterr().out.count("CloudWatch did not take") == 1


class FakeCloudWatch:
    def __init__(self):
        self.calls = []

    def put_metric_data(self, **call):
        self.calls.append(call)


@pytest.fixture
def cloudwatch(monkeypatch, tmp_path):
    client = FakeCloudWatch()
    monkeypatch.setattr(neuron_metrics.aws, "client", lambda service, config: client)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", "bundle")
    return client


def test_the_monitor_is_asked_for_what_is_published_and_its_end_is_told(cloudwatch, tmp_path):
    tool = tmp_path / "neuron-monitor"
    tool.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && cp "$2" asked.json\n[ -z "$PYTHONPATH" ] && cat "{REPORTS}"\nexit 3\n'
    )
    tool.chmod(0o755)
    with pytest.raises(PodError, match="ended with 3") as caught:
        neuron_metrics.main(["--variant", "SD"])
    assert caught.value.code == Exit.SERVER_EXITED
    (call,) = cloudwatch.calls
    assert call["Namespace"] == "Qwen/LLMPerf" and len(call["MetricData"]) == 2
    asked = json.loads((tmp_path / "asked.json").read_text())
    assert [m["type"] for r in asked["neuron_runtimes"] for m in r["metrics"]] == ["neuroncore_counters", "memory_used"]
    assert asked["system_metrics"] == []


def test_an_image_without_the_tool_is_named(cloudwatch):
    with pytest.raises(PodError, match="no neuron-monitor") as caught:
        neuron_metrics.main(["--variant", "SD"])
    assert caught.value.code == Exit.NOT_FOUND
