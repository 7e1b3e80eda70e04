"""Every object of a run is owned by the run's root, and goes with it: found by a label or not."""

import base64
from datetime import timedelta

import pytest
from specdecode import names
from specdecode.experiment import Capacity, load_preset, preset_names
from specdecode.kubernetes.client import ClusterUnavailable
from specdecode.steps import release, runtime, serve, stop_arms, watchdog
from specdecode.steps.errors import ServeNotReady

from tests.specdecode.steps import cluster_fake
from tests.specdecode.steps.cluster_fake import status
from tests.specdecode.steps.faults import assert_nothing_left
from tests.specdecode.steps.test_faults import never_ready
from tests.specdecode.steps.test_prompts import of, staging
from tests.specdecode.steps.world import World, arn

KINDS = ("Job", "Deployment", "Service", "ConfigMap")


def root_of(world: World, run_id: str = "run-1") -> dict:
    (root,) = [
        obj
        for obj in world.cluster.all("ConfigMap")
        if obj["metadata"]["labels"][names.COMPONENT_LABEL] == names.ROOT_COMPONENT
        and obj["metadata"]["labels"][names.RUN_LABEL] == run_id
    ]
    return root


def of_run(world: World, run_id: str) -> list[str]:
    return sorted(
        f"{kind}/{obj['metadata']['name']}"
        for kind in KINDS
        for obj in world.cluster.all(kind)
        if obj["metadata"]["labels"].get(names.RUN_LABEL) == run_id
    )


@pytest.mark.parametrize("preset", preset_names())
def test_every_object_of_every_preset_is_owned_by_the_run_s_root(preset, monkeypatch):
    """Each on a node of its own shape, with its devices and no more."""
    monkeypatch.setattr(cluster_fake, "_validate", lambda document: None)  # tests/specdecode/manifests does it
    shape = load_preset(preset).shape
    pools = dict.fromkeys((names.NODEPOOL, shape.pool))
    world = World(devices=shape.devices, pools=tuple(pools))
    deployed = Capacity(node=shape.name if shape.has_devices else None, price_per_node_hour=3)
    world.rt.environ = {**world.rt.environ, "CAPACITY": deployed.model_dump_json()}
    staging(world, lengths=of(100))
    applied = []
    put = world.cluster.put
    world.cluster.put = lambda obj: applied.append(obj) or put(obj)
    world.run_through(request={"experiment": preset, "set": {"accuracy": True}, "accept_cost": 5000}, until="Accuracy")
    made = [obj for obj in applied if obj["kind"] in KINDS]
    assert {obj["kind"] for obj in made} == set(KINDS)
    root = made[0]
    assert root["data"] == {"run": "run-1", "experiment": preset}
    for obj in made:
        if obj["metadata"]["name"] == root["metadata"]["name"]:
            assert "ownerReferences" not in obj["metadata"]
            continue
        (reference,) = obj["metadata"]["ownerReferences"]
        assert reference["blockOwnerDeletion"] is True
        assert {key: reference[key] for key in ("apiVersion", "kind")} == {"apiVersion": "v1", "kind": "ConfigMap"}
        assert reference["name"] == root["metadata"]["name"]
        assert len(reference["uid"]) == 36


def test_the_root_is_there_before_anything_else(world):
    world.run_through(until="StageModels")
    written = [path for method, path in world.cluster.requests if method == "PATCH"]
    assert written[0].endswith(root_of(world)["metadata"]["name"])


@pytest.mark.parametrize("by", ["StopArms", "watchdog"])
def test_an_object_without_its_labels_goes_with_the_root(world, by):
    world.run_through(until="Serve")
    for deployment in world.cluster.all("Deployment"):
        deployment["metadata"]["labels"] = {}
    if by == "StopArms":
        world.finish("StopArms")
    else:
        world.states.executions = dict.fromkeys(world.states.executions, "ABORTED")
        watchdog.watch(world.given("watchdog"), world.rt)
        watchdog.watch(world.given("watchdog"), world.rt)
    release.release(world.given("run-1"), world.rt)
    assert_nothing_left(world)


def test_the_run_is_not_over_while_something_that_cannot_be_listed_is_left(world):
    world.run_through(until="Serve")
    reference = {"kind": "ConfigMap", "name": "root", "uid": root_of(world)["metadata"]["uid"]}
    metadata = {"name": "key", "namespace": names.NAMESPACE, "ownerReferences": [reference]}
    collect, world.cluster.collect_garbage = world.cluster.collect_garbage, lambda: None
    world.cluster.put({"kind": "Secret", "metadata": metadata})
    for _ in range(3):
        answer = stop_arms.stop_arms(world.given("run-1"), world.rt)
        assert not answer.done
    assert root_of(world)["metadata"]["name"] in answer.message
    world.cluster.collect_garbage = collect
    world.finish("StopArms")
    assert world.cluster.all("Secret") == []


def test_a_key_is_in_its_secret_and_nowhere_else(world, monkeypatch, capsys):
    """Neither a record of the run nor a diagnosis of its objects nor a log line has it, whatever becomes of the run."""
    world.run_through(until="Serve")
    made = [secret["data"] for secret in world.cluster.all("Secret") if "api-key" in secret["data"]]
    keys = [base64.b64decode(data["api-key"]).decode() for data in made]
    assert len(set(keys)) == 2
    monkeypatch.setattr(runtime, "process_runtime", lambda: world.rt)
    world.trouble["serving"] = never_ready
    world.time += timedelta(days=1)
    event = {"run_id": "run-1", "execution_arn": arn("run-1")}
    with pytest.raises(ServeNotReady) as caught:
        serve.handler(event, None)
    world.clean_up(caught.value)
    seen = b"".join(world.s3.objects.values()).decode() + str(caught.value) + "".join(capsys.readouterr())
    assert '"secretKeyRef"' in seen, "the diagnosis describes the pods"
    assert not [key for key in keys if key in seen]
    assert_nothing_left(world)


def test_a_retried_step_keeps_the_key_that_is_there(world):
    world.run_through(until="Compile")
    world.cluster.fault = lambda method, path: status(500) if "/deployments" in path and method == "PATCH" else None
    with pytest.raises(ClusterUnavailable):
        world.finish("Serve")
    first = world.cluster.all("Secret")[0]["data"]
    world.cluster.fault = lambda method, path: None
    world.finish("Serve")
    assert world.cluster.all("Secret")[0]["data"] == first


def test_what_another_run_owns_is_not_touched(world):
    world.run_through("run-1", until="StageModels")
    world.run_through("run-2", until="Serve")
    before = of_run(world, "run-2")
    assert len(before) > 4
    world.finish("StopArms", "run-1")
    assert of_run(world, "run-1") == []
    assert of_run(world, "run-2") == before


def test_a_run_that_begins_while_the_watchdog_looks_keeps_its_objects(world):
    world.run_through("run-1", until="StageModels")
    running = world.states.executions
    world.states.executions = {}
    listed = world.cluster._select

    def select(kind, namespace, selector):
        found = listed(kind, namespace, selector)
        if kind == "ConfigMap":
            world.states.executions = running
        return found

    world.cluster._select = select
    watchdog.watch(world.given("watchdog"), world.rt)
    assert of_run(world, "run-1")
