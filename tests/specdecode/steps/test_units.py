"""One run on several nodes: its units are runs of their own, tried again once elsewhere, and reported together."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
import yaml
from specdecode import names, s3_keys
from specdecode.experiment import Capacity, assets_dir
from specdecode.planning.events import QUEUE_LIMIT, QUEUE_POLL_S
from specdecode.runs import lease as leases
from specdecode.runs.lease import LONGEST_QUEUE, Claim, Lease
from specdecode.runs.state import WITH_ITS_RUN, RunState, RunUnit, StateDamaged, change_state, load_state
from specdecode.steps import acquire, measure_units, plan, release, report, watchdog
from specdecode.steps.errors import CapacityUnavailable, InvalidExperiment, ReportFailed, UnitFailed
from specdecode.steps.runtime import Progress
from specdecode.steps.units import finished_arms

from tests.specdecode.steps.aws_fake import client_error
from tests.specdecode.steps.test_side_by_side import SideBySide
from tests.specdecode.steps.world import MACHINE, arn

GRID = {"sweep": "grid", "nodes": 2, "workload.rounds": 1, "workload.requests": 2}
REQUEST = {"experiment": "rehearsal-sweep", "set": GRID, "accept_cost": 5000, "started_by": "anna"}


class Units(SideBySide):
    """A world whose Step Functions keeps what is started, and whose units are run by hand."""

    def begin_units(self, run_id: str = "run", request: Any = None) -> plan.Planned:
        self.states.executions[arn(run_id)] = "RUNNING"
        planned = plan.plan(self.given(run_id, input=request or REQUEST), self.rt)
        self.finish("StageModels", run_id)
        return planned

    def look(self, run_id: str = "run") -> Progress:
        answer = measure_units.measure_units(self.given(run_id), self.rt)
        assert isinstance(answer, Progress)
        return answer

    def state(self, run_id: str = "run") -> RunState:
        state = load_state(self.rt.store, run_id)
        assert state is not None
        return state

    @property
    def started(self) -> list[str]:
        """Names of the executions that were started, in order."""
        return [given["name"] for given in self.states.started]

    def measure(self, unit: str, *, until: str = "StopArms", waves: int | None = None) -> None:
        """Run a unit's steps, with records of all that it measures (or of its first `waves`)."""
        request = next(json.loads(given["input"]) for given in self.states.started if given["name"] == unit)
        planned = plan.plan(self.given(unit, input=request), self.rt)
        for step in ("StageModels", "AcquireCapacity"):
            self.finish(step, unit)
        for wave in range(planned.waves if waves is None else waves):
            for step in ("Compile", "Serve", "Smoke", "Benchmark", "StopArms"):
                self.finish(step, unit, wave)
        run = measure_units.load_run(self.rt.store, unit)
        for wave in run.plan.waves:
            for arm in wave.arms if run.is_measured(wave.index) else ():
                self.record(unit, arm.variant, wave.round)

    def record(self, run_id: str, variant: str, round_: int) -> None:
        (case, *_) = measure_units.load_run(self.rt.store, run_id).plan.experiment.workload.cases
        key = s3_keys.run_key(run_id, "raw", variant, f"{case.name}.jsonl")
        for index in range(2):
            line = json.dumps(raw(run_id, variant, case.name, round_, index)).encode() + b"\n"
            self.s3.objects[key] = self.s3.objects.get(key, b"") + line

    def end(self, unit: str, status: str = "SUCCEEDED", **why: str) -> None:
        release.release(self.given(unit), self.rt)
        self.states.executions[arn(unit)] = status
        self.states.ends[arn(unit)] = why

    def merged(self, run_id: str = "run") -> set[tuple[str, int, int]]:
        """Variant, unit and round of the records in the run's own folder."""
        found = set()
        for key in self.rt.store.keys(s3_keys.run_key(run_id, "raw", "")):
            for line in self.s3.objects[key].splitlines():
                record = json.loads(line)
                assert record["run_id"] == run_id
                found.add((record["variant"], record["unit"], record["round"]))
        return found


