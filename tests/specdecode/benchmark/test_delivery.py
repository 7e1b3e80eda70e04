"""Results reach S3 and CloudWatch, or wait until they can."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from specdecode.benchmark.accounting import accounting_of
from specdecode.benchmark.metrics import Block
from specdecode.benchmark.outcome import Options
from specdecode.benchmark.publish import (
    MAX_DATA_PER_CALL,
    MAX_VALUES_PER_DATUM,
    QUIET_S,
    Publisher,
    calls,
    metric_data,
    problems,
    spooled,
)
from specdecode.benchmark.records import ErrorKind
from specdecode.benchmark.s3 import S3Error, S3Folder

from tests.specdecode.benchmark.making import case, record, spec
from tests.specdecode.benchmark.pace import Pace
from tests.specdecode.benchmark.running import records, run


class FakeAws:
    """S3 and CloudWatch in memory, behind aws.client; `down` names the services that cannot be reached."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.asked = 0
        self.down: set[str] = set()

    def client(self, service: str, **_: object) -> FakeAws:
        return self

    def put_object(self, *, Bucket: str, Key: str, Body: BinaryIO, ContentType: str) -> None:
        self._reach("s3")
        self.objects[f"{Bucket}/{Key}"] = Body.read()
        self.puts.append(Key)

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        self._reach("s3")
        if f"{Bucket}/{Key}" not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": "none"}}, "GetObject")
        return {"Body": io.BytesIO(self.objects[f"{Bucket}/{Key}"])}

    def put_metric_data(self, *, Namespace: str, MetricData: list[dict[str, Any]]) -> None:
        self.asked += 1
        self._reach("cloudwatch")
        assert Namespace == "Qwen/LLMPerf"
        self.sent += MetricData

    def _reach(self, service: str) -> None:
        if service in self.down:
            raise EndpointConnectionError(endpoint_url=f"https://{service}")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> FakeAws:
    fake = FakeAws()
    monkeypatch.setattr("specdecode.aws.client", fake.client)
    return fake


def test_a_run_leaves_its_files_and_metrics(tmp_path: Path, aws: FakeAws) -> None:
    run(spec(), Options(folder=tmp_path, upload="s3://bucket/runs/run/", publish=True), Pace())
    assert set(aws.objects) == {
        "bucket/runs/run/raw/base/case.jsonl",
        "bucket/runs/run/summary.json",
        "bucket/runs/run/llmperf/base/case/round-0/good_64_8_summary.json",
        "bucket/runs/run/llmperf/base/case/round-0/good_64_8_individual_responses.json",
    }
    names = {datum["MetricName"] for datum in aws.sent}
    assert {"TTFT", "InterTokenLatency", "EndToEndLatency", "RequestOutputThroughput"} < names
    assert {"InputTokens", "OutputTokens", "TokensPerStep", "ErrorRate"} < names
    for datum in aws.sent:
        dimensions = {entry["Name"]: entry["Value"] for entry in datum["Dimensions"]}
        assert dimensions in (
            {"Variant": "BASE", "TestCase": "case"},
            {"Experiment": "experiment", "Variant": "BASE", "TestCase": "case"},
        )
    ttft = next(datum for datum in aws.sent if datum["MetricName"] == "TTFT")
    assert sum(ttft["Counts"]) == 4
    assert ttft["Unit"] == "Seconds"


def test_a_pod_started_anew_goes_on_from_s3(tmp_path: Path, aws: FakeAws) -> None:
    upload = "s3://bucket/runs/run/"
    run(spec(), Options(folder=tmp_path / "first", upload=upload), Pace())
    pace = Pace()
    run(spec(), Options(folder=tmp_path / "second", upload=upload), pace)
    assert len(pace.prompts) == 1
    assert records(tmp_path / "second") == records(tmp_path / "first")


