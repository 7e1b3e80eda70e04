"""A managed node group that runs scale: set to 1 for a run and back to 0, whoever gives it back."""

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from specdecode import names
from specdecode.custom_resources import in_use as guards
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.connect import SEES
from specdecode.kubernetes.node_group import PAUSE_S, NodeGroup
from specdecode.kubernetes.pools import PoolBusy
from specdecode.steps import inspect, release, watchdog
from specdecode.steps.errors import CapacityUnavailable, InvalidExperiment, NodeLost
from specdecode.steps.run import load_run

from tests.specdecode.steps.aws_fake import client_error
from tests.specdecode.steps.cluster_fake import status
from tests.specdecode.steps.faults import diagnosis
from tests.specdecode.steps.world import NODE, WAITING, World

NAMED = {"clusterName": "theirs", "nodegroupName": "trainium"}
TAGS = {"eks:cluster-name": "theirs", "eks:nodegroup-name": "trainium"}
INSIDE = f"/namespaces/{names.NAMESPACE}/"
SEEN = ("/api/v1/nodes", "/resourceslices")


class Aws:
    """One group, as strict as EKS: a size within its bounds, and no change while another is being made."""

    def __init__(self) -> None:
        self.group: dict[str, Any] | None = {
            "nodegroupName": "trainium",
            "status": "ACTIVE",
            "diskSize": 3000,
            "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 0},
            "health": {"issues": []},
        }
        self.busy = 0
        """Changes that are refused because another one is being made."""
        self.instances: list[str] = []
        self.sizes: list[int] = []

    def __call__(self, service: str) -> Any:
        assert service in ("eks", "ec2")
        return self

    def describe_nodegroup(self, **named: str) -> dict[str, Any]:
        assert named == NAMED
        if self.group is None:
            raise client_error("ResourceNotFoundException", "DescribeNodegroup", 404)
        return {"nodegroup": self.group}

    def update_nodegroup_config(self, *, scalingConfig: dict[str, int], **named: str) -> None:
        assert named == NAMED and self.group is not None
        if self.busy:
            self.busy -= 1
            raise client_error("ResourceInUseException", "UpdateNodegroupConfig", 409)
        size = self.group["scalingConfig"] | scalingConfig
        assert size["minSize"] <= size["desiredSize"] <= size["maxSize"]
        self.group["scalingConfig"] = size
        self.sizes.append(size["desiredSize"])

    def get_paginator(self, operation: str) -> Any:
        assert operation == "describe_instances"

        def paginate(*, Filters: list[dict[str, Any]]) -> list[dict[str, Any]]:
            wanted = {item["Name"]: item["Values"] for item in Filters}
            assert {f"tag:{key}": [value] for key, value in TAGS.items()}.items() <= wanted.items()
            assert "running" in wanted["instance-state-name"] and "terminated" not in wanted["instance-state-name"]
            return [{"Reservations": [{"Instances": [{"InstanceId": name} for name in self.instances]}]}]

        return SimpleNamespace(paginate=paginate)


