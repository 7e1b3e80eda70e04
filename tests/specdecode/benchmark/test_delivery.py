"""Results reach S3, or it is said that they did not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError
from specdecode.benchmark.loading import Options
from specdecode.benchmark.place import PlaceError, S3Folder

from tests.specdecode.benchmark.making import spec
from tests.specdecode.benchmark.pace import Pace
from tests.specdecode.benchmark.running import records, run
from tests.specdecode.steps.aws_fake import FakeS3, denied


def away(operation: str, key: str) -> None:
    raise EndpointConnectionError(endpoint_url="https://s3")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> FakeS3:
    fake = FakeS3()
    monkeypatch.setattr("specdecode.aws.client", lambda service, **_: fake)
    return fake


def test_a_run_leaves_its_records_and_what_it_learned_of_the_servers(tmp_path: Path, aws: FakeS3) -> None:
    run(spec(), Options(folder=tmp_path, upload="s3://bucket/runs/run/"), Pace())
    assert set(aws.objects) == {"runs/run/raw/base/case.jsonl", "runs/run/servers.json"}
    servers = json.loads(aws.objects["runs/run/servers.json"])
    assert servers["arms"]["base"]["model"] == "good" and servers["counters"] == []


def test_a_pod_started_anew_goes_on_within_each_load(tmp_path: Path, aws: FakeS3) -> None:
    """What S3 has is of one load whole and of the other in part: only the rest is sent, each request once."""
    given = spec(requests=4, concurrency=(1, 2), warmup_requests=0)
    upload, key = "s3://bucket/runs/run/", "runs/run/raw/base/case.jsonl"
    run(given, Options(folder=tmp_path / "first", upload=upload), Pace())
    lines = aws.objects[key].splitlines(keepends=True)
    lost = [line for line in lines if b'"level":"c2"' in line and b'"index":0' not in line]
    aws.objects[key] = b"".join(line for line in lines if line not in lost)
    pace = Pace()
    run(given, Options(folder=tmp_path / "second", upload=upload), pace)
    assert len(lost) == 3 and len(pace.prompts) == 1 + 3, "the probe, and the three that were lost"
    for content in (aws.objects[key], (tmp_path / "second" / "raw" / "base" / "case.jsonl").read_bytes()):
        found = sorted((record["level"], record["index"]) for record in map(json.loads, content.splitlines()))
        assert found == [(level, index) for level in ("c1", "c2") for index in range(4)]


@pytest.mark.parametrize("name", ["raw/base/case.jsonl", "servers.json"])
@pytest.mark.parametrize("fails", [away, denied])
def test_no_load_begins_before_it_is_known_what_was_measured(
    tmp_path: Path, aws: FakeS3, name: str, fails: Callable[[str, str], None]
) -> None:
    """It would write over it: one file holds the records of all rounds."""
    given, upload, pace = spec(requests=3, warmup_requests=0), "s3://bucket/runs/run/", Pace()
    run(given, Options(folder=tmp_path / "first", upload=upload), Pace())
    before, later = dict(aws.objects), given.model_copy(update={"round": 1})
    aws.before = lambda operation, key: fails(operation, key) if key == f"runs/run/{name}" else None
    with pytest.raises(PlaceError, match=f"cannot read s3://bucket/runs/run/{name}"):
        run(later, Options(folder=tmp_path / "second", upload=upload), pace)
    assert pace.prompts == [] and aws.objects == before
    aws.before = lambda *_: None
    assert not run(later, Options(folder=tmp_path / "third", upload=upload), pace).problems
    found = [json.loads(line) for line in aws.objects["runs/run/raw/base/case.jsonl"].splitlines()]
    assert [(each["round"], each["index"]) for each in found] == [(n, index) for n in (0, 1) for index in range(3)]


def test_what_is_known_of_the_servers_is_sent_when_it_changes(tmp_path: Path, aws: FakeS3) -> None:
    cases = [
        {"name": f"case-{n}", "label": f"case_{n}", "kind": "text", "text": "x", "structured": True} for n in range(9)
    ]
    given = spec(requests=1, warmup_requests=0, cases=cases)
    run(given, Options(folder=tmp_path, upload="s3://bucket/runs/run/"), Pace())
    assert aws.uploads.count("runs/run/servers.json") == 1
    assert len(set(aws.uploads)) == 1 + 9


def test_servers_of_another_version_or_damaged_lose_no_record(tmp_path: Path, aws: FakeS3) -> None:
    aws.objects["runs/run/servers.json"] = b"not JSON"
    outcome = run(spec(), Options(folder=tmp_path, upload="s3://bucket/runs/run/"), Pace())
    assert "servers.json cannot be read" in outcome.problems[0]
    assert len(records(tmp_path)) == 5
    later = {**json.loads(aws.objects["runs/run/servers.json"]), "a field": "of a later version"}
    aws.objects["runs/run/servers.json"] = json.dumps(later).encode()
    assert not run(spec(), Options(folder=tmp_path / "again", upload="s3://bucket/runs/run/"), Pace()).problems


def test_an_upload_that_fails_is_tried_again_at_the_end(tmp_path: Path, aws: FakeS3) -> None:
    aws.before = lambda operation, key: away(operation, key) if operation == "PutObject" else None
    outcome = run(spec(), Options(folder=tmp_path, upload="s3://bucket/runs/run/"), Pace())
    assert any("cannot" in problem for problem in outcome.problems)
    assert len(records(tmp_path)) == 5


def test_s3_addresses() -> None:
    assert S3Folder("s3://bucket/a/b").uri == "s3://bucket/a/b/"
    assert S3Folder("s3://bucket").uri == "s3://bucket/"
    for bad in ("bucket/a", "https://bucket/a", "s3:///a"):
        with pytest.raises(ValueError, match="s3://bucket/prefix/"):
            S3Folder(bad)


def test_what_s3_refuses_is_said(tmp_path: Path, aws: FakeS3) -> None:
    aws.before = away
    (tmp_path / "name").write_bytes(b"")
    with pytest.raises(PlaceError, match="s3://bucket/x/name"):
        S3Folder("s3://bucket/x").put("name", tmp_path / "name")
    with pytest.raises(PlaceError):
        S3Folder("s3://bucket/x").get("name")
