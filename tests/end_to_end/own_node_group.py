"""A managed node group of a cluster that exists, scaled for a run and back: a run, a stop, a node nobody watches over.

Not part of `make test` (some minutes):

    .venv/bin/pytest -s tests/end_to_end/own_node_group.py

The rights are those that their administrator applies by docs/how-to/own-cluster.md, and no more.
"""

from collections.abc import Iterator

import pytest

from constructs_lib.capacity.node_group import SCALERS
from rehearsal.deployment import TIMEOUT_S
from rehearsal.rehearse import Rehearsal
from rehearsal.servers import CLUSTER
from rehearsal.tools import ACCOUNT, REGION
from tests.access.calls import NOBODY, call
from tests.access.trial import Caller
from tests.end_to_end import broken
from tests.end_to_end.cloud import LONG, Cloud, quiet_rehearsal
from tests.end_to_end.own_cluster import OURS, PIPELINE, THEIRS, Foreign, deployed_on, theirs
from tests.end_to_end.page import write_faults

GROUP = "trainium"
NAMED = {"clusterName": CLUSTER, "nodegroupName": GROUP}


ANY = "arn:aws:eks:*"
CALLS = [
    call("scale the group", "eks:UpdateNodegroupConfig", ANY, NOBODY, "update_nodegroup_config", **NAMED),
    call("scale another group", "eks:UpdateNodegroupConfig", ANY, NOBODY, "update_nodegroup_config",
         clusterName=CLUSTER, nodegroupName="of-others"),
    call("delete the group", "eks:DeleteNodegroup", ANY, NOBODY, "delete_nodegroup",
         clusterName=CLUSTER, nodegroupName="of-others"),
    call("end an instance of others", "ec2:TerminateInstances", "arn:aws:ec2:*", NOBODY, "terminate_instances",
         InstanceIds=["i-0123456789abcdef0"]),
]  # fmt: skip
"""Harmless where they are allowed; `may` and the ARN are not asked."""