class Group(World):
    """A cluster without Karpenter, whose group's node comes and goes with its size."""

    def __post_init__(self) -> None:
        self.aws = Aws()
        super().__post_init__()
        ours = self.rt.clients
        for kind in ("NodePool", "EC2NodeClass"):
            for obj in self.cluster.all(kind):
                self.cluster.remove(kind, obj["metadata"]["name"])
        rights = {names.RIGHTS_VARIABLE: names.GROUP_RIGHTS, names.GROUP_VARIABLE: "trainium", "CLUSTER_NAME": "theirs"}
        self.rt.environ = {**self.rt.environ, **rights}
        self.rt.clients = lambda service: self.aws if service in ("eks", "ec2") else ours(service)
        self.rt.kubernetes = lambda: Kubernetes(
            self.cluster.send, token=lambda renew: "token", sleep=lambda s: None, sees=SEES[names.GROUP_RIGHTS]
        )
        self.cluster.fault = self._refuse

    def _refuse(self, method: str, path: str) -> Any:
        seen = INSIDE in path or (method == "GET" and any(path.endswith(part) for part in SEEN))
        return None if seen else status(403, f"cannot {method} {path}")

    @property
    def held(self) -> dict[str, int]:
        return {names.NODEPOOL: 0 if self.aws.group is None else self.aws.group["scalingConfig"]["desiredSize"]}

    def _node(self) -> None:
        super()._node()
        self.aws.instances = ["i-1"] if self.replicas else []
        if (node := self.cluster.objects.get(("Node", "", NODE))) is not None:
            node["metadata"]["labels"] = {"eks.amazonaws.com/nodegroup": "trainium"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setitem(NodeGroup.__init__.__kwdefaults__, "sleep", lambda seconds: None)
    return Group()


def acquired(world: Group) -> Any:
    return WAITING["AcquireCapacity"](world.given("run-1"), world.rt)


def test_a_group_whose_node_is_too_small_is_refused_before_it_is_scaled(world: Group) -> None:
    world.aws.group.pop("diskSize")
    with pytest.raises(InvalidExperiment, match=r"a node of trainium has 0 to give \(`specdecode preflight`"):
        world.plan()
    assert world.aws.sizes == []


def test_a_node_that_turns_out_too_small_is_given_back_at_once(world: Group) -> None:
    world.aws.group["launchTemplate"] = {"id": "lt-1"}
    world.allocatable = {"cpu": "191450m", "memory": "1938410Mi", "ephemeral-storage": "1Gi"}
    world.plan()
    world.finish("StageModels")
    began = world.time
    with pytest.raises(
        CapacityUnavailable, match=r"no place for this run: serving .* GiB of local disk, and node"
    ) as why:
        world.finish("AcquireCapacity")
    assert world.time - began < timedelta(minutes=1)
    world.clean_up(why.value)
    assert (diagnosis(world)["row"], world.aws.sizes) == ("node-too-small", [1, 0])
    assert world.record().held_since is not None and world.record().released_at is not None


def test_a_run_from_plan_to_release(world: Group) -> None:
    world.run_through(until="Serve")
    assert world.aws.sizes == [1]
    seen = inspect.cluster_view(world.given("inspect"), world.rt)
    assert (seen.replicas, seen.nodes) == (1, (f"{NODE} of trn2 (Ready)",))
    world.finish("StopArms")
    release.release(world.given("run-1"), world.rt)
    assert world.aws.sizes == [1, 0]
    release.release(world.given("run-1"), world.rt)
    assert world.aws.sizes == [1, 0], "done twice, it asks for nothing"


def test_a_node_that_goes_away_is_seen(world: Group) -> None:
    world.run_through(until="Serve")
    world.node_comes = False
    world.cluster.remove("Node", NODE)
    with pytest.raises(NodeLost):
        WAITING["Smoke"](world.given("run-1"), world.rt)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda aws: None, "trainium is ACTIVE: Instance/i-1"),
        (lambda aws: aws.group["health"].update(issues=[{"code": "AsgInstanceLaunchFailures", "message": "none left"}]),
         "AsgInstanceLaunchFailures: none left"),
    ],
)  # fmt: skip
def test_why_no_node_has_come(world: Group, change: Callable[[Aws], None], words: str) -> None:
    world.node_comes = False
    change(world.aws)
    world.run_through(until="StageModels")
    answer = acquired(world)
    assert not answer.done and words in answer.message
    with pytest.raises(CapacityUnavailable, match="no usable node within"):
        world.finish("AcquireCapacity")


def test_a_group_that_is_gone_ends_the_run_at_once(world: Group) -> None:
    world.run_through(until="StageModels")
    world.aws.group = None
    with pytest.raises(CapacityUnavailable, match="no node group trainium any more"):
        acquired(world)


def test_a_change_that_eks_is_still_making_is_waited_for(world: Group) -> None:
    world.run_through(until="StageModels")
    world.aws.busy = 4
    answer = acquired(world)
    assert not answer.done and "does not change trainium now" in answer.message
    assert world.finish("AcquireCapacity")[-1].done


def test_a_group_that_never_takes_a_change_ends_the_run_at_its_deadline(world: Group) -> None:
    world.run_through(until="StageModels")
    world.aws.busy = 10**6
    begun = world.time
    with pytest.raises(CapacityUnavailable, match=r"no usable node within \d+ min: EKS does not change trainium now"):
        world.finish("AcquireCapacity")
    limit = timedelta(minutes=load_run(world.rt.store, "run-1").plan.experiment.deadlines.capacity)
    assert limit < world.time - begun <= limit + timedelta(seconds=15)


def test_a_release_waits_for_another_change_and_else_is_tried_again(world: Group) -> None:
    world.run_through(until="Serve")
    world.aws.busy = 3
    release.release(world.given("run-1"), world.rt)
    assert world.replicas == 0
    slept: list[float] = []
    group = NodeGroup(world.cluster.client(), cluster="theirs", group="trainium", clients=world.aws, sleep=slept.append)
    world.aws.busy = 4
    with pytest.raises(PoolBusy):
        group.scale("trn2", 1)
    assert slept == [PAUSE_S] * 3


def test_the_watchdog_sets_it_to_0_when_the_run_has_died(world: Group) -> None:
    world.run_through(until="Serve")
    world.states.executions.clear()
    found = watchdog.watch(world.given("watchdog"), world.rt)
    assert (found.ended, found.problems, found.replicas, found.nodes) == (("run-1",), (), 0, 1)
    sent = [
        (item["MetricName"], item["Value"])
        for item in world.cloudwatch.data
        if item.get("Dimensions") == [{"Name": "NodePool", "Value": "trainium"}]
    ]
    assert dict(sent)["NodesWithoutLease"] == 1, "the backstop goes by the group's own figures"
    world.aws.instances = []
    assert watchdog.watch(world.given("watchdog"), world.rt).nodes == 0


def test_a_teardown_gives_it_up(world: Group) -> None:
    world.run_through(until="Serve")
    assert "trainium has 1 replica" in str(guards.in_use(world.rt.pools))
    assert "Instance/i-1" in guards.give_up(world.rt.pools) and world.replicas == 0
