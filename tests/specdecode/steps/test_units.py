"""One run on several nodes: its units are runs of their own, tried again once elsewhere, and reported together."""

from __future__ import annotations

import json

import pytest
import yaml
from specdecode import names, s3_keys
from specdecode.experiment import Capacity, assets_dir
from specdecode.runs.state import RunUnit, change_state
from specdecode.steps import measure_units, plan, report
from specdecode.steps.errors import InvalidExperiment, ReportFailed, UnitFailed
from specdecode.steps.units import finished_arms

from tests.specdecode.steps.units import GRID, REQUEST, Units
from tests.specdecode.steps.world import MACHINE, arn


@pytest.fixture
def world() -> Units:
    return Units()


def test_a_run_on_two_nodes_starts_two_units_with_their_share_and_the_baseline(world):
    planned = world.begin_units()
    assert planned.units and planned.waves == 0
    assert world.look().message == "0 of 2 units are measured; run-n1, run-n2 go on"
    assert world.started == ["run-n1", "run-n2"]
    sent = [json.loads(given["input"]) for given in world.states.started]
    assert all(item["unit_of"] == "run" and item["started_by"] == "anna" for item in sent)
    assert {given["stateMachineArn"] for given in world.states.started} == {MACHINE}
    for unit in world.started:
        world.measure(unit)
    arms = [
        [variant.name for variant in measure_units.load_run(world.rt.store, unit).plan.experiment.variants]
        for unit in world.started
    ]
    assert arms == [["base", "sd-k2", "sd-k4"], ["base", "sd-k6", "sd-k8"]]
    assert len({world.state(unit).node for unit in world.started}) == 2


def test_looking_again_starts_nothing_twice(world):
    world.begin_units()
    for _ in range(3):
        world.look()
    assert world.started == ["run-n1", "run-n2"]


def test_the_report_brings_the_units_together_and_each_arm_is_beside_its_own_baseline(world):
    world.begin_units()
    world.look()
    for unit in world.started:
        world.measure(unit)
    for unit in world.started:
        report.report(world.given(unit), world.rt)
        world.end(unit)
    assert not world.cloudwatch.data, "units publish nothing"
    done = world.look()
    assert done.done and done.message == "2 of 2 units are measured"
    answer = report.report(world.given("run"), world.rt)
    assert answer.verdict
    units = {(variant, unit) for variant, unit, _ in world.merged()}
    assert units == {("base", 1), ("sd-k2", 1), ("sd-k4", 1), ("base", 2), ("sd-k6", 2), ("sd-k8", 2)}
    assert world.cloudwatch.data
    written = json.loads(world.s3.objects[s3_keys.run_key("run", "report.json")])
    assert {part["unit"]: part["node"] for part in written["context"]["parts"]} == {1: "trn2-node", 2: "trn2-2-node"}
    assert {pair["variant"] for pair in written["pairs"]} == {"sd-k2", "sd-k4", "sd-k6", "sd-k8"}
    sent = len(world.cloudwatch.data)
    report.report(world.given("run"), world.rt)
    again = len(world.cloudwatch.data) - sent
    assert again < sent, "requests are published once"


def test_a_unit_that_lost_its_node_measures_the_rest_and_its_baseline_on_another_once(world):
    world.begin_units(request={**REQUEST, "set": {**GRID, "serving.devices": 16, "serving.tensor_parallel_size": 64}})
    world.look()
    world.measure("run-n1", waves=2)  # base, sd-k2; not sd-k4
    world.end("run-n1", "FAILED", error="NodeLost", cause="the node went away")
    world.measure("run-n2")
    world.end("run-n2")
    assert not world.look().done
    assert world.started[2:] == ["run-n3"]
    third = world.state().units[2]
    assert (third.arms, third.after) == (("sd-k4",), 1)
    world.measure("run-n3")
    world.end("run-n3", "FAILED", error="NodeLost", cause="that one too")
    assert world.look().done, "all that it had to measure is measured"
    assert world.started[3:] == []
    report.report(world.given("run"), world.rt)
    units = {(variant, unit) for variant, unit, _ in world.merged()}
    assert units == {("base", 1), ("sd-k2", 1), ("base", 2), ("sd-k6", 2), ("sd-k8", 2), ("base", 3), ("sd-k4", 3)}


@pytest.mark.parametrize(
    ("found", "again"), [(b'{"row": "node-lost"}', True), (b'{"row": "arm-died"}', False), (b"{", False), (None, False)]
)
def test_a_unit_whose_servers_were_seen_to_fail_before_their_node_is_tried_again_too(world, found, again):
    world.begin_units()
    world.look()
    if found is not None:
        world.s3.objects[s3_keys.run_key("run-n1", "diagnostics", "diagnosis.json")] = found
    world.end("run-n1", "FAILED", error="BenchmarkFailed", cause="The node went away under the run.")
    assert not world.look().done
    assert world.started[2:] == (["run-n3"] if again else [])
    rows = yaml.safe_load((assets_dir() / "diagnosis.yaml").read_text("utf-8"))["causes"]
    assert measure_units.NODE_LOST in {row["name"] for row in rows}