class Grouped(Cloud):
    """A cloud whose one node with devices is of a node group."""

    foreign: Foreign
    subnets: str

    def size(self) -> int:
        return int(
            self.running.services.client("eks").describe_nodegroup(**NAMED)["nodegroup"]["scalingConfig"]["desiredSize"]
        )

    def instances(self) -> set[str]:
        """Of the group, that EC2 bills."""
        filters = [
            {"Name": "tag:eks:nodegroup-name", "Values": [GROUP]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        found = self.running.services.client("ec2").describe_instances(Filters=filters)["Reservations"]
        return {item["InstanceId"] for group in found for item in group["Instances"]}

    def at_rest(self) -> None:
        self.until(lambda: not self.workloads(), what="the end of all workloads")
        self.until(lambda: not self.instances(), what="the end of the instance")
        assert (self.size(), self.lease().claims) == (0, ())


def make_group(running: Rehearsal, subnets: str, *, disk_gib: int) -> None:
    running.services.client("eks").create_nodegroup(
        **NAMED,
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
        subnets=subnets.split(","),
        instanceTypes=["trn2.48xlarge"],
        amiType="AL2023_x86_64_NEURON",
        diskSize=disk_gib,
        nodeRole="arn:aws:iam::000000000000:role/nodes",
        labels={"specdecode/accelerator": "trn2"},
        taints=[{"key": "aws.amazon.com/neuron", "value": "true", "effect": "NO_SCHEDULE"}],
    )


@pytest.fixture(scope="module")
def cloud() -> Iterator[Grouped]:
    with quiet_rehearsal() as running:
        settings = theirs(running)
        make_group(running, settings["subnet_ids"], disk_gib=20)
        grouped = Grouped(running)
        grouped.subnets = settings["subnet_ids"]
        grouped.foreign = deployed_on(running, settings | {"existing_node_group": GROUP})
        yield grouped


def test_a_group_of_20_gib_is_refused_before_it_has_a_node(cloud: Grouped) -> None:
    """The default disk of a group. The others get a larger one."""
    run = cloud.start("small-disk")
    end = cloud.ended(run)
    assert (end.status, end.error) == ("FAILED", "InvalidExperiment"), end.cause
    assert "GiB of local disk, and a node of trainium has 0 to give" in str(end.cause)
    assert not cloud.instances()
    cloud.note_node(
        "a node group of 20 GiB", "Plan", run, cause=str(end.cause).partition(" Diagnostics:")[0], lasted_s=0
    )
    write_faults(cloud.rows)
    cloud.running.services.client("eks").delete_nodegroup(**NAMED)
    make_group(cloud.running, cloud.subnets, disk_gib=3000)


def test_the_pipeline_may_see_nodes_and_change_nothing_outside_its_namespace(cloud: Grouped) -> None:
    may = cloud.foreign.may
    assert may(PIPELINE, "list", "", "nodes") and may(PIPELINE, "list", "resource.k8s.io", "resourceslices")
    for group, resource in (("", "nodes"), ("karpenter.sh", "nodepools"), ("karpenter.sh", "nodeclaims")):
        for verb in ("create", "update", "patch", "delete"):
            assert not may(PIPELINE, verb, group, resource), (verb, resource)
    assert not may(PIPELINE, "patch", "karpenter.sh", "nodepools/scale", name="trn2")


def test_a_whole_run_on_a_node_of_the_group_and_back_to_0(cloud: Grouped) -> None:
    run = cloud.start("grouped")
    cloud.until(lambda: cloud.size() == 1, what="a group of one node")
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    cloud.at_rest()


def test_a_stop_and_a_run_whose_release_is_lost(cloud: Grouped) -> None:
    run = cloud.start("stopped", LONG)
    cloud.until_step(run, "Benchmark")
    shown = cloud.command("capacity")
    assert "replicas  1" in shown and "(Ready)" in shown, shown
    assert f"stopped {run.run_id}" in cloud.command("stop", run.run_id)
    cloud.at_rest()
    run = cloud.start("killed", LONG)
    cloud.until_step(run, "Benchmark")
    cloud.running.services.client("stepfunctions").stop_execution(executionArn=run.arn)
    cloud.at_rest()


def test_with_watchdog_execution_and_way_to_the_cluster_dead_the_backstop_sets_the_group_to_0(cloud: Grouped) -> None:
    run = cloud.start("nobody-watches", LONG)
    cloud.until_step(run, "Benchmark")
    (held,) = cloud.instances()
    with broken.backstop(cloud, run) as backstop, backstop.alone():
        backstop.ends(1)
        assert backstop.ended == [held]
        cloud.until(lambda: cloud.size() == 0 and not cloud.instances(), what="a group of no node")
    assert any(f"has ended {held}" in text and f"{GROUP} is set to 0" in text for text in backstop.mail)
    cloud.at_rest()


def test_of_all_our_roles_only_these_may_scale_the_group_and_none_another(cloud: Grouped) -> None:
    """Each tries with its own credentials. What services alone may become, the trial may become afterwards, too."""
    found = cloud.running.services.client("cloudformation").describe_stack_resources(StackName=OURS)["StackResources"]
    roles = {
        item["LogicalResourceId"][:-8].removesuffix("Role"): f"arn:aws:iam::{ACCOUNT}:role/{item['PhysicalResourceId']}"
        for item in found
        if item["ResourceType"] == "AWS::IAM::Role"
    }
    functions = {name: role for name, role in roles.items() if name.startswith(("Pipeline", "Backstop", "Guards"))}
    assert len(functions) >= 15, "else next to nobody is tried"
    caller, may = Caller(cloud.running.services, region=REGION), dict[str, set[str]]()
    for name, role in functions.items():
        caller.become(caller.assume(role))
        may |= {call.what: may.get(call.what, set()) | {name} for call in CALLS if not caller.refuses(call, {})}
    assert may == {"scale the group": {*(f"Pipeline{name}" for name in SCALERS), "Backstop", "Guards"}}


def test_destroying_while_a_run_holds_the_node_leaves_none(cloud: Grouped) -> None:
    run = cloud.start("left-over", LONG)
    cloud.until_step(run, "Benchmark")
    cloud.foreign.ours.destroy().wait(timeout_s=TIMEOUT_S)
    assert (cloud.size(), cloud.instances()) == (0, set())
    stacks = cloud.running.services.client("cloudformation").describe_stacks()["Stacks"]
    standing = {item["StackName"] for item in stacks if item["StackStatus"] != "DELETE_COMPLETE"}
    assert THEIRS in standing and OURS not in standing
