"""CloudWatch metrics of an arm in a case, with the public sample's names; and how metrics are sent."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from specdecode.measures.accounting import Accounting
from specdecode.measures.arm import Measured
from specdecode.measures.metrics.formulas import (
    error_rate,
    good_requests,
    goodput,
    time_per_output_token,
    tokens_per_step,
)

MAX_DATA_PER_CALL = 1000
MAX_VALUES_PER_DATUM = 150
MAX_CALL_BYTES = 900_000
"""PutMetricData's limits: 1000 metrics, 150 distinct values of a metric, 1 MB (here with room for the encoding)."""
_LARGEST = 2.0**360
_DIMENSION_LENGTH = 1024

Datum = dict[str, Any]
Dimensions = list[dict[str, str]]


def metric_data(measured: Measured, *, accounting: Accounting, places: Sequence[Dimensions]) -> list[Datum]:
    """Data of one arm, case and level, with each set of dimensions. The timestamp is the wall clock of its last answer.
    Goodput and GoodRequests (share of all requests) are included if the experiment has a service-level objective.
    """
    block, arm = measured.block, measured.arm
    figures = [accounting.figures(record) for record in block.completed]
    paced = figures if time_per_output_token.tag in arm.metrics else []  # not if it is impossible
    series: dict[tuple[str, str], list[float | None]] = {
        ("TTFT", "Seconds"): [f.ttft_s for f in figures],
        ("InterTokenLatency", "Seconds"): [f.inter_token_latency_s for f in paced],
        ("EndToEndLatency", "Seconds"): [f.end_to_end_latency_s for f in figures],
        ("RequestOutputThroughput", "Count/Second"): [f.output_throughput for f in figures],
        ("InputTokens", "Count"): [f.input_tokens for f in figures],
        ("OutputTokens", "Count"): [f.output_tokens for f in figures],
        ("TokensPerStep", "Count"): [value for _, value in measured.values.get(tokens_per_step.tag, ())],
        ("AcceptanceRate", "None"): [arm.acceptance_rate],
        ("ErrorRate", "None"): [arm.totals.get(error_rate.tag)],
        ("Goodput", "Count/Second"): [arm.totals.get(goodput.tag)],
        ("GoodRequests", "None"): [good_requests(block) / arm.requests if block.slo.asked else None],
    }
    at = max(record.started_at + record.end_s for record in block.records)
    data = []
    for place in places:
        for (name, unit), values in series.items():
            for part in _counted([value for value in values if value is not None]):
                data.append({"MetricName": name, "Dimensions": place, "Timestamp": at, "Unit": unit, **part})
    return data


def _counted(values: Sequence[float]) -> Iterator[dict[str, list[float]]]:
    """Values and how often each occurs, at most MAX_VALUES_PER_DATUM distinct ones at a time."""
    counts = list(Counter(float(value) for value in values).items())
    for start in range(0, len(counts), MAX_VALUES_PER_DATUM):
        part = counts[start : start + MAX_VALUES_PER_DATUM]
        yield {"Values": [value for value, _ in part], "Counts": [float(count) for _, count in part]}


def problems(datum: Datum) -> list[str]:
    """Why CloudWatch would refuse the datum, else None. One bad value makes it refuse the whole call."""
    found = [f"{datum['MetricName']}: no value"] if not datum["Values"] else []
    for value in datum["Values"]:
        if not math.isfinite(value) or abs(value) > _LARGEST:
            found.append(f"{datum['MetricName']}: {value} is not a number that CloudWatch takes")
    for dimension in datum["Dimensions"]:
        value = dimension["Value"]
        if not value.strip() or len(value) > _DIMENSION_LENGTH or value.startswith(":") or not value.isascii():
            found.append(f"{datum['MetricName']}: {value!r} is no value for the dimension {dimension['Name']}")
    return found


def calls(data: Iterable[Datum]) -> Iterator[list[Datum]]:
    """The data in as few calls as CloudWatch's limits allow."""
    batch: list[Datum] = []
    size = 0
    for datum in data:
        length = len(json.dumps(datum))
        if batch and (len(batch) == MAX_DATA_PER_CALL or size + length > MAX_CALL_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(datum)
        size += length
    if batch:
        yield batch


def publish(data: Iterable[Datum], *, namespace: str, client: Any) -> list[str]:
    """Send the data to CloudWatch with boto3's `client`. Returns errors in words; raises no error of CloudWatch's."""
    from botocore.exceptions import BotoCoreError, ClientError

    wrong: list[str] = []
    good: list[Datum] = []
    for datum in data:
        found = problems(datum)
        wrong += found
        good += [] if found else [datum]
    for call in calls(good):
        try:
            client.put_metric_data(Namespace=namespace, MetricData=call)
        except (BotoCoreError, ClientError) as error:
            return [*wrong, f"CloudWatch did not take the metrics: {error}"]
    return wrong
