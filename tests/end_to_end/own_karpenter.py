"""NodePools of ours in the Karpenter of a cluster that exists: a run, a stop, and a node that nobody watches over.

Not part of `make test` (some minutes):

    .venv/bin/pytest -s tests/end_to_end/own_karpenter.py

The cluster and its Karpenter are another team's: TrainiumClusterStack, deployed before, whose own NodePools are `trn2`,
`cpu` and others. The rights are those that their administrator applies by docs/how-to/own-cluster.md, and no more.
"""

from collections.abc import Iterator

import pytest
from specdecode import names

from constructs_lib.cluster.access import DEPLOYER_GROUP
from rehearsal.deployment import TIMEOUT_S
from tests.end_to_end import broken
from tests.end_to_end.cloud import LONG, Cloud, quiet_rehearsal
from tests.end_to_end.own_cluster import OURS, PIPELINE, THEIRS, Foreign, deployed_on, theirs

SLOTS = names.held_pools(2)
POOLS = [names.node_pool(slot, foreign=True) for slot in SLOTS]
KARPENTER = "/apis/karpenter.sh/v1"


class Guest(Cloud):
    """A cloud in whose Karpenter our NodePools are guests."""

    foreign: Foreign

    def pools(self) -> dict[str, int]:
        found = self.listed(f"{KARPENTER}/nodepools")
        return {item["metadata"]["name"]: item["spec"].get("replicas", -1) for item in found}

    def claims(self) -> list[str]:
        """NodeClaims of our NodePools."""
        selector = f"labelSelector=karpenter.sh/nodepool%20in%20({','.join(POOLS)})"
        return [item["metadata"]["name"] for item in self.listed(f"{KARPENTER}/nodeclaims?{selector}")]

    def instances(self) -> set[str]:
        """Instances of our NodePools that EC2 bills."""
        filters = [
            {"Name": "tag:karpenter.sh/nodepool", "Values": POOLS},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        found = self.running.services.client("ec2").describe_instances(Filters=filters)["Reservations"]
        return {item["InstanceId"] for group in found for item in group["Instances"]}

    def at_rest(self) -> None:
        self.until(lambda: not self.workloads(), what="the end of all workloads")
        self.until(lambda: not self.claims() and not self.instances(), what="the end of our nodes")
        assert [self.pools()[name] for name in POOLS] == [0] * len(POOLS)
        assert self.lease().claims == ()


@pytest.fixture(scope="module")
def cloud() -> Iterator[Guest]:
    with quiet_rehearsal() as running:
        settings = theirs(running)
        found = running.services.client("cloudformation").describe_stack_resources(StackName=THEIRS)["StackResources"]
        (role,) = [
            item["PhysicalResourceId"]
            for item in found
            if item["ResourceType"] == "AWS::IAM::Role" and item["LogicalResourceId"].startswith("NodeRole")
        ]
        guest = Guest(running)
        guest.foreign = deployed_on(running, settings | {"karpenter_node_role": role, "nodes": "2"})
        yield guest


def test_the_pipeline_may_scale_our_pools_and_change_nothing_else_outside_its_namespace(cloud: Guest) -> None:
    may = cloud.foreign.may
    watchdog = PIPELINE
    for name in POOLS:
        assert may(watchdog, "patch", "karpenter.sh", "nodepools/scale", name=name)
        assert may(watchdog, "get", "karpenter.sh", "nodepools", name=name)
    for name in ("trn2", "cpu", "cpu-large", "staging", "general"):
        assert not may(watchdog, "patch", "karpenter.sh", "nodepools/scale", name=name)
        assert not may(watchdog, "get", "karpenter.sh", "nodepools", name=name)
    changing = ("create", "update", "patch", "delete", "deletecollection")
    for groups in (watchdog, [DEPLOYER_GROUP]):
        for group, resource in (
            ("", "nodes"),
            ("karpenter.sh", "nodepools"),
            ("karpenter.sh", "nodeclaims"),
            ("karpenter.k8s.aws", "ec2nodeclasses"),
            ("karpenter.sh", "nodeoverlays"),
        ):
            for verb in changing:
                assert not may(groups, verb, group, resource), (groups, verb, resource)
                assert not may(groups, verb, group, resource, name=POOLS[0]), (groups, verb, resource)
    assert may(watchdog, "list", "", "events", namespace="default")
    assert not may(watchdog, "list", "", "events", namespace="kube-system")


def test_a_whole_run_on_a_node_of_our_pool_and_back_to_none(cloud: Guest) -> None:
    before = cloud.pools()
    run = cloud.start("guest")
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    cloud.at_rest()
    assert cloud.bought() == 1
    assert cloud.pools() == before, "theirs are as they were"


def test_two_runs_side_by_side_and_a_stop(cloud: Guest) -> None:
    runs = [cloud.start(name, LONG) for name in ("left", "right")]
    for run in runs:
        cloud.until_step(run, "Benchmark")
    assert [cloud.pools()[name] for name in POOLS] == [1, 1] + [0] * (len(POOLS) - 2)
    assert len(cloud.claims()) == len(cloud.instances()) == 2
    shown = cloud.command("capacity")
    assert "replicas  2" in shown and shown.count("(Ready)") == 2, shown
    for run in runs:
        assert f"stopped {run.run_id}" in cloud.command("stop", run.run_id)
    cloud.at_rest()


def test_with_watchdog_execution_and_way_to_the_cluster_dead_the_backstop_ends_each_instance(cloud: Guest) -> None:
    """It keeps their Karpenter from nothing: the next one is ended as well, until somebody scales the pool."""
    run = cloud.start("nobody-watches", LONG)
    cloud.until_step(run, "Benchmark")
    (held,) = cloud.instances()
    with broken.backstop(cloud, run) as backstop, backstop.alone():
        backstop.ends(2)
        assert backstop.ended[0] == held and len(set(backstop.ended)) == len(backstop.ended)
    told = "kubectl scale nodepool NAME --replicas=0"
    assert any(f"has ended {held}" in text and told in text for text in backstop.mail)
    cloud.at_rest()


def test_destroying_while_a_run_holds_a_node_leaves_none_and_takes_nothing_of_theirs(cloud: Guest) -> None:
    before = cloud.pools()
    run = cloud.start("left-over", LONG)
    cloud.until_step(run, "Benchmark")
    cloud.foreign.ours.destroy().wait(timeout_s=TIMEOUT_S)
    cloud.until(lambda: not cloud.instances(), what="the end of our node")
    assert cloud.pools() == before, "what the administrator applied stays, without nodes"
    stacks = cloud.running.services.client("cloudformation").describe_stacks()["Stacks"]
    standing = {item["StackName"] for item in stacks if item["StackStatus"] != "DELETE_COMPLETE"}
    assert THEIRS in standing and OURS not in standing
