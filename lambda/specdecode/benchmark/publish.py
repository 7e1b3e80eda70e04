"""CloudWatch metrics of a block of requests, as the public sample names them; kept on disk until they are sent."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from specdecode.benchmark.accounting import Accounting
from specdecode.benchmark.metrics import AcceptanceRate, Block, ErrorRate, NoValue, TokensPerStep
from specdecode.benchmark.results import replace_file

MAX_DATA_PER_CALL = 1000
MAX_VALUES_PER_DATUM = 150
MAX_CALL_BYTES = 900_000
"""PutMetricData's limits: 1000 metrics, 150 distinct values of a metric, 1 MB (here with room for the encoding)."""
_LARGEST = 2.0**360
SPOOL = "metrics-unsent.jsonl"
"""File of a run's folder with the metrics that CloudWatch has not taken yet: a line is the data of one call."""
QUIET_S = 300.0
"""For so long CloudWatch is left alone after it did not answer."""
_RETRIES = {"mode": "standard", "max_attempts": 3}
_DIMENSION_LENGTH = 1024

Datum = dict[str, Any]


def metric_data(
    block: Block, *, accounting: Accounting, experiment: str, variant: str, case: str, at: float
) -> list[Datum]:
    """The block's metrics with both sets of dimensions. `at`: wall clock of its last answer."""
    figures = [accounting.figures(record) for record in block.completed]
    series: dict[tuple[str, str], list[float | None]] = {
        ("TTFT", "Seconds"): [f.ttft_s for f in figures],
        ("InterTokenLatency", "Seconds"): [f.inter_token_latency_s for f in figures],
        ("EndToEndLatency", "Seconds"): [f.end_to_end_latency_s for f in figures],
        ("RequestOutputThroughput", "Count/Second"): [f.output_throughput for f in figures],
        ("InputTokens", "Count"): [f.input_tokens for f in figures],
        ("OutputTokens", "Count"): [f.output_tokens for f in figures],
        ("TokensPerStep", "Count"): [_or_none(lambda r=record: TokensPerStep.value(r)) for record in block.completed],
        ("AcceptanceRate", "None"): [_or_none(lambda: AcceptanceRate.block_value(block))],
        ("ErrorRate", "None"): [_or_none(lambda: ErrorRate.block_value(block))],
    }
    arm = [{"Name": "Variant", "Value": variant}, {"Name": "TestCase", "Value": case}]
    data = []
    for dimensions in (arm, [{"Name": "Experiment", "Value": experiment}, *arm]):
        for (name, unit), values in series.items():
            for part in _counted([value for value in values if value is not None]):
                data.append({"MetricName": name, "Dimensions": dimensions, "Timestamp": at, "Unit": unit, **part})
    return data


def _or_none(value: Any) -> float | None:
    try:
        return float(value())
    except NoValue:
        return None


def _counted(values: Sequence[float]) -> Iterator[dict[str, list[float]]]:
    """Values and how often each occurs, at most MAX_VALUES_PER_DATUM distinct ones at a time."""
    counts = list(Counter(float(value) for value in values).items())
    for start in range(0, len(counts), MAX_VALUES_PER_DATUM):
        part = counts[start : start + MAX_VALUES_PER_DATUM]
        yield {"Values": [value for value, _ in part], "Counts": [float(count) for _, count in part]}


def problems(datum: Datum) -> list[str]:
    """Why CloudWatch would refuse the datum; it refuses the whole call for one bad value."""
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


def spooled(content: bytes) -> list[list[Datum]]:
    """The calls that a spool file holds."""
    return [json.loads(line) for line in content.splitlines()]


class Publisher:
    """Sends metrics; what cannot be sent waits in the run's folder, and is sent before anything newer.

    Without a folder nothing waits. `client`: boto3's CloudWatch client, made when first used if it is not given.
    """

    def __init__(
        self,
        *,
        namespace: str,
        folder: Path | None,
        client: Any = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._namespace = namespace
        self._monotonic = monotonic
        self._quiet_until = -math.inf
        self._given_client = client
        self._keeps = folder is not None
        self.spool = (folder or Path()) / SPOOL

    @cached_property
    def _client(self) -> Any:
        if self._given_client is not None:
            return self._given_client
        from botocore.config import Config

        from specdecode import aws

        return aws.client("cloudwatch", config=Config(connect_timeout=5, read_timeout=10, retries=_RETRIES))

    def publish(self, data: Sequence[Datum], *, at_once: bool = False) -> list[str]:
        """Send what waits and then `data`; what went wrong, in words. Never raises for CloudWatch's sake.

        For QUIET_S after CloudWatch did not answer `data` only joins what waits: each attempt costs the node's time.
        `at_once` tries all the same.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        wrong = [problem for datum in data for problem in problems(datum)]
        fresh = list(calls(datum for datum in data if not problems(datum)))
        if self._monotonic() < self._quiet_until and not at_once:
            self._join(fresh)
            return wrong
        waiting = [*self._waiting(), *fresh]
        while waiting:
            try:
                self._client.put_metric_data(Namespace=self._namespace, MetricData=waiting[0])
            except (BotoCoreError, ClientError) as error:
                kept = f", kept in {self.spool}" if self._keeps else ""
                wrong.append(f"CloudWatch did not take the metrics{kept}: {error}")
                self._quiet_until = self._monotonic() + QUIET_S
                break
            waiting.pop(0)
        self._keep(waiting)
        return wrong

    @property
    def unsent(self) -> int:
        """Metrics that wait."""
        return sum(len(call) for call in self._waiting())

    def _waiting(self) -> list[list[Datum]]:
        if not self._keeps or not self.spool.exists():
            return []
        return spooled(self.spool.read_bytes())

    def _join(self, fresh: Sequence[list[Datum]]) -> None:
        """Add to what waits, without reading it."""
        if not self._keeps:
            return
        with self.spool.open("ab") as file:
            file.write("".join(json.dumps(call) + "\n" for call in fresh).encode())

    def _keep(self, waiting: Sequence[list[Datum]]) -> None:
        if not self._keeps:
            return
        if waiting:
            self.spool.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.spool, "".join(json.dumps(call) + "\n" for call in waiting).encode())
        else:
            self.spool.unlink(missing_ok=True)
