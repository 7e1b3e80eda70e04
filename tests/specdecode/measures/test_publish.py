"""The metrics of an arm's requests in CloudWatch's form and within its limits."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from specdecode.experiment.workload import Slo
from specdecode.measures.accounting import Accounting
from specdecode.measures.arm import measure_arm
from specdecode.measures.arm_case import Terms
from specdecode.measures.publish import MAX_DATA_PER_CALL, MAX_VALUES_PER_DATUM, calls, metric_data, problems, publish
from specdecode.records import ErrorKind

from tests.specdecode.benchmark.making import record

SAMPLE = [{"Name": "Variant", "Value": "v"}, {"Name": "TestCase", "Value": "c"}]
PLACES = [SAMPLE, [{"Name": "Experiment", "Value": "e"}, *SAMPLE]]
UNITS = {
    "TTFT": "Seconds", "InterTokenLatency": "Seconds", "EndToEndLatency": "Seconds",
    "RequestOutputThroughput": "Count/Second", "InputTokens": "Count", "OutputTokens": "Count",
    "TokensPerStep": "Count", "AcceptanceRate": "None", "ErrorRate": "None",
}  # fmt: skip
"""As PutMetricData's StandardUnit has them; the dashboard and the public sample read these names."""


class CloudWatch:
    def __init__(self, *refused: int) -> None:
        self.sent: list[dict[str, Any]] = []
        self.refused, self.asked = refused, 0

    def put_metric_data(self, *, Namespace: str, MetricData: list[dict[str, Any]]) -> None:
        self.asked += 1
        if self.asked in self.refused:
            raise ClientError({"Error": {"Code": "Throttling", "Message": "slowly"}}, "PutMetricData")
        assert Namespace == "N"
        self.sent += MetricData


def data(count: int, *, k: int = 1, gap_s: float = 0.1, slo: Slo | None = None) -> list[dict[str, Any]]:
    records = [
        record([0.1 + index / 1e5, 0.2, 0.2 + gap_s], tokens=5, chunk_tokens=[1, 2, 2], index=index)
        for index in range(count)
    ]
    records.append(record([], end=1, error=ErrorKind.TIMEOUT))
    measured = measure_arm(records, terms=Terms(k=k), slo=slo)
    return metric_data(measured, accounting=Accounting("usage"), places=PLACES)


def test_every_metric_has_its_unit_and_both_sets_of_dimensions() -> None:
    found = data(3)
    assert {datum["MetricName"]: datum["Unit"] for datum in found} == UNITS
    sets = [{entry["Name"]: entry["Value"] for entry in datum["Dimensions"]} for datum in found]
    assert sets == [{"Variant": "v", "TestCase": "c"}] * 9 + [{"Experiment": "e", "Variant": "v", "TestCase": "c"}] * 9
    values = {datum["MetricName"]: datum["Values"] for datum in found[:9]}
    assert values["OutputTokens"] == [5.0] and values["ErrorRate"] == [0.25] and values["AcceptanceRate"] == [1.0]
    assert values["TokensPerStep"] == [2.0] and len(values["TTFT"]) == 3
    assert {datum["Timestamp"] for datum in found} == {1_795_000_001.0}, "of the last answer's end"


def test_with_an_objective_goodput_and_the_share_of_good_requests_are_sent() -> None:
    found = {datum["MetricName"]: datum for datum in data(3, slo=Slo(ttft_s=0.100015))}
    assert found.keys() - UNITS.keys() == {"Goodput", "GoodRequests"}
    assert found["GoodRequests"]["Values"] == [0.5], "two of four: one is late, one failed"
    assert found["Goodput"]["Unit"] == "Count/Second" and found["Goodput"]["Values"] == [2.0], "within one second"


def test_what_is_impossible_is_not_published() -> None:
    names = {datum["MetricName"] for datum in data(3, k=0)}
    assert UNITS.keys() - names == {"TokensPerStep", "AcceptanceRate"}, "two tokens a step without speculation"
    slow = metric_data(measure_arm([record([0.1, 0.1, 0.1], tokens=3)]), accounting=Accounting("usage"), places=PLACES)
    assert "InterTokenLatency" not in {datum["MetricName"] for datum in slow}


def test_values_are_counted_and_cut_to_cloudwatchs_size() -> None:
    found = data(400)
    ttft = [datum for datum in found if datum["MetricName"] == "TTFT" and len(datum["Dimensions"]) == 2]
    assert [len(datum["Values"]) for datum in ttft] == [MAX_VALUES_PER_DATUM, MAX_VALUES_PER_DATUM, 100]
    tokens = [datum for datum in found if datum["MetricName"] == "OutputTokens"]
    assert [(datum["Values"], datum["Counts"]) for datum in tokens] == [([5.0], [400.0])] * 2


@pytest.mark.parametrize(("count", "width"), [(0, 1), (1, 1), (1000, 1), (1001, 1), (2500, 3), (900, 150)])
def test_calls_keep_to_the_limits_and_lose_nothing(count: int, width: int) -> None:
    one = {"MetricName": "TTFT", "Dimensions": [], "Values": [0.123456789] * width, "Counts": [1.0] * width}
    batches = list(calls([{**one, "Unit": number} for number in range(count)]))
    assert [datum["Unit"] for batch in batches for datum in batch] == list(range(count))
    assert all(0 < len(batch) <= MAX_DATA_PER_CALL for batch in batches)
    assert all(len(json.dumps(batch)) < 1_000_000 for batch in batches)


@pytest.mark.parametrize(
    "bad",
    [
        {"Values": [float("nan")]}, {"Values": [float("inf")]}, {"Values": []},
        {"Dimensions": [{"Name": "TestCase", "Value": " "}]}, {"Dimensions": [{"Name": "TestCase", "Value": ":x"}]},
        {"Dimensions": [{"Name": "TestCase", "Value": "größe"}]},
        {"Dimensions": [{"Name": "TestCase", "Value": "x" * 1025}]},
    ],
)  # fmt: skip
def test_bad_data_are_named_and_left_out(bad: dict[str, Any]) -> None:
    good, *_ = data(1)
    largest = {"Values": [2.0**360, -(2.0**360)], "Dimensions": [{"Name": "TestCase", "Value": "x" * 1024}]}
    assert problems({**good, **largest}) == []
    client = CloudWatch()
    assert problems({**good, **bad})
    assert publish([{**good, **bad}, good], namespace="N", client=client) == problems({**good, **bad})
    assert client.sent == [good]


def test_a_cloudwatch_that_refuses_is_said_and_nothing_is_raised() -> None:
    client = CloudWatch(2)
    many = data(1) * (MAX_DATA_PER_CALL // 10)
    (problem,) = publish(many, namespace="N", client=client)
    assert "Throttling" in problem and len(client.sent) == MAX_DATA_PER_CALL
