"""A rehearsal in which cases end when their speed-up is settled, through the real state machine, in two rounds.

Not part of `make test` (two to four minutes):

    .venv/bin/pytest -s tests/rehearsal_precision.py
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator

import pytest
from rich.console import Console
from specdecode import layout
from specdecode.experiment import load_preset
from specdecode.records import RequestRecord

from rehearsal import tools
from rehearsal.console import Progress
from rehearsal.rehearse import rehearsal
from tests.rehearsal_cloud import Cloud

pytestmark = pytest.mark.timeout(600)
CASES = ["repeat-line", "count", "library-docs"]
MOST = 40
CHANGES = {
    "workload.cases": CASES,
    "workload.requests": {"min": 4, "max": MOST, "precision": 0.05},
    "workload.output_tokens": 32,
}


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    tools.check()
    with rehearsal(Progress(console=Console(file=io.StringIO(), width=160))) as running:
        running.deploy()
        running.import_models(load_preset("rehearsal"))
        yield Cloud(running)
    assert running.left() == []
    running.forget()


def test_a_run_sends_what_settles_each_case_and_its_report_says_how_much_and_why(cloud: Cloud) -> None:
    run = cloud.running.start("precision", {"experiment": "rehearsal", "set": CHANGES})
    end = run.follow(cloud.running.progress)
    assert end.status == "SUCCEEDED", end.cause
    report = json.loads(cloud.stored(layout.run_key(run.run_id, "report.json")))
    shown = cloud.stored(layout.run_key(run.run_id, "report.md")).decode()
    sent = {case: _sent(cloud, run.run_id, case) for case in CASES}
    (pair,) = report["pairs"]
    for case in pair["cases"]:
        (count,) = set(sent[case["case"]].values())
        assert len(sent[case["case"]]) == 4, "two arms in two rounds, each as often"
        (note,) = (note for note in case["notes"] if note.startswith(("Measuring ended after", "All ")))
        ended = f"Measuring ended after {count} of at most {MOST} requests: the speed-up was settled"
        assert note.startswith(ended if count < MOST else f"All {MOST} requests were sent"), note
        assert note.split(":")[0] in shown
        print(f"{case['case']}: {note} {case['verdict']}")
    total, fixed = sum(sum(counts.values()) for counts in sent.values()), MOST * len(CASES) * 4
    print(f"{total} requests in place of {fixed}")
    assert total < 0.6 * fixed, "this pair's speed-ups are large"


def _sent(cloud: Cloud, run_id: str, case: str) -> Counter[tuple[str, int]]:
    """Measured requests by arm and round."""
    lines = [
        line
        for arm in ("base", "sd")
        for line in cloud.stored(layout.run_key(run_id, "raw", arm, f"{case}.jsonl")).splitlines()
    ]
    records = [RequestRecord.model_validate_json(line) for line in lines]
    return Counter((record.variant, record.round) for record in records if not record.warmup)
