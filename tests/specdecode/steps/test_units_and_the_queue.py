"""Units in the queue, units that are stopped, and when a unit gives its place back."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from specdecode import s3_keys
from specdecode.planning.events import QUEUE_LIMIT, QUEUE_POLL_S
from specdecode.runs import lease as leases
from specdecode.runs.lease import LONGEST_QUEUE, Claim, Lease
from specdecode.runs.state import WITH_ITS_RUN, StateDamaged
from specdecode.steps import acquire, plan, watchdog
from specdecode.steps.errors import CapacityUnavailable, InvalidExperiment

from tests.specdecode.steps.aws_fake import client_error
from tests.specdecode.steps.units import Units
from tests.specdecode.steps.world import arn


@pytest.fixture
def world() -> Units:
    return Units()


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


@pytest.mark.parametrize("launched", [True, False])
def test_a_node_that_never_becomes_usable_is_billed_and_counts_as_a_try(world, launched):
    """EC2 may have no instance to give: that costs nothing. One that starts and never joins costs until it ends."""
    world.node_comes = False
    world.begin_units()
    world.look()
    plan.plan(world.given("run-n1", input={"unit_of": "run", "accept_cost": 900}), world.rt)
    world.finish("StageModels", "run-n1")
    status = {"providerID": "aws:///use2-az1/i-1"} if launched else {}
    labels = {"karpenter.sh/nodepool": world.rt.lease.slots[0]}
    world.cluster.put({"kind": "NodeClaim", "metadata": {"name": "c", "labels": labels}, "status": status})
    assert not acquire.acquire(world.given("run-n1"), world.rt).done
    world.time += timedelta(hours=2)
    with pytest.raises(CapacityUnavailable, match="no usable node within"):
        acquire.acquire(world.given("run-n1"), world.rt)
    world.end("run-n1", "FAILED", error="CapacityUnavailable", cause="no usable node")
    world.look()
    assert world.state().units[0].held == launched


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
