"""A rehearsal of each kind of engine: a draft that is always right reads 100 % on both, through the real state machine.

Not part of `make test` (two to four minutes):

    .venv/bin/pytest -s tests/end_to_end/kinds.py
"""

import json
from collections.abc import Iterator

import pytest
from specdecode import s3_keys

from tests.end_to_end.cloud import Cloud, deployed

pytestmark = pytest.mark.timeout(600)
K = 7


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with deployed() as running:
        yield Cloud(running)


@pytest.mark.parametrize(
    ("preset", "most", "source"),
    [
        ("rehearsal", K + 1, "engine counters"),
        ("rehearsal-nxdi", K, "estimated from tokens per streamed chunk"),
    ],
)
def test_a_draft_that_is_always_right_is_accepted_wholly(cloud: Cloud, preset: str, most: int, source: str) -> None:
    """The first token comes with the prompt; every step after it is a whole one, so that no answer cuts one short."""
    changes = {
        "variants.sd.speculation.num_speculative_tokens": K,
        "workload.cases": ["count"],
        "workload.output_tokens": 1 + 8 * most,
        "workload.requests": 4,
    }
    run = cloud.running.start(f"kind-{most}", {"experiment": preset, "set": changes})
    end = run.follow(cloud.running.progress)
    assert end.status == "SUCCEEDED", end.cause
    report = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
    (arm,) = (arm for arm in report["arms"] if arm["variant"] == "sd")
    steps, acceptance = arm["metrics"]["tokens_per_step"]["p50"], arm["totals"]["acceptance_rate"]
    print(f"{preset}: {steps:g} of {most} tokens a step, acceptance {acceptance:.1%} ({arm['acceptance_source']})")
    assert (steps, acceptance) == (most, pytest.approx(1.0))
    assert arm["acceptance_source"] == source
    shown = cloud.stored(s3_keys.run_key(run.run_id, "report.md")).decode()
    assert "| Draft acceptance rate | – | 100% |" in shown
    (pair,) = report["pairs"]
    assert [case["equality"]["identical"] for case in pair["cases"]] == [8], "4 requests in each of two rounds"
