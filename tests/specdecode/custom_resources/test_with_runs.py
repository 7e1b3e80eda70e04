"""The guards beside runs, functions and the watchdog as they are: what they let go, nobody is left to end."""

import io
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from specdecode import s3_keys
from specdecode.custom_resources.in_use import give_up
from specdecode.kubernetes.node_group import NodeGroup
from specdecode.runs.lease import Lease
from specdecode.steps import acquire, release, watchdog
from specdecode.steps.errors import CapacityUnavailable

from tests.specdecode.custom_resources.world import World as Guards
from tests.specdecode.steps.given_back import claim, held, watch
from tests.specdecode.steps.test_own_node_group import Group
from tests.specdecode.steps.world import MACHINE, World

DELETED = {"StateMachineArn": MACHINE, "Bucket": "bucket"}
BEFORE = {"region": "us-east-2", "existing_cluster": "theirs", "existing_node_group": "trainium"}
STACK = "arn:aws:cloudformation:us-east-2:1:stack/SpecDecodeStack/1"


def beside(world: Guards, runs: World) -> None:
    """Let the guards see what the runs see."""
    world.cluster = runs.cluster
    world.aws.clients |= {"s3": runs.s3, "stepfunctions": runs.states}


def begin(runs: World, run_id: str) -> None:
    runs.plan(run_id)
    runs.finish("StageModels", run_id)


# --- a deletion


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


# --- nodes from elsewhere


class Moving:
    """A deployment of the group `trainium`, which the next one would leave. Its watchdog is the one that is called."""

    def __init__(self, world: Guards) -> None:
        self.world, self.runs, self.asked, self.status = world, Group(), 0, "UPDATE_IN_PROGRESS"
        outputs = [{"OutputKey": "WatchdogFunction", "OutputValue": "Watchdog"}]
        told = lambda StackName: {"Stacks": [{"StackStatus": self.status, "Outputs": outputs}]}  # noqa: E731
        world.aws.clients["cloudformation"] = SimpleNamespace(describe_stacks=told)
        world.aws.clients["lambda"] = self

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> dict[str, Any]:
        assert (FunctionName, InvocationType) == ("Watchdog", "RequestResponse")
        self.asked += 1
        said = watchdog.watch(self.runs.given("watchdog"), self.runs.rt).model_dump_json()
        return {"Payload": io.BytesIO(said.encode())}

    def deploy(self, kind: str = "Update", **changes: str) -> dict[str, Any]:
        replaces = {key: value for key, value in BEFORE.items() if key in changes}
        given = {"Settings": {**BEFORE, **changes}, "Replaces": replaces}
        before = {"OldResourceProperties": {"Settings": BEFORE}} if kind == "Update" else {}
        return self.world.send(kind, "settings", properties=given, StackId=STACK, **before)


@pytest.fixture
def moving(world: Guards, monkeypatch: pytest.MonkeyPatch) -> Moving:
    monkeypatch.setitem(NodeGroup.__init__.__kwdefaults__, "sleep", lambda seconds: None)
    return Moving(world)


MOVES = [{"existing_node_group": "other"}, {"existing_cluster": "other"}, {"karpenter_node_role": "nodes"}]


@pytest.mark.parametrize("change", MOVES, ids=lambda change: next(iter(change)))
def test_nodes_do_not_come_from_elsewhere_while_a_run_holds_one(moving: Moving, change: dict[str, str]) -> None:
    moving.runs.run_through(until="Serve")
    answer = moving.deploy(**change)
    assert answer["Status"] == "FAILED"
    ((key, value),) = change.items()
    for words in (f"{key}: {BEFORE.get(key, 'none')} -> {value}", "running: 1; holding a node: 1; nodes: 1",
                  "specdecode stop", "deploy again", "Nothing was changed"):  # fmt: skip
        assert words in answer["Reason"]
    assert moving.runs.replicas == 1, "the run goes on"


def test_nor_while_a_run_will_ask_for_one(moving: Moving) -> None:
    begin(moving.runs, "run-1")
    assert "running: 1. Wait" in moving.deploy(existing_node_group="other")["Reason"]


def test_nor_while_the_last_node_is_there_though_its_run_has_ended(moving: Moving) -> None:
    """Its group could not be scaled; then it is scaled, and its instance still goes away."""
    moving.runs.run_through(until="Serve")
    moving.runs.states.executions.clear()
    moving.runs.aws.busy = 4
    assert "EKS does not change trainium now" in moving.deploy(existing_node_group="other")["Reason"]
    moving.runs.aws.instances = ["i-1"]
    assert "where they come from now: nodes: 1. Wait" in moving.deploy(existing_node_group="other")["Reason"]
    moving.runs.aws.instances = []
    assert moving.deploy(existing_node_group="other")["Status"] == "SUCCESS"


def test_nor_if_nobody_can_tell(moving: Moving) -> None:
    moving.world.aws.clients["lambda"] = SimpleNamespace(
        invoke=lambda **given: {"FunctionError": "Unhandled", "Payload": io.BytesIO(b'{"errorType": "Broken"}')}
    )
    assert "Broken" in moving.deploy(existing_node_group="other")["Reason"]


def test_what_moves_nothing_asks_nobody(moving: Moving) -> None:
    """Nor does a first deployment, nor a rollback, whose new watchdog may not work."""
    moving.runs.run_through(until="Serve")
    assert moving.deploy(budget_usd="9")["Status"] == "SUCCESS"
    assert moving.deploy("Create", existing_node_group="other")["Status"] == "SUCCESS"
    moving.status = "UPDATE_ROLLBACK_IN_PROGRESS"
    assert moving.deploy(existing_node_group="other")["Status"] == "SUCCESS"
    assert moving.asked == 0


def test_a_run_s_node_is_seen_until_the_deployed_watchdog_has_given_it_back(moving: Moving) -> None:
    moving.runs.run_through(until="StopArms")
    release.release(moving.runs.given("run-1"), moving.runs.rt)
    moving.runs.time += timedelta(minutes=5)
    moving.runs.states.executions.clear()
    moving.runs.aws.instances = []
    answer = moving.deploy(existing_node_group="other", budget_usd="9")
    assert (answer["Status"], moving.asked) == ("SUCCESS", 1)
