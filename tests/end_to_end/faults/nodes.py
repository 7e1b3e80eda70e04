"""Nodes that do not come, do not become ready, go away, or do not answer."""

import time

import pytest
from specdecode import names
from specdecode.cli.runs_view import current_step

from tests.end_to_end.cloud import LONG, SMALL
from tests.end_to_end.faults.cases import fails


def test_no_capacity(cloud):
    cloud.control("faults", no_capacity=True)
    run = cloud.start("no-capacity", SMALL | {"deadlines.capacity": 1})
    fails(
        cloud,
        run,
        fault="EC2 has no instance to give",
        where="AcquireCapacity",
        error="CapacityUnavailable",
        row="no-capacity",
    )


def test_the_node_never_becomes_ready(cloud):
    cloud.control("faults", node_never_ready=True)
    run = cloud.start("node-never-ready", SMALL | {"deadlines.capacity": 1})
    fails(
        cloud,
        run,
        fault="the node never becomes Ready",
        where="AcquireCapacity",
        error="CapacityUnavailable",
        row="no-node",
    )


@pytest.mark.parametrize(
    ("switch", "fault"),
    [
        ("ami_missing", "the region has no such AMI: the EC2NodeClass is never Ready"),
        ("pool_invalid", "the NodePool is not valid, and so not Ready"),
    ],
)
def test_karpenter_makes_no_node(cloud, switch, fault):
    """It says so in a condition and nowhere else. The run ends long before its deadline for the node."""
    cloud.control("faults", **{switch: names.NODEPOOL})
    before = cloud.bought()
    run = cloud.start(switch.replace("_", "-"), SMALL | {"deadlines.capacity": 30})
    fails(cloud, run, fault=fault, where="AcquireCapacity", error="CapacityUnavailable", row="pool-not-ready")
    assert cloud.bought() == before, "an instance was bought"


def test_the_node_vanishes_under_load(cloud):
    run = cloud.start("node-vanishes", LONG)
    cloud.until_step(run, "Benchmark")
    node = cloud.pods("serving")[0]["spec"]["nodeName"]
    cloud.control("vanish", node=node)
    fails(cloud, run, fault="the node vanishes", where="Benchmark", error="NodeLost", row="node-lost")


def test_the_node_is_cut_off_under_load(cloud):
    """What the API server knows is stored at once, and nobody waits for a kubelet that does not answer."""
    run = cloud.start("node-cut", LONG)
    cloud.until_step(run, "Benchmark")
    node = cloud.pods("serving")[0]["spec"]["nodeName"]
    began = time.monotonic()
    cloud.control("cut", node=node)
    cloud.until(lambda: cloud.kept(run, "diagnostics"), what="the diagnosis")
    took = time.monotonic() - began
    cloud.until(lambda: current_step(run.deployment.events(run.arn))[0] != "Diagnose", what="the end of Diagnose")
    assert time.monotonic() - began < took + 30, "it asked the node's kubelet"
    assert not cloud.kept(run, "diagnostics", "logs")
    cloud.control("vanish", node=node)
    fails(
        cloud,
        run,
        fault="nothing reaches the node any more, and then it is gone",
        where="Benchmark",
        error="BenchmarkFailed",
        row="node-hung",
    )