def test_metrics_wait_while_cloudwatch_is_down(tmp_path: Path, aws: FakeAws) -> None:
    aws.down = {"cloudwatch"}
    options = Options(folder=tmp_path, upload="s3://bucket/runs/run/", publish=True)
    outcome = run(spec(), options, Pace())
    assert any("CloudWatch did not take" in problem for problem in outcome.unpublished)
    assert not outcome.problems  # what was measured is whole: the run goes on
    assert not aws.sent
    assert "bucket/runs/run/metrics-unsent.jsonl" in aws.objects
    waiting = Publisher(namespace="Qwen/LLMPerf", folder=tmp_path).unsent
    assert waiting > 10
    aws.down = set()
    assert Publisher(namespace="Qwen/LLMPerf", folder=tmp_path).publish([]) == []
    assert len(aws.sent) == waiting
    assert Publisher(namespace="Qwen/LLMPerf", folder=tmp_path).unsent == 0


def test_cloudwatch_that_is_away_for_hours_is_asked_seldom_and_gets_everything_later(
    tmp_path: Path, aws: FakeAws
) -> None:
    """A block a minute, two hours long: a question every five minutes, and the file of what waits is only added to."""
    aws.down, now = {"cloudwatch"}, [0.0]
    publisher = Publisher(namespace="Qwen/LLMPerf", folder=tmp_path, monotonic=lambda: now[0])
    block = data(2)
    for minute in range(120):
        now[0] = 60.0 * minute
        publisher.publish(block)
    assert aws.asked == 120 / (QUIET_S / 60)
    assert publisher.unsent == 120 * len(block)
    aws.down = set()
    assert publisher.publish([], at_once=True) == []
    assert len(aws.sent) == 120 * len(block) and publisher.unsent == 0


def test_a_summary_of_many_blocks_is_not_written_and_sent_with_each(tmp_path: Path, aws: FakeAws) -> None:
    cases = [
        {"name": f"case-{n}", "label": f"case_{n}", "kind": "text", "text": "x", "structured": True} for n in range(9)
    ]
    given = spec(requests=1, warmup_requests=0, cases=cases)
    run(given, Options(folder=tmp_path, upload="s3://bucket/runs/run/"), Pace())
    assert aws.puts.count("runs/run/summary.json") == 2  # with the first block, and at the end
    assert len(json.loads(aws.objects["bucket/runs/run/summary.json"])["blocks"]) == 9
    assert len(set(aws.puts)) == 1 + 3 * 9


def test_what_waits_is_sent_once_by_whoever_goes_on(tmp_path: Path, aws: FakeAws) -> None:
    """The next wave's pod, or a resumed run's, sends what lies in S3, which then holds it no more for the report."""
    aws.down = {"cloudwatch"}
    upload = "s3://bucket/runs/run/"
    run(spec(), Options(folder=tmp_path / "first", upload=upload, publish=True), Pace())
    waiting = [datum for call in spooled(aws.objects["bucket/runs/run/metrics-unsent.jsonl"]) for datum in call]
    aws.down = set()
    second = spec(arms=("sd",)).model_copy(update={"round": 1, "wave": 1})
    run(second, Options(folder=tmp_path / "second", upload=upload, publish=True), Pace())
    assert aws.sent[: len(waiting)] == waiting
    assert sum(datum in waiting for datum in aws.sent) == len(waiting)
    assert aws.objects["bucket/runs/run/metrics-unsent.jsonl"] == b""


def test_metrics_wait_in_s3_as_soon_as_their_block_is_over(tmp_path: Path, aws: FakeAws) -> None:
    """A pod that is killed later loses none."""
    given, states = spec(cases=(case(name="one"), case(name="two"))), list[bytes]()
    aws.down = {"cloudwatch"}
    stored = aws.put_object

    def watched(**put: Any) -> None:
        stored(**put)
        states.append(aws.objects.get("bucket/runs/run/metrics-unsent.jsonl", b""))

    aws.put_object = watched
    run(given, Options(folder=tmp_path, upload="s3://bucket/runs/run/", publish=True), Pace())
    sizes = [len(spooled(state)) for state in states]
    assert sizes == sorted(sizes)
    assert {0, 1, 2} == set(sizes)


