"""An adaptive sweep on several nodes: no arm is taken twice, each unit knows what all have measured, and it ends."""

from __future__ import annotations

import json

import pytest
from specdecode import names
from specdecode.experiment import load_preset
from specdecode.planning.sweep import most_steps
from specdecode.runs.ledger import Ledger, LedgerEntry, change_ledger
from specdecode.runs.state import StateDamaged, load_state
from specdecode.steps import plan, report
from specdecode.steps.errors import InvalidExperiment, UnitFailed

from tests.specdecode.steps.swept import ONE, REQUEST, THREE, TWO, Swept
from tests.specdecode.steps.test_sweep import steps_and_seconds
from tests.specdecode.steps.world import arn


@pytest.fixture
def world():
    return Swept()


@pytest.fixture
def going(world):
    """Two units, each on its node."""
    world.open_sweep()
    for unit in (ONE, TWO):
        world.enter(unit)
    return world


def test_each_node_begins_with_another_arm_and_the_baseline(world):
    planned = world.begin_units(request=REQUEST)
    assert planned.units and not planned.adaptive and planned.waves == 0
    first = world.arms()
    assert [unit for unit, _ in first] == [ONE, TWO] and len({arm for _, arm in first}) == 2
    world.look()
    for unit, arm in first:
        world.enter(unit)
        assert [[each.variant for each in wave.arms] for wave in world.stored(unit).waves] == [["base", arm]]


def test_the_whole_sweep_ends_and_its_report_has_every_arm_beside_its_own_baseline(going):
    document = going.to_the_end(ONE, TWO)
    assert going.ledger().is_over
    taken = [(unit, arm) for unit, arm in going.arms() if arm]
    assert {unit for unit, _ in taken} == {ONE, TWO}
    assert {pair["variant"] for pair in document["pairs"]} == {arm for _, arm in taken}
    assert [step["arm"] for step in document["context"]["sweep"]] == [arm for _, arm in going.arms()]
    assert document["context"]["sweep"][0]["reason"].startswith("Unit 1: Compile ")
    page = going.s3.objects["runs/run/report.html"].decode()
    listed = page.partition("What the advisor decided")[2].partition("</ol>")[0]
    assert listed.count("<li>") == len(going.arms())
    for pair in document["pairs"]:
        k = int(pair["variant"].removeprefix("sd-k"))
        (total,) = [group for group in pair["groups"] if group["group"] == "all"]
        true = steps_and_seconds(0)[1] / steps_and_seconds(k)[1]
        assert total["speedups"][0]["ratio"] == pytest.approx(true, rel=0.02)
    best = max((2, 4, 6, 8), key=lambda k: 1 / steps_and_seconds(k)[1])
    assert f"sd-k{best}" in {arm for _, arm in taken}


def test_steps_of_two_units_share_no_round_in_the_run(going):
    going.to_the_end(ONE, TWO)
    rounds = {(unit, round_) for variant, unit, round_ in going.merged() if variant == "base"}
    assert len({round_ for _, round_ in rounds}) == len(rounds) == going.ledger().steps


def test_an_arm_that_both_nodes_measured_is_compared_on_each_with_what_served_beside_it():
    """Both nodes slow down from step to step, so that a baseline of another step would be wrong."""
    world = Swept()
    world.slower = 1.6
    world.open_sweep()
    for unit in (ONE, TWO):
        world.enter(unit)
    first = dict(world.arms())[ONE]
    world.go(ONE)
    same = LedgerEntry(unit=TWO, step=1, arm=first, reason="again")
    change_ledger(world.rt.store, "run", lambda ledger: ledger.plus(same))
    assert world.go(TWO) == first
    document = world.to_the_end(ONE, TWO)
    assert {unit for variant, unit, _ in world.merged() if variant == first} == {1, 2}
    for pair in document["pairs"]:
        k = int(pair["variant"].removeprefix("sd-k"))
        (total,) = [group for group in pair["groups"] if group["group"] == "all"]
        true = steps_and_seconds(0)[1] / steps_and_seconds(k)[1]
        assert total["speedups"][0]["ratio"] == pytest.approx(true, rel=0.02)


def test_what_one_unit_has_measured_the_other_decides_by(going):
    """One unit goes on alone while the other is at its first arm: it is told what that one will be, and no more."""
    first = dict(going.arms())
    took = going.go(ONE)
    assert took is None or took != first[TWO]
    assert first[TWO] in going.ledger().entries[-1].reason
    (seen,) = going.ledger().observations.values()
    assert [item.k for item in seen] == [int(first[ONE].removeprefix("sd-k"))]
    going.go(TWO)
    (seen,) = going.ledger().observations.values()
    assert len(seen) >= 2


