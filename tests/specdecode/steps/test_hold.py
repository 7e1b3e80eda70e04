"""Arms that stay after their last benchmark: for how long, what it costs, and what ends it."""

from datetime import timedelta
from typing import Any

import pytest
from specdecode import manifests, names
from specdecode.experiment import ExperimentError, load_preset
from specdecode.experiment.capacity import Capacity
from specdecode.planning import make_bill
from specdecode.steps import accuracy, release
from specdecode.steps.errors import HoldFailed, LeaseLost

from tests.plans import CTX, plan_for
from tests.specdecode.steps.faults import assert_nothing_left
from tests.specdecode.steps.world import World

HELD = {"experiment": "rehearsal", "set": {"hold": 30, "workload.rounds": 1}}


def at_the_hold(**more: object) -> World:
    """A run whose arms were measured; its pod goes on."""
    world = World(**more)  # type: ignore[arg-type]
    world.trouble["hold"] = lambda pod: None
    world.run_through(until="Benchmark", request=HELD)
    return world


def answering(world: World) -> tuple[str, ...]:
    state = world.record()
    assert bool(state.answering) == bool(state.answers_until)
    return state.answering


def test_the_arms_stay_for_their_minutes_and_the_state_machine_alone_ends_it() -> None:
    world = at_the_hold()
    began = world.time
    assert not accuracy.accuracy(world.given("run-1"), world.rt).done
    told = accuracy.accuracy(world.given("run-1"), world.rt).message
    assert answering(world) == ("base", "sd") and "base, sd until 12:" in told and "specdecode ask run-1 base" in told
    last = world.finish("Accuracy")[-1]
    assert timedelta(minutes=30) <= world.time - began < timedelta(minutes=31)
    assert answering(world) == () and last.message == "the arms were held for 30 of 30 min"
    world.finish("StopArms")
    release.release(world.given("run-1"), world.rt)
    assert_nothing_left(world)


def test_somebody_ends_it_before_its_time() -> None:
    world = at_the_hold()
    accuracy.accuracy(world.given("run-1"), world.rt)
    world.time += timedelta(minutes=3)
    del world.trouble["hold"]
    assert world.finish("Accuracy")[-1].message == "the arms were held for 3 of 30 min"
    assert answering(world) == ()


def test_a_run_that_lost_its_lease_holds_nothing_though_its_servers_answer() -> None:
    world = at_the_hold()
    release.release(world.given("run-1"), world.rt)
    before = world.workloads()
    with pytest.raises(LeaseLost):
        accuracy.accuracy(world.given("run-1"), world.rt)
    assert world.workloads() == before


def test_a_hold_that_fails_costs_no_measured_benchmark() -> None:
    world = at_the_hold(job_fails={"hold": 69})
    for _ in range(2):
        accuracy.accuracy(world.given("run-1"), world.rt)
    assert answering(world) == ("base", "sd")
    del world.trouble["hold"]
    with pytest.raises(HoldFailed, match="BackoffLimitExceeded"):
        world.finish("Accuracy")
    state = world.record()
    assert state.measured == (0,) and [each.stage for each in state.failures] == ["Hold"]
    assert answering(world) == ()


@pytest.mark.parametrize(("preset", "held"), [("rehearsal", [1]), ("qwen3-32b-latency", [1, 2]), ("qwen3-32b", [1])])
def test_each_arm_is_held_once_after_its_last_wave_and_the_plan_and_the_bill_have_it(
    preset: str, held: list[int]
) -> None:
    plain, plan = plan_for(load_preset(preset)), plan_for(load_preset(preset, overrides={"hold": 30}))
    assert [step.wave for step in plan.steps if step.name == "Hold"] == held
    bill, without = make_bill(plan, Capacity()), make_bill(plain, Capacity())
    assert bill.hold_minutes == 30 * len(held)
    assert bill.node_hours.low - without.node_hours.low == pytest.approx(len(held) / 2)
    assert bill.longest_node_hours - without.longest_node_hours >= len(held) / 2
    assert bill.more_rounds.high == pytest.approx(without.more_rounds.high), "it is of no round"
    jobs = [obj for obj in manifests.all_objects(plan, CTX) if obj["kind"] == "Job"]
    assert sum(obj["metadata"]["labels"][names.COMPONENT_LABEL] == "hold" for obj in jobs) == len(held)
    asks = f"asks/{CTX.run_id}/*"
    assert manifests.hold_job(plan, plan.waves[-1], CTX).rights.model_dump() == {
        "reads": (asks,), "writes": (asks,), "clears": True, "token": False
    }  # fmt: skip


@pytest.mark.parametrize(
    ("preset", "changes", "told"),
    [
        ("rehearsal", {"hold": 481}, "must be 480 or less"),
        ("rehearsal-sweep", {"hold": 5, "sweep": "adaptive"}, "does not know when an arm is served for the last time"),
        (
            "rehearsal",
            {"hold": 5, "variants": [{"name": "a", "label": "A", "endpoint": "https://x:8000"}]},
            "nothing to hold",
        ),
    ],
)
def test_what_cannot_be_held_is_refused(preset: str, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ExperimentError, match=told):
        load_preset(preset, overrides=changes)
