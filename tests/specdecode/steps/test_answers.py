"""A forecast from an earlier run's answers: what that run must be, what is planned then, and what pods may read."""

import json
from typing import Any

import pytest
from specdecode import manifests
from specdecode.analysis.results.comparison import read_report
from specdecode.experiment.told import Forecasted
from specdecode.planning import Plan
from specdecode.records import Servers
from specdecode.steps import report
from specdecode.steps.errors import InvalidExperiment, ReportFailed
from specdecode.steps.run import load_run, render_context

from tests.specdecode.steps.world import World

FIRST = {"experiment": "rehearsal-forecast", "set": {"workload.requests": 3, "workload.concurrency": [1, 2]}}
AGAIN = {"experiment": "rehearsal-forecast", "set": {"answers": "run-1"}}
RAW = "runs/run-1/raw/base/count.jsonl"


def measured(**changes: Any) -> World:
    """A world in which run-1 has measured. `changes`: of its experiment, by dotted paths."""
    world = World()
    world.plan("run-1", {**FIRST, "set": {**FIRST["set"], **changes}})
    world.s3.objects[RAW] = b"{}\n"
    return world


def planned(world: World, run_id: str = "run-2") -> Plan:
    return Plan.model_validate_json(world.s3.objects[f"runs/{run_id}/plan.json"])


def test_the_drafts_alone_are_served_and_they_read_all_prompts_of_that_run() -> None:
    world = measured()
    world.plan("run-2", AGAIN)
    first, found = planned(world, "run-1"), planned(world)
    (wave,) = found.waves
    assert [arm.variant for arm in wave.arms] == ["draft"]
    assert [model.model.id for model in found.models] == ["specdecode/pair-draft"]
    load, sent = found.experiment.workload, first.experiment.workload
    assert load.levels != sent.levels and len(load.levels) == 1
    assert {case.name: load.requests_of(case) for case in load.cases} == {
        case.name: sent.requests_of(case) for case in sent.cases
    }


def test_its_pods_read_the_raw_records_of_the_arm_that_is_read_and_nothing_else_of_that_run() -> None:
    world = measured()
    world.plan("run-2", AGAIN)
    run = load_run(world.rt.store, "run-2")
    ctx = render_context(run, world.rt)
    job, _, rights, (config,) = manifests.benchmark(run.plan, run.plan.waves[0], ctx)
    assert [key for key in rights.reads if "run-1" in key] == ["runs/run-1/raw/base/*"]
    assert not [key for key in rights.writes if "run-1" in key]
    script = job["spec"]["template"]["spec"]["containers"][0]["command"][2]
    assert (
        '--answers "s3://$BUCKET/runs/run-1/raw/"' in script and "--reader draft=" in script and "--arm" not in script
    )
    spec = json.loads(config["data"]["spec.json"])
    assert [arm["variant"] for arm in spec["arms"]] == ["base"]
    assert spec["tokenizer"].startswith("models/specdecode--pair-draft@"), "no file of the target is there"


OTHER = {"id": "specdecode/pair-target", "revision": "v2", "family": "specdecode-pair", "size_gib": 0.02}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no such run": ({}, {"answers": "run-0"}, "there is no run run-0 in s3://bucket/"),
    "another target": (
        {},
        {"target": OTHER},
        "was specdecode/pair-target@v1, and the target is specdecode/pair-target@v2",
    ),
    "sampled": (
        {"workload.temperature": 0.7, "variants": [{"name": "base", "label": "Base"}]},
        {},
        "(temperature 0.7)",
    ),
    "a larger window": ({"serving.max_model_len": 2048}, {}, "--set serving.max_model_len=2048"),
    "no such arm": ({"variants": [{"name": "plain", "label": "Base"}]}, {}, "no arm 'base' that answers without"),
    "nothing reads": ({}, {"variants": [{"name": "base", "label": "Base"}]}, "no arm reads them"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_run_whose_answers_cannot_be_read_is_refused_before_anything_is_made(case: str) -> None:
    before, then, says = REFUSED[case]
    world = measured(**before)
    with pytest.raises(InvalidExperiment) as refused:
        world.plan("run-2", {**AGAIN, "set": {**AGAIN["set"], **then}})
    assert says in str(refused.value) and str(refused.value).startswith("1 problem")
    assert "runs/run-2/plan.json" not in world.s3.objects


def test_a_run_without_raw_records_of_the_arm_is_refused() -> None:
    world = measured()
    del world.s3.objects[RAW]
    world.s3.objects["runs/run-1/raw/sd/count.jsonl"] = b"{}\n"
    with pytest.raises(InvalidExperiment, match="has no raw records of base: it measured none, or they have expired"):
        world.plan("run-2", AGAIN)


def test_a_damaged_plan_of_that_run_is_said() -> None:
    world = measured()
    world.s3.objects["runs/run-1/plan.json"] = b"{"
    with pytest.raises(InvalidExperiment, match="is no run's plan"):
        world.plan("run-2", AGAIN)


def test_its_report_has_the_forecast_and_says_that_nothing_was_measured() -> None:
    world = measured()
    world.plan("run-2", AGAIN)
    with pytest.raises(ReportFailed, match="there is no record"):
        report.report(world.given("run-2"), world.rt)
    told = Forecasted(draft="specdecode/pair-draft", case="count", prompts=4, at=((5, 3.5, 0.1),))
    world.s3.objects["runs/run-2/servers.json"] = Servers(run_id="run-2", forecast=(told,)).model_dump_json().encode()
    report.report(world.given("run-2"), world.rt)
    found = read_report(world.s3.objects["runs/run-2/report.json"])
    assert found.answer == "A forecast from the answers of run-1: nothing was measured."
    assert found.experiment.forecast == (told,) and found.arms == ()
    assert not [note for note in found.notes if "was not measured" in note]
    assert "| 3.50 |" in world.s3.objects["runs/run-2/report.md"].decode()
