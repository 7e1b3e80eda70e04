"""Rehearsals of two rounds: four arms that fill the node, and cases that end when their speed-up is settled.

Not part of `make test` (three to six minutes):

    .venv/bin/pytest -s tests/end_to_end/waves.py
"""

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from specdecode import s3_keys
from specdecode.experiment import load_preset
from specdecode.records import RequestRecord

from tests.end_to_end.cloud import Cloud, deployed

CASES = ["repeat-line", "count", "library-docs"]
MOST = 40
CHANGES = {
    "workload.cases": CASES,
    "workload.requests": {"min": 4, "max": MOST, "precision": 0.05},
    "workload.output_tokens": 32,
    "workload.prompts": [],
}


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with deployed() as running:
        yield Cloud(running)


def test_four_arms_fill_the_node_and_each_has_another_device_group_in_the_second_round(cloud: Cloud) -> None:
    sd = load_preset("rehearsal").variants[1].model_dump(mode="json", exclude_none=True)
    arms = [{"name": "base", "label": "Base"}]
    for k in (3, 5, 7):
        speculation = {**sd["speculation"], "num_speculative_tokens": k}
        arms.append({**sd, "name": f"sd-{k}", "label": f"SD-{k}", "speculation": speculation})
    changes = {
        "variants": arms,
        "serving.devices": 4,
        "serving.tensor_parallel_size": 16,
        "workload.cases": ["repeat-line"],
        "workload.prompts": [],
        "workload.requests": 4,
        "workload.output_tokens": 32,
    }
    run = cloud.running.start("filled", {"experiment": "rehearsal", "set": changes})
    end = run.follow(cloud.running.progress)
    assert end.status == "SUCCEEDED", end.cause
    held = run.deployment.state(run.run_id).device_groups
    groups = {(each.variant, each.round): each.group for each in held}
    for round_ in (0, 1):
        own = [set(each.devices) for each in held if each.round == round_]
        assert [len(devices) for devices in own] == [4] * 4 and len(set.union(*own)) == 16, "the whole node"
    assert all(groups[arm["name"], 0] != groups[arm["name"], 1] for arm in arms)
    report = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
    assert [len(pair["cases"]) for pair in report["pairs"]] == [1, 1, 1]
    print(groups)


def test_a_run_sends_what_settles_each_case_and_its_report_says_how_much_and_why(cloud: Cloud) -> None:
    run = cloud.running.start("precision", {"experiment": "rehearsal", "set": CHANGES})
    end = run.follow(cloud.running.progress)
    assert end.status == "SUCCEEDED", end.cause
    report = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
    shown = cloud.stored(s3_keys.run_key(run.run_id, "report.md")).decode()
    sent = {case: _sent(cloud, run.run_id, case) for case in CASES}
    (pair,) = report["pairs"]
    for case in pair["cases"]:
        (count,) = set(sent[case["case"]].values())
        assert len(sent[case["case"]]) == 4, "two arms in two rounds, each as often"
        (note,) = (note for note in case["notes"] if note.startswith(("Measuring ended after", f"All {MOST} ")))
        ended = f"Measuring ended after {count} of at most {MOST} requests: the speed-up was settled"
        assert note.startswith(ended if count < MOST else f"All {MOST} requests were sent"), note
        assert note.split(":")[0] in shown
        print(f"{case['case']}: {note} {case['verdict']}")
    total, fixed = sum(sum(counts.values()) for counts in sent.values()), MOST * len(CASES) * 4
    print(f"{total} requests in place of {fixed}")
    assert total < fixed, (
        "no case was settled early: repeat-line is many times faster with its draft, on a busy machine too"
    )


def _sent(cloud: Cloud, run_id: str, case: str) -> Counter[tuple[str, int]]:
    """Measured requests by arm and round."""
    lines = [
        line
        for arm in ("base", "sd")
        for line in cloud.stored(s3_keys.run_key(run_id, "raw", arm, f"{case}.jsonl")).splitlines()
    ]
    records = [RequestRecord.model_validate_json(line) for line in lines]
    return Counter((record.variant, record.round) for record in records if not record.warmup)