def raw(run_id: str, variant: str, case: str, round_: int, index: int) -> dict[str, Any]:
    speed = 0.01 if variant == "base" else 0.005
    return {
        "schema_version": 1,
        "run_id": run_id,
        "variant": variant,
        "case": case,
        "round": round_,
        "level": "",
        "index": index,
        "started_at": 1.0,
        "sent_s": 10.0 * index,
        "end_s": 33 * speed,
        "chunks": [{"at_s": speed * (at + 1), "chars": 4} for at in range(32)],
        "requested_input_tokens": 8,
        "requested_output_tokens": 32,
        "prompt_tokens": 8,
        "completion_tokens": 32,
        "prompt_sha256": f"{index}",
        "output": "x" * 128,
        "finish_reason": "length",
    }


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


def never_gets_a_node(world, unit):
    plan.plan(world.given(unit, input={"unit_of": "run", "accept_cost": 900}), world.rt)
    world.end(unit, "FAILED", error="CapacityUnavailable", cause="no node within a day")
    world.look()


def test_a_unit_that_never_had_a_node_has_lost_none_and_keeps_its_second_try(world):
    world.begin_units()
    world.look()
    never_gets_a_node(world, "run-n1")
    never_gets_a_node(world, "run-n3")
    assert world.started[2:] == ["run-n3", "run-n4"]
    assert [each.held for each in world.state().units if each.status] == [False] * 2
    for unit, more in (("run-n4", ["run-n5"]), ("run-n5", [])):
        world.measure(unit, waves=0)
        world.end(unit, "FAILED", error="NodeLost", cause="it had one")
        before = list(world.started)
        world.look()
        assert world.started == before + more


def test_a_unit_that_never_gets_a_node_is_given_up_after_a_few_days(world):
    world.begin_units()
    world.look()
    for unit in ("run-n1", "run-n3", "run-n4", "run-n5"):
        never_gets_a_node(world, unit)
    assert world.started[2:] == ["run-n3", "run-n4", "run-n5"]


def full_queue(world):
    """A unit that asks for a node when LONGEST_QUEUE runs wait already."""
    world.begin_units()
    world.look()
    plan.plan(world.given("run-n1", input={"unit_of": "run", "accept_cost": 900}), world.rt)
    world.finish("StageModels", "run-n1")
    holders = [world.rt.lease.slots[0], world.rt.lease.slots[1]]
    claims = [
        Claim(run_id=f"other-{number}", execution_arn=arn(f"other-{number}"), queued_at=world.time)
        for number in range(len(holders) + LONGEST_QUEUE)
    ]
    lease = Lease(
        holder=[
            claim.model_copy(update={"pool": pool, "held_since": world.time})
            for pool, claim in zip(holders, claims, strict=False)
        ],
        queue=claims[len(holders) :],
    )
    world.rt.lease.update(lambda _: lease)
    return world


def leaves(world, run_id):
    world.rt.lease.update(
        lambda lease: leases.release(lease, run_id=run_id, now=world.time, slots=world.rt.lease.slots)
    )


def test_a_full_queue_is_no_try_of_a_unit_which_joins_it_when_there_is_room(world):
    full_queue(world)
    for _ in range(3):
        answer = acquire.acquire(world.given("run-n1"), world.rt)
        assert not answer.done and "the queue is full" in answer.message
        world.time += timedelta(seconds=answer.wait_s)
    leaves(world, "other-7")
    answer = acquire.acquire(world.given("run-n1"), world.rt)
    assert f"number {LONGEST_QUEUE} in the queue" in answer.message
    begun = world.time - timedelta(minutes=15)
    assert world.state("run-n1").asked_since == begun
    world.time = begun + QUEUE_LIMIT + timedelta(seconds=1)
    with pytest.raises(CapacityUnavailable, match="still number 300"):
        acquire.acquire(world.given("run-n1"), world.rt)