def test_a_unit_that_loses_two_nodes_is_not_tried_a_third_time(world):
    alone = {"serving.devices": 16, "serving.tensor_parallel_size": 64}
    world.begin_units(request={**REQUEST, "set": {**GRID, **alone}})
    world.look()
    world.measure("run-n2")
    world.end("run-n2", "FAILED", error="NodeLost", cause="when all was measured")
    world.measure("run-n1", waves=0)
    world.end("run-n1", "FAILED", error="NodeLost", cause="at once")
    world.look()
    assert world.started[2:] == ["run-n3"], "what n2 measured is not measured again"
    world.measure("run-n3", waves=2)
    world.end("run-n3", "FAILED", error="NodeLost", cause="again")
    assert world.look().done and world.started[3:] == []
    with pytest.raises(UnitFailed, match=r"1 of 5 arms are not measured: sd-k4\. run-n3 ended"):
        report.report(world.given("run"), world.rt)


def test_an_arm_counts_only_with_all_its_rounds_and_its_baseline(world):
    world.begin_units(request={**REQUEST, "set": {**GRID, "workload.rounds": 2}})
    world.look()
    world.measure("run-n1", waves=2)  # base and sd-k2, sd-k4: the first round of two
    waves = measure_units.load_run(world.rt.store, "run-n1").plan.waves
    assert [sorted(arm.variant for arm in wave.arms) for wave in waves[:2]] == [["base", "sd-k2"], ["sd-k4"]]
    (unit, _) = world.state().units
    assert finished_arms(world.rt.store, unit) == ()
    world.measure("run-n2")
    world.end("run-n1", "FAILED", error="CompileFailed", cause="no.")
    world.end("run-n2")
    world.look()
    with pytest.raises(UnitFailed):
        report.report(world.given("run"), world.rt)
    assert {(variant, unit) for variant, unit, _ in world.merged()} == {("base", 2), ("sd-k6", 2), ("sd-k8", 2)}
    change_state(world.rt.store, "run-n1", measured=tuple(wave.index for wave in waves if wave.index != 0))
    assert finished_arms(world.rt.store, unit) == ("sd-k4",)


def test_an_arm_whose_baseline_is_not_measured_does_not_count(world):
    alone = {"serving.devices": 16, "serving.tensor_parallel_size": 64}
    world.begin_units(request={**REQUEST, "set": {**GRID, **alone}})
    world.look()
    world.measure("run-n1", waves=2)
    (unit, _) = world.state().units
    assert finished_arms(world.rt.store, unit) == ("sd-k2",)
    change_state(world.rt.store, "run-n1", measured=(1,))
    assert finished_arms(world.rt.store, unit) == ()


@pytest.mark.parametrize("line", [b"{", b"[1]", b"null", b'{"variant": ["sd-k2"]}', b"\xff", b"[" * 100_000])
def test_a_file_of_a_unit_that_cannot_be_read_is_named(world, line):
    world.begin_units()
    world.look()
    for unit in world.started:
        world.measure(unit)
        world.end(unit)
    assert world.look().done
    key = next(key for key in world.s3.objects if key.startswith(s3_keys.run_key("run-n2", "raw", "sd-k6")))
    world.s3.objects[key] += line + b"\n"
    with pytest.raises(ReportFailed, match=r"runs/run-n2/raw/sd-k6/.* line [0-9]+ is no record"):
        report.report(world.given("run"), world.rt)


def test_of_an_arm_that_is_not_finished_nothing_is_in_a_figure(world):
    world.begin_units(request={**REQUEST, "set": {**GRID, "workload.rounds": 2}})
    world.look()
    world.measure("run-n1", waves=3)
    world.measure("run-n2")
    world.end("run-n2")
    world.end("run-n1", "FAILED", error="NodeLost", cause="gone")
    (unit, _) = world.state().units
    kept = finished_arms(world.rt.store, unit)
    assert kept == ("sd-k2",)
    world.look()
    world.measure("run-n3")
    world.end("run-n3")
    assert world.look().done
    report.report(world.given("run"), world.rt)
    of_arm = {(variant, unit) for variant, unit, _ in world.merged() if variant != "base"}
    assert of_arm == {("sd-k2", 1), ("sd-k4", 3), ("sd-k6", 2), ("sd-k8", 2)}
    context = json.loads(world.s3.objects[s3_keys.run_key("run", "report.json")])["context"]
    assert {(group["variant"], group["unit"]) for group in context["device_groups"]} == of_arm | {
        ("base", unit) for unit in (1, 2, 3)
    }