def test_two_units_that_ask_in_the_same_second_take_two_arms(going):
    for unit in (ONE, TWO):
        going.serve_and_measure(unit)
    raced = []

    def before(operation, key):
        if operation == "PutObject" and key.endswith("run/sweep.json") and not raced:
            raced.append(key)
            assert going.ask(TWO)

    fine, going.s3.before = going.s3.before, before
    going.ask(ONE)
    going.s3.before = fine
    assert raced
    taken = [arm for _, arm in going.arms() if arm]
    assert len(taken) == len(set(taken))
    (seen,) = going.ledger().observations.values()
    assert len(seen) == 2, "neither has overwritten what the other had measured"


def test_a_unit_that_asks_again_has_the_arm_that_it_took(going):
    """The function is killed after it took an arm and before it stored its plan."""
    going.serve_and_measure(ONE)

    def broken(operation, key):
        if operation == "PutObject" and key.endswith(f"{ONE}/plan.json"):
            raise ConnectionError

    fine, going.s3.before = going.s3.before, broken
    with pytest.raises(ConnectionError):
        going.ask(ONE)
    going.s3.before = fine
    (took,) = [each.arm for each in going.ledger().of(ONE) if each.step == 1]
    going.go(TWO)
    assert [going.ask(ONE) for _ in range(3)] == [took] * 3
    assert len(going.ledger().of(ONE)) == 2


def test_a_unit_that_lost_its_node_frees_its_arm_and_another_unit_goes_on(going):
    lost = dict(going.arms())[ONE]
    going.end(ONE, "FAILED", error="NodeLost", cause="the node went away")
    going.look()
    assert going.started[2:] == [THREE]
    third = going.state().units[2]
    assert (third.arms, third.after) == ((lost,), 1), "the same arm is worth most still"
    assert going.ledger().of(ONE) == ()
    going.enter(THREE)
    document = going.to_the_end(TWO, THREE)
    assert lost in {pair["variant"] for pair in document["pairs"]}
    assert {unit for _, unit, _ in going.merged()} == {2, 3}


def test_what_a_lost_unit_had_measured_counts_and_is_not_measured_again(going):
    first = dict(going.arms())[ONE]
    second = going.go(ONE)
    assert second
    going.end(ONE, "FAILED", error="NodeLost", cause="the node went away")
    going.look()
    (unit, _, third) = going.state().units
    assert (unit.finished, unit.arms) == ((first,), (first, second))
    assert third.arms == (second,)
    going.enter(THREE)
    document = going.to_the_end(TWO, THREE)
    assert {(variant, unit) for variant, unit, _ in going.merged()} >= {(first, 1), ("base", 1), (second, 3)}
    assert {first, second} <= {pair["variant"] for pair in document["pairs"]}


def test_what_a_unit_measured_counts_if_it_lost_its_node_before_it_asked_for_the_next(going):
    first = dict(going.arms())[ONE]
    going.serve_and_measure(ONE)
    going.end(ONE, "FAILED", error="NodeLost", cause="the node went away")
    going.look()
    (entry,) = going.ledger().of(ONE)
    assert (entry.arm, entry.outcome, len(entry.seen)) == (first, "measured", 1)
    assert going.go(TWO) != first
    (seen,) = going.ledger().observations.values()
    assert len(seen) == 2


def test_a_ledger_that_is_damaged_while_the_run_looks_does_not_end_its_other_units(going):
    going.end(ONE, "FAILED", error="NodeLost", cause="the node went away")
    reads = []

    def before(operation, key):
        if operation == "GetObject" and key.endswith("run/sweep.json"):
            reads.append(key)
            if len(reads) == 2:
                going.s3.objects[key] = b"{"

    fine, going.s3.before = going.s3.before, before
    assert not going.look().done
    going.s3.before = fine
    assert len(reads) >= 2 and going.state().units[1].status is None