def test_a_finished_block_is_not_published_again(tmp_path: Path, aws: FakeAws) -> None:
    upload = "s3://bucket/runs/run/"
    run(spec(), Options(folder=tmp_path / "first", upload=upload, publish=True), Pace())
    sent = list(aws.sent)
    run(spec(), Options(folder=tmp_path / "second", upload=upload, publish=True), Pace())
    assert aws.sent == sent


def test_an_upload_that_fails_is_tried_again_at_the_end(tmp_path: Path, aws: FakeAws) -> None:
    aws.down = {"s3"}
    outcome = run(spec(), Options(folder=tmp_path, upload="s3://bucket/runs/run/"), Pace())
    assert any("cannot" in problem for problem in outcome.problems)
    assert len(records(tmp_path)) == 5


def test_s3_addresses() -> None:
    assert S3Folder("s3://bucket/a/b").uri == "s3://bucket/a/b/"
    assert S3Folder("s3://bucket").uri == "s3://bucket/"
    for bad in ("bucket/a", "https://bucket/a", "s3:///a"):
        with pytest.raises(ValueError, match="s3://bucket/prefix/"):
            S3Folder(bad)


def test_what_s3_refuses_is_said(tmp_path: Path, aws: FakeAws) -> None:
    aws.down = {"s3"}
    (tmp_path / "name").write_bytes(b"")
    with pytest.raises(S3Error, match="s3://bucket/x/name"):
        S3Folder("s3://bucket/x").put("name", tmp_path / "name")
    with pytest.raises(S3Error):
        S3Folder("s3://bucket/x").get("name")


def data(count: int) -> list[dict[str, Any]]:
    block = Block(
        records=[record([0.1 + index / 1e5, 0.3], tokens=9, index=index) for index in range(count)]
        + [record([], end=1, error=ErrorKind.TIMEOUT)]
    )
    return metric_data(block, accounting=accounting_of("usage"), experiment="e", variant="v", case="c", at=1.0)


def test_values_are_counted_and_cut_to_cloudwatchs_size() -> None:
    found = data(400)
    ttft = [datum for datum in found if datum["MetricName"] == "TTFT" and len(datum["Dimensions"]) == 2]
    assert [len(datum["Values"]) for datum in ttft] == [MAX_VALUES_PER_DATUM, MAX_VALUES_PER_DATUM, 100]
    tokens = [datum for datum in found if datum["MetricName"] == "OutputTokens"]
    assert [(datum["Values"], datum["Counts"]) for datum in tokens] == [([9.0], [400.0])] * 2


@pytest.mark.parametrize(("count", "width"), [(0, 1), (1, 1), (1000, 1), (1001, 1), (2500, 3), (900, 150)])
def test_calls_keep_to_the_limits_and_lose_nothing(count: int, width: int) -> None:
    one = {"MetricName": "TTFT", "Dimensions": [], "Values": [0.123456789] * width, "Counts": [1.0] * width}
    batches = list(calls([{**one, "Unit": number} for number in range(count)]))
    assert [datum["Unit"] for batch in batches for datum in batch] == list(range(count))
    assert all(0 < len(batch) <= MAX_DATA_PER_CALL for batch in batches)
    assert all(len(json.dumps(batch)) < 1_000_000 for batch in batches)


def test_bad_data_are_named_and_left_out(tmp_path: Path, aws: FakeAws) -> None:
    good, *_ = data(1)
    for bad in (
        {**good, "Values": [float("nan")]},
        {**good, "Values": [float("inf")]},
        {**good, "Values": []},
        {**good, "Dimensions": [{"Name": "TestCase", "Value": " "}]},
        {**good, "Dimensions": [{"Name": "TestCase", "Value": ":x"}]},
        {**good, "Dimensions": [{"Name": "TestCase", "Value": "größe"}]},
        {**good, "Dimensions": [{"Name": "TestCase", "Value": "x" * 1025}]},
    ):
        assert problems(bad)
        assert Publisher(namespace="Qwen/LLMPerf", folder=tmp_path).publish([bad, good]) == problems(bad)
    assert len(aws.sent) == 7