def test_a_unit_that_fails_for_another_reason_fails_the_run_after_its_report(world):
    world.begin_units()
    world.look()
    world.measure("run-n2")
    world.end("run-n2")
    world.end("run-n1", "FAILED", error="CompileFailed", cause="sd-k2 does not compile.")
    assert world.look().done and world.started == ["run-n1", "run-n2"]
    with pytest.raises(UnitFailed) as failed:
        report.report(world.given("run"), world.rt)
    text = str(failed.value)
    assert text.startswith("2 of 5 arms are not measured: sd-k2, sd-k4. run-n1 ended with CompileFailed.")
    assert "sd-k2 does not compile." in text and "specdecode run --resume run" in text
    written = json.loads(world.s3.objects[s3_keys.run_key("run", "report.json")])
    assert {pair["variant"] for pair in written["pairs"]} == {"sd-k6", "sd-k8"}


def test_nothing_measured_at_all_says_why_and_not_that_there_are_no_records(world):
    world.begin_units()
    world.look()
    for unit in list(world.started):
        world.end(unit, "FAILED", error="CompileFailed", cause="no.")
    world.look()
    with pytest.raises(UnitFailed, match="4 of 5 arms are not measured"):
        report.report(world.given("run"), world.rt)


def test_a_resumed_run_measures_what_is_left_and_reports_all(world):
    world.begin_units()
    world.look()
    world.measure("run-n2")
    world.end("run-n2")
    world.end("run-n1", "FAILED", error="CompileFailed", cause="no.")
    world.look()
    world.states.executions[arn("run")] = "FAILED"
    world.begin_units("again", {"resume": "run", "accept_cost": 5000})
    world.look("again")
    assert world.started[2:] == ["again-n2", "again-n3"]
    assert [(unit.run_id, unit.arms) for unit in world.state("again").units] == [
        ("run-n2", ("sd-k6", "sd-k8")),
        ("again-n2", ("sd-k2",)),
        ("again-n3", ("sd-k4",)),
    ]
    for unit in world.started[2:]:
        world.measure(unit)
        world.end(unit)
    assert world.look("again").done
    report.report(world.given("again"), world.rt)
    units = {(variant, unit) for variant, unit, _ in world.merged("again")}
    assert units == {("base", 1), ("sd-k6", 1), ("sd-k8", 1), ("base", 2), ("sd-k2", 2), ("base", 3), ("sd-k4", 3)}


@pytest.mark.parametrize(
    ("run_id", "request_", "says"),
    [
        ("mine-n1", {"experiment": "rehearsal-small"}, "names that end in -n and a number are for them"),
        ("mine", {"unit_of": "run"}, "only a run on several nodes starts its own units"),
        ("run-n9", {"unit_of": "run"}, "run run has no unit run-n9"),
        ("gone-n1", {"unit_of": "gone"}, "run gone has no plan"),
        ("run-n1", {"unit_of": "run", "set": {"workload.requests": 1}}, "give neither experiment, set nor resume"),
        ("x" * 76, REQUEST, "has 76 characters: one that runs on several nodes has at most 75"),
    ],
)
def test_nobody_else_starts_units_or_takes_their_names(world, run_id, request_, says):
    world.begin_units()
    with pytest.raises(InvalidExperiment, match=says):
        plan.plan(world.given(run_id, input=request_), world.rt)


def test_the_longest_name_has_room_for_its_units():
    longest = "x" * names.LONGEST_PARENT
    assert names.is_run_id(names.unit_run_id(longest, 999))
    assert names.parent_of(names.unit_run_id(longest, 999)) == longest
    assert names.parent_of("qwen3-32b-20260801-131500-1a2b") is None


def test_the_whole_is_judged_by_its_sum_and_each_unit_gets_its_share(world):
    world.rt.environ = {**world.rt.environ, "CAPACITY": Capacity(nodes=2, accept_cost_above=100).model_dump_json()}
    world.states.executions[arn("run")] = "RUNNING"
    with pytest.raises(InvalidExperiment, match="the run could cost"):
        plan.plan(world.given("run", input={**REQUEST, "accept_cost": 101}), world.rt)
    world.begin_units()
    shares = [unit.accept_cost for unit in world.state().units]
    assert all(100 < share < 5000 for share in shares)
    world.look()
    for unit in world.started:
        plan.plan(world.given(unit, input=json.loads(world.states.started[0]["input"])), world.rt)


def test_a_unit_that_is_stored_as_a_newer_version_wrote_it_is_read():
    unit = {"number": 1, "run_id": "a-n1", "arms": ["sd"], "accept_cost": 1, "colour": "red"}
    assert RunUnit.model_validate_json(json.dumps(unit)).arms == ("sd",)