@pytest.mark.parametrize(
    "change",
    [
        {"arm": "ghost"},
        {"arm": "base"},
        {"seen": {"draft": "another"}},
        {"seen": {"k": 31}},
        {"seen": {"tokens_per_step": 1e-300}},
        {"seen": {"speedup": 1e300}},
        {"seen": {"error": 1e-300}},
    ],
    ids=str,
)
def test_a_ledger_of_other_arms_or_impossible_figures_is_damaged_and_says_what_to_do(going, change):
    going.serve_and_measure(ONE)
    going.ask(ONE)
    document = json.loads(going.s3.objects["runs/run/sweep.json"])
    entry = next(each for each in document["entries"] if each["seen"])
    for figures in entry["seen"]:
        figures.update(change.get("seen", {}))
    entry["arm"] = change.get("arm", entry["arm"])
    going.s3.objects["runs/run/sweep.json"] = json.dumps(document).encode()
    going.serve_and_measure(TWO)
    with pytest.raises(StateDamaged, match=r"run --resume run"):
        going.ask(TWO)


def test_the_look_is_killed_between_freeing_an_arm_and_starting_the_unit_that_takes_it(going):
    lost = dict(going.arms())[ONE]
    going.end(ONE, "FAILED", error="NodeLost", cause="the node went away")
    writes = []

    def broken(operation, key):
        if operation == "PutObject" and key.endswith("run/state.json"):
            writes.append(key)
            if len(writes) == 2:
                raise ConnectionError

    fine, going.s3.before = going.s3.before, broken
    with pytest.raises(ConnectionError):
        going.look()
    going.s3.before = fine
    assert going.started[2:] == [] and (THREE, lost) in going.arms()
    for _ in range(2):
        going.look()
    assert going.started[2:] == [THREE]
    assert [arm for unit, arm in going.arms() if unit == THREE] == [lost]


def test_no_unit_is_started_in_place_of_one_that_was_lost_when_nothing_was_left_to_it(going):
    while going.go(ONE):
        pass
    going.end(ONE, "FAILED", error="NodeLost", cause="while its pods ended")
    going.look()
    assert going.started[2:] == []
    while going.go(TWO):
        pass
    going.end(TWO)
    assert going.look().done
    report.report(going.given("run"), going.rt)


def test_another_failure_frees_the_arm_and_the_run_fails_unless_the_sweep_comes_to_its_end(going):
    left = dict(going.arms())[ONE]
    going.end(ONE, "FAILED", error="CompileFailed", cause="base does not compile.")
    going.look()
    assert going.started[2:] == []
    assert left not in going.ledger().taken
    while going.go(TWO):
        pass
    going.end(TWO)
    assert going.look().done
    last = going.ledger().entries[-1]
    if going.ledger().is_over:
        report.report(going.given("run"), going.rt)
    else:
        assert last.left_open
        with pytest.raises(UnitFailed, match="the sweep did not come to its end") as failed:
            report.report(going.given("run"), going.rt)
        assert "base does not compile." in str(failed.value) and "specdecode run --resume run" in str(failed.value)
    assert going.s3.objects["runs/run/report.json"]


def test_both_fail_and_the_run_says_why(going):
    going.go(ONE)
    for unit in (ONE, TWO):
        going.end(unit, "FAILED", error="CompileFailed", cause="no.")
    assert going.look().done
    with pytest.raises(UnitFailed, match="the sweep did not come to its end; not measured: sd-k"):
        report.report(going.given("run"), going.rt)


def test_an_arm_that_cannot_be_compiled_is_taken_by_nobody_else():
    world = Swept()
    world.open_sweep()
    arm = dict(world.arms())[ONE]
    world.cannot["compile"] = {arm}
    for unit in (ONE, TWO):
        world.enter(unit)
    document = world.to_the_end(ONE, TWO)
    assert [taken for _, taken in world.arms()].count(arm) == 1
    assert arm not in {pair["variant"] for pair in document["pairs"] if pair["cases"]}
    (failure,) = document["context"]["failures"]
    assert failure["variant"] == arm and failure["message"].startswith(f"{ONE}: ")
    assert failure["diagnostics"] == f"s3://bucket/runs/{ONE}/diagnostics/{arm}/"


