"""A level that takes two clients, through the real state machine: merged, and marked where one of them dies.

Not part of `make test` (two minutes):

    .venv/bin/pytest -s tests/end_to_end/clients.py
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from specdecode import names, s3_keys
from specdecode.kubernetes.pods import container_statuses
from specdecode.records import RequestRecord

from rehearsal.execution import Run
from tests.end_to_end.cloud import Cloud, deployed

INDEX = "batch.kubernetes.io/job-completion-index"
TWO = {
    "workload.cases": ["repeat-line"],
    "workload.requests": 24,
    "workload.output_tokens": 48,
    "workload.rounds": 1,
    "workload.concurrency": 4,
    "workload.streams_per_client": 2,
}


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with deployed() as running:
        yield Cloud(running)


def merged(cloud: Cloud, run: Run, variant: str) -> list[RequestRecord]:
    found = [
        line
        for key, data in cloud.kept(run, "raw", variant).items()
        if key.endswith(".jsonl")
        for line in data.splitlines()
    ]
    return [record for line in found if not (record := RequestRecord.model_validate_json(line)).warmup]


def report_of(cloud: Cloud, run: Run) -> dict[str, Any]:
    return dict(json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json"))))


def test_two_clients_measure_a_level_together(cloud: Cloud) -> None:
    run = cloud.start("two-clients", TWO)
    cloud.until(lambda: len(cloud.pods("benchmark")) == 2, what="two benchmark pods")
    assert {pod["metadata"]["labels"][INDEX] for pod in cloud.pods("benchmark")} == {"0", "1"}
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", end.cause
    for variant in ("base", "sd"):
        found = merged(cloud, run, variant)
        assert Counter(record.index for record in found) == dict.fromkeys(range(24), 1)
        assert Counter((record.client, record.session) for record in found) == {(0, 0): 12, (1, 0): 12}
    report = report_of(cloud, run)
    assert [(arm["variant"], arm["requests"]) for arm in report["arms"]] == [("base", 24), ("sd", 24)]
    sd = report["arms"][1]
    assert sd["acceptance_source"] == "engine counters", "read once, over the requests of both clients"
    assert not any("doubtful: of its" in note for note in report["notes"])
    summary = s3_keys.run_key(run.run_id, "llmperf", "sd", "repeat-line") + "/"
    (key,) = (each for each in cloud.kept(run, "llmperf") if each.startswith(summary) and "_summary" in each)
    assert json.loads(cloud.stored(key))["results_num_requests_started"] == 24, "LLMPerf's files know of no clients"
    cloud.at_rest()


def test_a_client_that_dies_is_made_anew_and_the_level_is_marked(cloud: Cloud) -> None:
    run = cloud.start("one-dies", TWO | {"workload.requests": 60, "workload.output_tokens": 192})
    cloud.until(lambda: cloud.kept(run, *s3_keys.NOTES.rstrip("/").split("/")) and began(cloud, run), what="the load")
    victim = next(pod for pod in cloud.pods("benchmark") if pod["metadata"]["labels"][INDEX] == "1")
    assert any("running" in status["state"] for status in container_statuses(victim))
    cloud.control("kill", namespace=names.NAMESPACE, pod=victim["metadata"]["name"])
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", end.cause
    found = merged(cloud, run, "base") + merged(cloud, run, "sd")
    for variant in ("base", "sd"):
        assert Counter(record.index for record in found if record.variant == variant) == dict.fromkeys(range(60), 1)
    notes = [note for note in report_of(cloud, run)["notes"] if "at c4 is doubtful" in note]
    assert notes, "no request is missing, and who reads the report knows that it was no load of four"
    cloud.at_rest()


def began(cloud: Cloud, run: Run) -> bool:
    """Whether a block has begun and not ended."""
    keys = cloud.kept(run, *s3_keys.NOTES.rstrip("/").split("/"))
    return any(key.endswith("/start.json") for key in keys) and not any("/ended." in key for key in keys)
