"""Faults of the node and of Karpenter: the right error, a readable cause, and nothing left behind that costs money."""

from datetime import timedelta

import pytest
from specdecode.experiment import Capacity
from specdecode.steps.errors import (
    BenchmarkFailed,
    CapacityUnavailable,
    NodeLost,
    StepFailed,
)

from tests.specdecode.steps.faults import assert_nothing_left, diagnosis, up_to
from tests.specdecode.steps.given_back import claim
from tests.specdecode.steps.world import NODE, NODE_CLASS, WAITING, World, karpenter_objects, made_ready


def test_the_node_never_comes():
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    with pytest.raises(CapacityUnavailable, match="Karpenter has not asked for a node yet") as caught:
        world.finish("AcquireCapacity")
    assert "no usable node" in world.clean_up(caught.value).Cause
    assert_nothing_left(world)


def not_ready(world: World, kind: str, part: str, status: str, *, minutes_ago: float) -> None:
    """A condition that is not True, and Ready with it, for so many minutes."""
    (obj,) = world.cluster.all(kind)
    since = (world.time - timedelta(minutes=minutes_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {"status": status, "lastTransitionTime": since, "reason": "Why", "message": "what is wrong"}
    obj["status"] = {
        "conditions": [
            {"type": part, **told},
            {"type": "SubnetsReady", "status": "True"},
            {"type": "NodeRegistrationHealthy", "status": "Unknown"},
            {"type": "Ready", **told, "reason": "UnhealthyDependents", "message": f"{part}={status}"},
        ]
    }


@pytest.mark.parametrize(
    ("kind", "part"), [("EC2NodeClass", "AMIsReady"), ("NodePool", "ValidationSucceeded")], ids=["class", "pool"]
)
@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_no_node_is_waited_for_that_karpenter_does_not_make(kind, part, status):
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    not_ready(world, kind, part, status, minutes_ago=3)
    began = world.time
    said = rf"no node can come: {kind} trn2\S* is not Ready: {part}={status} \(Why: what is wrong\)$"
    with pytest.raises(CapacityUnavailable, match=said) as caught:
        world.finish("AcquireCapacity")
    assert world.time == began, "at the first look"
    assert "Karpenter makes no node" in world.clean_up(caught.value).Cause
    assert diagnosis(world)["row"] == "pool-not-ready"
    assert_nothing_left(world)


def test_a_condition_that_is_just_being_computed_is_waited_for():
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    not_ready(world, "EC2NodeClass", "AMIsReady", "Unknown", minutes_ago=0)
    first = WAITING["AcquireCapacity"](world.given("run-1"), world.rt)
    assert (first.done, "AMIsReady=Unknown" in first.message) == (False, True)
    for obj in karpenter_objects():
        world.cluster.put(made_ready(obj))
    world.node_comes = True
    assert world.finish("AcquireCapacity")[-1].done


def test_a_node_that_is_asked_for_already_is_waited_for_whatever_its_pool_says():
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    not_ready(world, "EC2NodeClass", "AMIsReady", "False", minutes_ago=60)
    claim(world, "trn2-x")
    answer = WAITING["AcquireCapacity"](world.given("run-1"), world.rt)
    assert "NodeClaim trn2-x is not Launched" in answer.message


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("class gone", "the EC2NodeClass trn2-sdk-2-26 of the NodePool trn2 does not exist"),
        ("never computed", "EC2NodeClass trn2-sdk-2-26 is not Ready: Karpenter has written no condition"),
    ],
)
def test_conditions_that_were_never_written_count_from_when_the_node_is_held(broken, said):
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    began = world.time
    if broken == "class gone":
        world.cluster.remove("EC2NodeClass", NODE_CLASS)
    else:
        (found,) = world.cluster.all("EC2NodeClass")
        found.pop("status")
    with pytest.raises(CapacityUnavailable, match=said):
        world.finish("AcquireCapacity")
    assert timedelta(minutes=2) < world.time - began < timedelta(minutes=5)


def test_no_capacity_gives_karpenter_s_reason():
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    world.cluster.put(
        {
            "kind": "Event",
            "metadata": {"name": "e", "namespace": "default"},
            "type": "Warning",
            "reason": "InsufficientCapacityError",
            "message": "NodeClaim trn2-x event: no instance type has enough capacity",
            "involvedObject": {"kind": "NodeClaim", "name": "trn2-x"},
            "lastTimestamp": "2026-08-01T12:05:00Z",
        }
    )
    with pytest.raises(CapacityUnavailable, match="InsufficientCapacityError") as caught:
        world.finish("AcquireCapacity")
    assert "no such instance to give" in world.clean_up(caught.value).Cause
    assert diagnosis(world)["row"] == "no-capacity"
    assert_nothing_left(world)


def test_a_node_without_published_devices_is_not_used():
    world = World(slices_published=False)
    up_to(world, "AcquireCapacity")
    with pytest.raises(CapacityUnavailable, match="has published no devices"):
        world.finish("AcquireCapacity")


