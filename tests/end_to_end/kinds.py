"""A rehearsal of each kind of engine: a draft that is always right reads 100 % on both, through the real state machine.
And a forecast from the answers of an earlier run, on a node without devices.

Not part of `make test` (two to four minutes):

    .venv/bin/pytest -s tests/end_to_end/kinds.py
"""

import json
import re
from collections.abc import Iterator

import pytest
from specdecode import s3_keys
from specdecode.analysis.advice.payoff import beside
from specdecode.analysis.results.comparison import Comparison, read_report

from tests.end_to_end.cloud import Cloud, deployed

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


FEW = {
    "workload.cases": ["json-records"],
    "workload.prompts": [{"set": "pair", "categories": ["talk"], "output_tokens": 24}],
    "workload.requests": 2,
    "start_check": False,
}


def test_a_forecast_from_an_earlier_run_s_answers_is_what_that_run_measured_and_keeps_no_text(cloud: Cloud) -> None:
    first, known = forecast_run(cloud, FEW)
    again, told = forecast_run(cloud, {"answers": first, "start_check": False})
    experiment = known.experiment.model_copy(update={"forecast": told.experiment.forecast})
    found = beside(experiment, known.pairs, known.arms)
    print("; ".join(f"{one.case}: forecast {one.told:.3f}, measured {one.measured:.3f}" for one in found))
    assert {one.case for one in found} == {"json-records", "talk"} and max(one.off for one in found) < 1e-3
    assert told.arms == () and told.answer == f"A forecast from the answers of {first}: nothing was measured."
    s3 = cloud.running.services.client("s3")
    listed = s3.list_objects_v2(Bucket=cloud.running.bucket, Prefix=s3_keys.run_prefix(again))["Contents"]
    kept = {item["Key"]: cloud.stored(item["Key"]).decode() for item in listed}
    written = cloud.stored(s3_keys.run_key(first, "raw", "base", "talk.jsonl")).decode()
    phrases = re.findall(r"[A-Za-z ]{16,}", "".join(json.loads(line)["output"] for line in written.splitlines()))
    assert phrases and not [key for key, text in kept.items() for phrase in phrases if phrase in text]
    assert not [key for key in kept if "/raw/" in key or "/conversations/" in key]


def forecast_run(cloud: Cloud, changes: dict[str, object]) -> tuple[str, Comparison]:
    run = cloud.running.start("forecast", {"experiment": "rehearsal-forecast", "set": changes})
    end = run.follow(cloud.running.progress)
    assert end.status == "SUCCEEDED", end.cause
    return run.run_id, read_report(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
