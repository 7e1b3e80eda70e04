"""The guards beside runs, functions and the watchdog as they are: what they let go, nobody is left to end."""

from types import SimpleNamespace

import pytest
from specdecode import s3_keys
from specdecode.custom_resources.in_use import give_up
from specdecode.runs.lease import Lease
from specdecode.steps import acquire, release
from specdecode.steps.errors import CapacityUnavailable

from tests.specdecode.custom_resources.world import World as Guards
from tests.specdecode.steps.given_back import claim, held, watch
from tests.specdecode.steps.world import MACHINE, World

DELETED = {"StateMachineArn": MACHINE, "Bucket": "bucket"}


def beside(world: Guards, runs: World) -> None:
    """Let the guards see what the runs see."""
    world.cluster = runs.cluster
    world.aws.clients |= {"s3": runs.s3, "stepfunctions": runs.states}


def begin(runs: World, run_id: str) -> None:
    runs.plan(run_id)
    runs.finish("StageModels", run_id)


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not listed yet"])
def test_a_run_that_begins_during_a_deletion_gets_no_node(world: Guards, listed: bool) -> None:
    """ListExecutions may be late, so that only the lease, which is closed, keeps it from a node for certain."""
    runs = held()
    beside(world, runs)
    claim(runs, "trn2-abc")
    kept = runs.states.get_paginator
    if not listed:
        none = SimpleNamespace(paginate=lambda **given: iter([{"executions": []}]))
        world.after[50] = lambda: setattr(runs.states, "get_paginator", lambda operation: none)
    world.after[60] = lambda: begin(runs, "late")
    world.after[70] = lambda: runs.cluster.remove("NodeClaim", "trn2-abc")
    assert world.send("Delete", "teardown", properties=DELETED)["Status"] == "SUCCESS"
    with pytest.raises(CapacityUnavailable, match="is being deleted"):
        acquire.acquire(runs.given("late"), runs.rt)
    assert runs.replicas == 0
    assert ("late" in str(runs.states.ends)) == listed
    runs.states.get_paginator = kept
    watch(runs)
    release.release(runs.given("late"), runs.rt)
    assert runs.rt.lease.read() == Lease(closed=True), "nobody opens it again"


@pytest.mark.parametrize("moment", range(12))
def test_a_slow_acquire_leaves_no_node_behind(moment: int) -> None:
    """The lease is closed at every moment of it in turn."""
    runs = World()
    begin(runs, "run-1")
    lease, count = runs.rt.lease, [0]

    def interrupt(*_: str) -> None:
        count[0] += 1
        if count[0] == moment + 1:
            lease.close()
            give_up(runs.rt.pools)

    runs.s3.before = interrupt
    runs.cluster.fault = lambda method, path: interrupt() if "nodepools" in path else None
    try:
        acquire.acquire(runs.given("run-1"), runs.rt)
    except CapacityUnavailable as refused:
        assert "is being deleted" in str(refused)
    assert count[0] > moment
    assert (runs.replicas, lease.read().claims) == (0, ())


def test_a_damaged_lease_can_be_closed(world: Guards) -> None:
    runs = held()
    beside(world, runs)
    runs.s3.objects[s3_keys.CAPACITY_KEY] = b"{"
    assert world.send("Delete", "teardown", properties=DELETED)["Status"] == "SUCCESS"
    assert runs.rt.lease.read().closed and runs.replicas == 0


def test_a_pool_that_was_just_set_to_0_is_looked_at_once_more(world: Guards) -> None:
    """Karpenter may have asked for its instance already."""
    world.aws.running = []
    world.pool(replicas=1)
    world.after[10] = lambda: world.claim("trn2-abc")
    world.after[40] = lambda: world.cluster.remove("NodeClaim", "trn2-abc")
    given = DELETED | {"StateMachineArn": "arn:aws:states:us-east-2:111122223333:stateMachine:pipeline"}
    assert world.send("Delete", "teardown", properties=given)["Status"] == "SUCCESS"
    assert world.slept == 40
