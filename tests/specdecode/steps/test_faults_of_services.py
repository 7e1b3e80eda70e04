"""Faults of the services that a step calls. Draws try most others (tests/chaos)."""

import pytest
from specdecode import names
from specdecode.kubernetes.client import ClusterUnavailable, Conflict
from specdecode.steps import watchdog
from specdecode.steps.errors import (
    ServeNotReady,
    StepFailed,
)

from tests.specdecode.steps.cluster_fake import refused, status
from tests.specdecode.steps.faults import assert_nothing_left, diagnosis, metrics, up_to
from tests.specdecode.steps.given_back import claim
from tests.specdecode.steps.world import WAITING


@pytest.mark.parametrize("answer", [status(500), refused()], ids=["500", "refused"])
@pytest.mark.parametrize("step", WAITING)
def test_the_api_server_is_away(world, step, answer):
    """The step is retried by the state machine (no final error); after that, the evidence says why there is none."""
    up_to(world, step)
    world.cluster.fault = lambda method, path: answer
    with pytest.raises(ClusterUnavailable) as caught:
        world.finish(step)
    assert not isinstance(caught.value, StepFailed)
    with pytest.raises(ClusterUnavailable):
        world.clean_up(caught.value)
    assert diagnosis(world)["row"] == "cluster-away"
    assert diagnosis(world)["missing"]
    world.cluster.fault = lambda method, path: None
    world.states.executions = {key: "FAILED" for key in world.states.executions}
    for _ in range(2):
        watchdog.watch(world.given("watchdog"), world.rt)
    assert_nothing_left(world)


@pytest.mark.parametrize("step", ["StageModels", "Compile", "Serve", "Smoke", "Benchmark", "Accuracy"])
def test_a_conflict_is_retried_by_the_state_machine(world, step):
    up_to(world, step)
    world.cluster.fault = lambda method, path: status(409) if method == "PATCH" else None
    with pytest.raises(Conflict) as caught:
        world.finish(step)
    assert not isinstance(caught.value, StepFailed)
    world.cluster.fault = lambda method, path: None
    assert world.finish(step)[-1].done


def test_the_watchdog_gives_the_node_up_though_an_object_cannot_be_deleted(world):
    up_to(world, "Benchmark")
    world.states.executions = {key: "FAILED" for key in world.states.executions}
    world.cluster.fault = lambda method, path: status(403) if method == "DELETE" else None
    assert "Forbidden" in str(watchdog.watch(world.given("watchdog"), world.rt).problems)
    assert (world.replicas, world.rt.lease.read().claims) == (0, ())
    assert metrics(world)["WatchdogProblems"] == 1, "a person is told"
    world.cluster.fault = lambda method, path: None
    assert watchdog.watch(world.given("watchdog"), world.rt).cleaned == ("run-1",)
    watchdog.watch(world.given("watchdog"), world.rt)
    assert_nothing_left(world)


def test_the_watchdog_reports_a_node_that_nobody_holds(world):
    claim(world, "n")
    found = watchdog.watch(world.given("watchdog"), world.rt)
    assert found.too_many == dict.fromkeys(names.held_pools(1), 0) | {names.NODEPOOL: 1}
    assert metrics(world) == {
        "WatchdogHeartbeat": 1,
        "Nodes": 1,
        "LeaseAge": 0,
        "NodesWithoutLease": 1,
        "RunsHolding": 0,
        "RunsWaiting": 0,
        "RunsReleasedByWatchdog": 0,
        "WatchdogProblems": 0,
    }


def test_workloads_that_never_leave_do_not_keep_the_node(world):
    up_to(world, "StopArms")
    world.cluster.react = lambda: None
    stuck = next(obj for obj in world.cluster.all("Pod"))
    stuck["metadata"]["deletionTimestamp"] = world.time.strftime("%Y-%m-%dT%H:%M:%SZ")
    world.clean_up(ServeNotReady("x"))
    assert world.replicas == 0
    assert world.rt.lease.read().claims == ()
    assert f"Pod/{stuck['metadata']['name']}" in world.workloads()
