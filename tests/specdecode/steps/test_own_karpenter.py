"""Somebody else's Karpenter: our NodePools under their own names follow the runs, and nobody else's are touched."""

import copy
import json
from datetime import timedelta

import pytest
from specdecode import names
from specdecode.custom_resources import in_use as guards
from specdecode.giving_back import CLAIM_GRACE_MINUTES
from specdecode.kubernetes.pools import NodePools
from specdecode.steps import inspect, release, watchdog

from tests.specdecode.steps.cluster_fake import status
from tests.specdecode.steps.faults import metrics_of_pools
from tests.specdecode.steps.given_back import claim
from tests.specdecode.steps.world import NODE, World, made_ready

POOL = "specdecode-trn2"
THEIRS = {"kind": "NodePool", "metadata": {"name": "trn2"}, "spec": {"replicas": 3, "template": {"spec": {}}}}
INSIDE = (f"/namespaces/{names.NAMESPACE}/", "/namespaces/default/events")
OUTSIDE = ("/nodes", "/resourceslices", "/nodeclaims", "/nodepools/specdecode-", "/ec2nodeclasses/")


class Guest(World):
    """A world whose Karpenter has a pool `trn2` of somebody else's, too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rt.environ = {**self.rt.environ, names.RIGHTS_VARIABLE: names.POOL_RIGHTS}
        pool = copy.deepcopy(self.cluster.objects.pop(("NodePool", "", "trn2")))
        pool["metadata"] = {"name": POOL}
        self.cluster.put(pool)
        self.cluster.put(made_ready(copy.deepcopy(THEIRS)))
        claim(self, "theirs")
        self.cluster.fault = self._refuse

    def _refuse(self, method: str, path: str):
        """As RBAC would: reads of what is named, and one write outside the namespace."""
        if any(part in path for part in INSIDE):
            return None
        allowed = {"GET": any(part in path for part in OUTSIDE), "PATCH": path.endswith(f"/nodepools/{POOL}/scale")}
        return None if allowed.get(method) else status(403, f"cannot {method} {path}")

    @property
    def held(self) -> dict[str, int]:
        return {names.NODEPOOL: self.cluster.objects["NodePool", "", POOL]["spec"]["replicas"]}

    def _node(self) -> None:
        super()._node()
        if (node := self.cluster.objects.get(("Node", "", NODE))) is not None:
            node["metadata"]["labels"] = {"karpenter.sh/nodepool": POOL}


@pytest.fixture
def world() -> Guest:
    return Guest()


def test_a_run_from_plan_to_release(world: Guest) -> None:
    world.run_through(until="Serve")
    assert world.replicas == 1
    seen = inspect.cluster_view(world.given("inspect"), world.rt)
    assert (seen.replicas, seen.nodes) == (1, (f"{NODE} of trn2 (Ready)",))
    placed = [
        obj["spec"]["template"]["spec"].get("nodeSelector")
        for kind in ("Job", "Deployment")
        for obj in world.cluster.all(kind)
    ]
    assert {json.dumps(item) for item in placed} == {"null", json.dumps({names.ACCELERATOR_LABEL: "trn2"})}
    release.release(world.given("run-1"), world.rt)
    assert world.replicas == 0
    assert world.cluster.objects["NodePool", "", "trn2"]["spec"]["replicas"] == 3


def test_the_watchdog_gives_up_our_node_counts_none_of_theirs_and_deletes_none(world: Guest) -> None:
    world.run_through(until="Serve")
    claim(world, "ours", pool=POOL)
    world.states.executions.clear()
    found = watchdog.watch(world.given("watchdog"), world.rt)
    assert (found.ended, found.problems, world.replicas, found.nodes) == (("run-1",), (), 0, 1)
    world.time += timedelta(minutes=CLAIM_GRACE_MINUTES + 1)
    found = watchdog.watch(world.given("watchdog"), world.rt)
    assert (found.deleted, found.problems) == ((), ()), "it has no right to: the backstop ends the instance"
    metrics = metrics_of_pools(world)
    assert (metrics["NodesWithoutLease", ""], metrics["NodesWithoutLease", POOL]) == (1, 1)
    assert ("NodesWithoutLease", "trn2") not in metrics


def test_a_teardown_gives_up_ours(world: Guest) -> None:
    world.run_through(until="Serve")
    claim(world, "ours", pool=POOL)
    pools = NodePools(world.cluster.client(), foreign=True)
    assert "NodePool specdecode-trn2 has 1 replica" in str(guards.in_use(pools))
    assert "NodeClaim/ours" in guards.give_up(pools) and world.replicas == 0