def test_a_unit_waits_a_day_at_most_for_a_place_in_the_queue(world):
    full_queue(world)
    begun, looks = world.time, 0
    with pytest.raises(CapacityUnavailable, match="300 runs wait already"):
        while True:
            world.time += timedelta(seconds=acquire.acquire(world.given("run-n1"), world.rt).wait_s)
            looks += 1
    assert QUEUE_LIMIT < world.time - begun <= QUEUE_LIMIT + timedelta(seconds=QUEUE_POLL_S)
    assert looks == QUEUE_LIMIT // timedelta(seconds=QUEUE_POLL_S) + 1, "as many as its history has room for"


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


def test_units_do_not_outlive_their_run_and_are_measured_again_if_it_is_redriven(world):
    world.begin_units()
    world.look()
    for unit in world.started:
        plan.plan(world.given(unit, input={"unit_of": "run", "accept_cost": 900}), world.rt)
        for step in ("StageModels", "AcquireCapacity"):
            world.finish(step, unit)
    assert sum(world.held.values()) == 2
    assert watchdog.watch(world.given("watchdog"), world.rt).stopped == ()
    world.states.executions[arn("run")] = "ABORTED"
    found = watchdog.watch(world.given("watchdog"), world.rt)
    assert found.stopped == ("run-n1", "run-n2") and set(found.ended) == {"run-n1", "run-n2"}
    assert sum(world.held.values()) == 0
    world.states.executions[arn("run")] = "RUNNING"  # redriven
    assert not world.look().done
    assert world.started[2:] == ["run-n3", "run-n4"]
    assert {unit.error for unit in world.state().units[:2]} == {WITH_ITS_RUN}


def test_no_node_is_handed_to_a_unit_that_is_stopped_in_the_same_look(world):
    """One unit holds, the other waits, another run has the other node: both leave in one look, and the node goes."""
    world.begin("other")
    world.finish("AcquireCapacity", "other")
    world.begin_units()
    world.look()
    for unit in ("run-n1", "run-n2"):
        request = next(json.loads(given["input"]) for given in world.states.started if given["name"] == unit)
        plan.plan(world.given(unit, input=request), world.rt)
        world.finish("StageModels", unit)
        acquire.acquire(world.given(unit), world.rt)
    assert [claim.run_id for claim in world.rt.lease.read().claims] == ["other", "run-n1", "run-n2"]
    world.states.executions[arn("run")] = "ABORTED"
    found = watchdog.watch(world.given("watchdog"), world.rt)
    assert set(found.stopped) == set(found.ended) == {"run-n1", "run-n2"}
    assert [claim.run_id for claim in world.rt.lease.read().claims] == ["other"]
    assert world.held == {"trn2": 1, "trn2-2": 0, "cpu": 0}


def test_a_unit_that_cannot_be_stopped_keeps_no_other_and_a_person_is_told(world):
    world.begin_units()
    world.look()
    world.states.executions[arn("run")] = "ABORTED"
    stop = world.states.stop_execution

    def deny(*, executionArn: str, **given: Any) -> None:
        if executionArn == arn("run-n1"):
            raise client_error("AccessDenied", "StopExecution", 403)
        stop(executionArn=executionArn, **given)

    world.states.stop_execution = deny
    found = watchdog.watch(world.given("watchdog"), world.rt)
    assert found.stopped == ("run-n2",) and "AccessDenied" in found.problems[0]


def test_a_unit_whose_run_has_no_readable_record_ends_before_it_costs(world):
    world.begin_units()
    world.look()
    world.s3.objects[s3_keys.run_key("run", "state.json")] = b"{"
    request = json.loads(world.states.started[0]["input"])
    with pytest.raises((InvalidExperiment, StateDamaged)):
        plan.plan(world.given("run-n1", input=request), world.rt)
    with pytest.raises(StateDamaged):
        world.look()
    assert world.rt.lease.read().claims == () and world.started == ["run-n1", "run-n2"]


def test_a_run_that_waits_to_be_redriven_keeps_its_units(world):
    world.begin_units()
    world.look()
    world.states.executions[arn("run")] = "PENDING_REDRIVE"
    assert watchdog.watch(world.given("watchdog"), world.rt).stopped == ()


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
