"""A cluster that exists: every step with rights in one namespace, where the API server refuses all else."""

import json
from collections.abc import Iterator

import pytest
from specdecode import names
from specdecode.kubernetes.client import Kubernetes, Response, Transport
from specdecode.kubernetes.connect import connect
from specdecode.runs.state import load_state
from specdecode.steps import inspect, release, watchdog
from specdecode.steps.errors import BenchmarkFailed

from tests.specdecode.steps.cluster_fake import status
from tests.specdecode.steps.world import World

INSIDE = f"/namespaces/{names.NAMESPACE}/"


@pytest.fixture
def theirs() -> Iterator[World]:
    """Their node is there before and after, and not in what the pipeline sees."""
    world = World()
    world.rt.environ = {**world.rt.environ, names.RIGHTS_VARIABLE: names.NAMESPACE_RIGHTS}
    world.cluster.objects.clear()
    world.rt.kubernetes = lambda: Kubernetes(
        world.cluster.send, token=lambda renew: "token", sleep=lambda s: None, sees=()
    )
    world._node = lambda: None  # type: ignore[method-assign]
    world.cluster.fault = lambda method, path: None if INSIDE in path else status(403, f"cannot {method} {path}")
    yield world
    outside = {path for _, path in world.cluster.requests if INSIDE not in path}
    assert not outside, "nobody even asked"


def test_a_run_from_plan_to_release(theirs: World) -> None:
    theirs.run_through()
    assert theirs.finish("AcquireCapacity")[-1].done
    seen = inspect.cluster_view(theirs.given("inspect"), theirs.rt)
    assert (seen.replicas, seen.nodes) == (None, ())
    theirs.finish("StopArms")
    release.release(theirs.given("run-1"), theirs.rt)
    assert not theirs.workloads()
    lease = theirs.rt.lease.read()
    assert lease.holders == ()
    state = load_state(theirs.rt.store, "run-1")
    assert state.held_since is not None and state.released_at is not None and state.node is None
    assert {group.group for group in state.device_groups} == {""} and all(g.devices for g in state.device_groups)


def test_pods_that_need_no_held_node_stand_anywhere_and_the_others_by_their_label(theirs: World) -> None:
    theirs.run_through(until="Serve")
    pods = {
        obj["metadata"]["labels"][names.COMPONENT_LABEL]: obj["spec"]["template"]["spec"]
        for kind in ("Job", "Deployment")
        for obj in theirs.cluster.all(kind)
    }
    assert "nodeSelector" not in pods["staging"]
    assert pods["serving"]["nodeSelector"] == {names.ACCELERATOR_LABEL: names.NODEPOOL}
    assert "karpenter.sh/nodepool" not in json.dumps(pods)


def test_a_failure_is_diagnosed_and_given_back(theirs: World) -> None:
    theirs.run_through(until="Serve")
    found = theirs.clean_up(BenchmarkFailed("it broke"))
    assert found.Error == "BenchmarkFailed"
    assert not theirs.workloads() and theirs.rt.lease.read().holders == ()
    assert "cannot GET" not in "".join(map(str, theirs.s3.objects.values())), "what may not be seen is not asked for"


def test_the_watchdog_frees_the_turn_of_a_run_that_died(theirs: World) -> None:
    theirs.run_through(until="Serve")
    theirs.states.executions.clear()
    found = watchdog.watch(theirs.given("watchdog"), theirs.rt)
    assert (found.ended, found.problems) == (("run-1",), ())
    assert not theirs.workloads()


def test_functions_are_confined_by_their_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(**given: str) -> Transport:
        def send(*asked: object) -> Response:
            raise AssertionError(asked)

        return send

    monkeypatch.setattr("specdecode.kubernetes.connect.https_transport", nobody)
    given = {"CLUSTER_NAME": "c", "AWS_REGION": "us-east-2", "CLUSTER_ENDPOINT": "https://c", "CLUSTER_CA": ""}
    kube = connect({**given, names.RIGHTS_VARIABLE: names.NAMESPACE_RIGHTS})
    assert kube.list("Node") == [] and kube.get("NodePool", "trn2") is None
