"""Publish what neuron-monitor sees of a server: `python3 -m specdecode.pod.neuron_metrics --variant LABEL`.

Runs beside `vllm serve`, in the same pod and with the same devices. Each minute two CloudWatch metrics are sent:
NeuronCoreUtilization (percent, over all NeuronCores and reports of the minute) and NeuronDeviceMemoryUsed (bytes of
device memory of all the pod's runtimes). Format: aws-neuron-sdk, neuron-monitor-user-guide.rst.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from specdecode import aws, names
from specdecode.exit_codes import Exit
from specdecode.pod.program import Parser, PodError, run, say
from specdecode.untrusted import parse_json

EVERY_S = 60.0
CONFIG = {
    "period": "5s",
    "neuron_runtimes": [{"tag_filter": ".*", "metrics": [{"type": "neuroncore_counters"}, {"type": "memory_used"}]}],
    "system_metrics": [],
}
"""The metric groups that are published, and no more: each group costs the server CPU and device time."""

Datum = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """One report of neuron-monitor."""

    utilization: tuple[float, ...]
    """Percent, of each NeuronCore in use."""
    memory: float | None
    """Bytes of device memory of all runtimes. None if no runtime reports them."""


def main(arguments: Sequence[str]) -> None:
    """Run neuron-monitor for as long as it runs, and publish."""
    parser = Parser(description=__doc__)
    parser.add_argument("--variant", required=True, help="value of the dimension Variant")
    options = parser.parse_args(arguments)
    config = Path("neuron-monitor.json")
    config.write_text(json.dumps(CONFIG))
    client = aws.client("cloudwatch", config=Config(retries={"mode": "standard", "max_attempts": 4}))

    def send(data: list[Datum]) -> None:
        client.put_metric_data(Namespace=names.METRIC_NAMESPACE, MetricData=data)

    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = ["neuron-monitor", "-c", str(config)]
    try:
        monitor = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise PodError(Exit.NOT_FOUND, "this image has no neuron-monitor: no NeuronCore figures") from None
    with monitor:
        assert monitor.stdout is not None  # noqa: S101 (a pipe was asked for)
        publish(monitor.stdout, variant=options.variant, send=send)
    raise PodError(Exit.SERVER_EXITED, f"neuron-monitor ended with {monitor.returncode}: no more NeuronCore figures")


def publish(
    lines: Iterable[str],
    *,
    variant: str,
    send: Callable[[list[Datum]], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Send the metrics of each EVERY_S seconds of reports, and of the rest. Errors are printed and skipped."""
    samples: list[Sample] = []
    since, said = clock(), ""

    def flush() -> str:
        data = metric_data(samples, variant=variant)
        if not data:
            return "neuron-monitor reports no NeuronCore in use and no device memory"
        try:
            send(data)
        except (BotoCoreError, ClientError) as error:
            return f"CloudWatch did not take the NeuronCore figures: {error}"
        return ""

    for line in lines:
        try:
            samples.append(parse(line))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            problem = f"a report of neuron-monitor is not in the known format: {error!r}"
        else:
            if clock() - since < EVERY_S:
                continue
            problem, samples, since = flush(), [], clock()
        if problem and problem != said:
            say(problem)
            said = problem
    if samples and (problem := flush()):
        say(problem)


def parse(line: str) -> Sample:
    """One report. Raises ValueError, LookupError, TypeError or AttributeError for any other line."""
    reports = [runtime["report"] for runtime in parse_json(line)["neuron_runtime_data"] or () if not runtime["error"]]
    utilization = [
        float(core["neuroncore_utilization"])
        for group in _groups(reports, "neuroncore_counters")
        for core in group["neuroncores_in_use"].values()
    ]
    memory = [float(group["neuron_runtime_used_bytes"]["neuron_device"]) for group in _groups(reports, "memory_used")]
    return Sample(tuple(utilization), sum(memory) if memory else None)


def _groups(reports: Iterable[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The metric group of every report that has it and reports no error for it."""
    found = [report.get(name) for report in reports]
    return [group for group in found if group and not group["error"]]


def metric_data(samples: Iterable[Sample], *, variant: str) -> list[Datum]:
    """CloudWatch's statistics of the samples. A metric without a value is left out."""
    samples = list(samples)
    series = {
        ("NeuronCoreUtilization", "Percent"): [value for sample in samples for value in sample.utilization],
        ("NeuronDeviceMemoryUsed", "Bytes"): [sample.memory for sample in samples if sample.memory is not None],
    }
    return [
        {
            "MetricName": name,
            "Dimensions": [{"Name": "Variant", "Value": variant}],
            "Unit": unit,
            "StatisticValues": {
                "SampleCount": float(len(values)),
                "Sum": sum(values),
                "Minimum": min(values),
                "Maximum": max(values),
            },
        }
        for (name, unit), values in series.items()
        if values
    ]


if __name__ == "__main__":
    run(main)
