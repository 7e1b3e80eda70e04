"""The report step: from raw records to the files and the execution's output."""

import json

import pytest
from specdecode.benchmark.records import Chunk, RequestRecord
from specdecode.tasks import release, report
from specdecode.tasks.errors import ReportFailed

from tests.specdecode.tasks.world import World

FILES = {"report.html", "report.md", "report.csv", "report.json"}


def record(variant: str, case: str, index: int, seconds: float) -> RequestRecord:
    return RequestRecord(
        run_id="run-1",
        variant=variant,
        case=case,
        index=index,
        started_at=1_800_000_000.0 + index,
        sent_s=10.0 * index,
        end_s=seconds,
        chunks=(Chunk(at_s=0.1, chars=4), Chunk(at_s=seconds, chars=400)),
        requested_input_tokens=64,
        requested_output_tokens=100,
        prompt_tokens=64,
        completion_tokens=100,
        prompt_sha256=f"{index:064d}",
        output="the same",
        finish_reason="length",
    )


def measured() -> World:
    world = World()
    world.run_through()
    release.release(world.given("run-1"), world.rt)
    for variant, seconds in (("base", 2.0), ("sd", 1.0)):
        lines = [record(variant, "repeat-line", index, seconds + index / 100).model_dump_json() for index in range(8)]
        world.s3.objects[f"runs/run-1/raw/{variant}/repeat-line.jsonl"] = "\n".join(lines).encode()
    return world


def test_the_report_lies_beside_the_raw_files_and_the_output_says_so():
    world = measured()
    answer = report.report(world.given("run-1"), world.rt)
    assert {key.removeprefix("runs/run-1/") for key in world.s3.objects} >= FILES
    assert answer.report == "s3://bucket/runs/run-1/report.html"
    assert answer.verdict
    assert len(answer.model_dump_json()) < 4096
    document = json.loads(world.s3.objects["runs/run-1/report.json"])
    assert document["run_id"] == "run-1"
    assert document["context"]["node_seconds"] > 0
    assert {group["variant"] for group in document["context"]["device_groups"]} == {"base", "sd"}


def test_the_engines_counters_are_taken_from_the_benchmark_s_summary():
    counters = {
        "drafts": 5,
        "draft_tokens": 25,
        "accepted_tokens": 20,
        "accepted_per_position": [5, 5, 4, 3, 3],
        "trusted": True,
        "contradiction": None,
    }
    blocks = [
        {"variant": "sd", "case": "a", "round": 0, "counters": counters},
        {"variant": "base", "case": "a", "round": 0},
    ]
    (found,) = report.engine_counters({"blocks": blocks})
    assert (found.variant, found.case, found.accepted_tokens, found.trusted) == ("sd", "a", 20, True)
    assert report.engine_counters(None) == ()


def test_a_run_without_records_has_no_report():
    world = measured()
    world.s3.objects = {key: value for key, value in world.s3.objects.items() if "/raw/" not in key}
    with pytest.raises(ReportFailed, match="no record"):
        report.report(world.given("run-1"), world.rt)


def test_a_damaged_line_is_named():
    world = measured()
    world.s3.objects["runs/run-1/raw/sd/repeat-line.jsonl"] += b'\n{"run_id": 1}'
    with pytest.raises(ReportFailed, match=r"raw/sd/repeat-line\.jsonl line 9"):
        report.report(world.given("run-1"), world.rt)