def test_all_nodes_together_take_no_more_steps_than_a_sweep(going):
    most = most_steps(load_preset("rehearsal-sweep"))
    assert [unit.waves for unit in going.stored("run").units] == [most // 2] * 2
    going.serve_and_measure(ONE)
    fill = [LedgerEntry(unit="x-n1", step=step, arm="sd-k4", reason="", outcome="lost") for step in range(most - 2)]
    change_ledger(going.rt.store, "run", lambda ledger: ledger.settled(fill))
    assert going.ask(ONE) is None
    assert f"{most} steps are the most that a sweep takes. Left undone: " in going.ledger().entries[-1].reason
    assert going.ledger().steps == most


def test_a_node_takes_no_more_steps_than_are_paid_for_and_says_that_something_is_left(going):
    assert going.stored(ONE).sweep.most_steps == 4
    stored = going.stored(ONE)
    one = stored.model_copy(update={"sweep": stored.sweep.model_copy(update={"most_steps": 1})})
    going.s3.objects[f"runs/{ONE}/plan.json"] = one.model_dump_json().encode()
    going.serve_and_measure(ONE)
    going.serve_and_measure(TWO)
    assert going.ask(TWO) is not None
    assert going.ask(ONE) is None
    end = going.ledger().entries[-1]
    assert "1 steps are the most that each of 2 nodes takes. Left undone: " in end.reason and end.left_open


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"entries": [{"unit": 3}]}', b"\xff"])
def test_a_ledger_that_cannot_be_read_ends_the_units_and_what_was_measured_is_reported(going, data):
    going.serve_and_measure(ONE)
    going.ask(ONE)
    going.serve_and_measure(TWO)
    going.s3.objects["runs/run/sweep.json"] = data
    with pytest.raises(StateDamaged, match=r"sweep.json is no record of a sweep.*specdecode run --resume run"):
        going.ask(TWO)
    for unit in (ONE, TWO):
        going.end(unit, "FAILED", error="StateDamaged", cause="s3://bucket/runs/run/sweep.json is no record.")
    assert going.look().done
    with pytest.raises(UnitFailed, match=r"sweep.json is no record"):
        report.report(going.given("run"), going.rt)
    assert going.s3.objects["runs/run/report.json"]
    going.states.executions[arn("run")] = "FAILED"
    going.open_sweep("again", {"resume": "run", "accept_cost": 9000})
    measured = {arm for unit in going.state("again").units for arm in unit.finished}
    assert len(measured) == 2
    assert not measured & {arm for unit, arm in going.arms("again") if names.parent_of(unit) == "again"}


def test_a_resumed_sweep_goes_on_from_what_all_units_have_measured(going):
    first = dict(going.arms())
    going.go(ONE)
    for unit in (ONE, TWO):
        going.end(unit, "ABORTED", error="StoppedWithItsRun", cause="stopped")
    going.states.executions[arn("run")] = "ABORTED"
    going.open_sweep("again", {"resume": "run", "accept_cost": 9000})
    begun = [(unit, arm) for unit, arm in going.arms("again") if names.parent_of(unit) == "again"]
    assert [unit for unit, _ in begun] == ["again-n2", "again-n3"][: len(begun)]
    assert first[ONE] not in dict(begun).values()
    for unit, _ in begun:
        going.enter(unit)
    document = going.to_the_end(*(unit for unit, _ in begun), run_id="again")
    assert first[ONE] in {pair["variant"] for pair in document["pairs"]}
    assert (first[ONE], 1) in {(variant, unit) for variant, unit, _ in going.merged("again")}


def test_a_sweep_that_is_over_needs_no_node_if_it_is_resumed(going):
    going.to_the_end(ONE, TWO)
    going.states.executions[arn("run")] = "SUCCEEDED"
    started = len(going.started)
    going.begin_units("again", {"resume": "run", "accept_cost": 9000})
    assert going.look("again").done and len(going.started) == started
    report.report(going.given("again"), going.rt)
    assert going.s3.objects["runs/again/report.json"]


def test_a_retried_plan_keeps_the_arms_that_were_taken(world):
    world.begin_units(request=REQUEST)
    before = world.s3.objects["runs/run/sweep.json"]
    plan.plan(world.given("run", input=REQUEST), world.rt)
    assert world.s3.objects["runs/run/sweep.json"] == before
    assert load_state(world.rt.store, "run").units == world.state().units


def test_a_unit_of_which_the_run_knows_nothing_begins_nothing(world):
    world.open_sweep()
    change_ledger(world.rt.store, "run", lambda ledger: Ledger())
    with pytest.raises(InvalidExperiment, match="has taken no arm for run-n1"):
        plan.plan(world.given(ONE, input={"unit_of": "run", "accept_cost": 9000}), world.rt)


def test_units_that_were_stopped_with_their_run_go_on_if_it_is_redriven(going):
    for unit in (ONE, TWO):
        going.end(unit, "ABORTED", error="StoppedWithItsRun", cause="stopped")
    going.look()
    assert going.started[2:] == [THREE, names.unit_run_id("run", 4)]
    assert len(set(going.ledger().taken)) == 2