@pytest.mark.parametrize(("begins_h", "ends_h", "words"), [(1, 9, "starts at"), (-9, 0.6, "is drained")])
def test_outside_its_capacity_block_a_run_is_refused_before_it_stages_anything(world, begins_h, ends_h, words):
    block = Capacity(block_start=world.time + timedelta(hours=begins_h), block_end=world.time + timedelta(hours=ends_h))
    world.rt.environ["CAPACITY"] = block.model_dump_json()
    with pytest.raises(CapacityUnavailable, match=words):
        world.plan()


def test_a_block_that_ended_while_the_run_waited_is_not_scaled_up_for(world):
    up_to(world, "AcquireCapacity")
    world.rt.environ["CAPACITY"] = Capacity(block_end=world.time).model_dump_json()
    with pytest.raises(CapacityUnavailable, match="is drained") as caught:
        world.finish("AcquireCapacity")
    assert world.replicas == 0
    world.clean_up(caught.value)
    assert_nothing_left(world)


COMPONENTS = {"Compile": "compile", "Serve": "serving", "Smoke": "smoke", "Benchmark": "benchmark"}
COMPONENTS["Accuracy"] = "accuracy"


@pytest.mark.parametrize("step", COMPONENTS)
def test_a_node_that_hangs_is_paid_for_ten_minutes_more(world, step):
    up_to(world, step)
    world.trouble[COMPONENTS[step]] = lambda pod: pod.update(status={"phase": "Running", "conditions": []})
    WAITING[step](world.given("run-1"), world.rt)
    world.hung_at = world.time
    with pytest.raises(NodeLost, match=f"{NODE} is not Ready since .*: Kubelet stopped") as caught:
        world.finish(step)
    assert timedelta(minutes=7) < world.time - world.hung_at <= timedelta(minutes=9)
    world.clean_up(caught.value)
    assert diagnosis(world)["row"] == "node-hung"
    assert_nothing_left(world)


@pytest.mark.parametrize("api", ["answers", "is away"])
def test_a_node_that_goes_between_two_looks_of_a_step_is_named_and_not_its_pods(world, api, monkeypatch):
    """The first look sees the node; then it is gone, and its pods with it. Where the second look fails, the step's own
    error stands.
    """
    up_to(world, "Benchmark")
    WAITING["Benchmark"](world.given("run-1"), world.rt)
    seen, looks = world.rt.kube.list, []

    def goes(kind, **asked):
        looks.append(kind)
        if looks.count("Node") > 1 and api == "is away":
            raise ConnectionError("no answer")
        found = seen(kind, **asked)
        if kind == "Node":
            world.cluster.react = lambda: None
            kept = {key: obj for key, obj in world.cluster.objects.items() if key[0] not in {"Pod", "Node"}}
            world.cluster.objects = kept
        return found

    monkeypatch.setattr(world.rt.kube, "list", goes)
    error, words = {
        "answers": (NodeLost, f"{NODE} no longer exists"),
        "is away": (BenchmarkFailed, "died under load"),
    }[api]
    with pytest.raises(error, match=words):
        world.finish("Benchmark")


def test_pods_that_end_no_more_are_not_waited_for_on_a_node_that_hangs(world):
    up_to(world, "Serve")
    world.trouble["serving"] = lambda pod: pod["metadata"].setdefault("finalizers", ["kubelet"])
    WAITING["Serve"](world.given("run-1"), world.rt)
    world.cluster.collect_garbage = lambda: None  # nothing ends
    assert not WAITING["StopArms"](world.given("run-1"), world.rt).done
    world.hung_at = world.time - timedelta(minutes=9)
    stopped = WAITING["StopArms"](world.given("run-1"), world.rt)
    assert stopped.done and f"{NODE} does not answer" in stopped.message


def test_a_node_that_comes_back_in_time_is_no_cause(world):
    up_to(world, "Compile")
    world.trouble["compile"] = lambda pod: None
    world.hung_at = world.time - timedelta(minutes=7)
    WAITING["Compile"](world.given("run-1"), world.rt)
    world.hung_at, world.trouble = None, {}
    world.time += timedelta(minutes=7)
    assert world.finish("Compile")[-1].done


DENIED = 'admission webhook "policy.example" denied the request: no pods without an owner'
DEAD = 'Internal error occurred: failed calling webhook "policy.example": connect: connection refused'


@pytest.mark.parametrize("words", [DENIED, DEAD, "something that nobody has seen"], ids=["denied", "dead", "other"])
@pytest.mark.parametrize("step", ["StageModels", *COMPONENTS])
def test_pods_that_are_refused_again_and_again_end_the_step_whatever_the_words(world, step, words):
    up_to(world, step)
    world.refused[COMPONENTS.get(step, "staging")] = words
    began = world.time
    with pytest.raises(StepFailed, match=words[:40]) as caught:
        world.finish(step)
    assert timedelta(minutes=2) < world.time - began < timedelta(minutes=6)
    world.clean_up(caught.value)
    assert_nothing_left(world)
