"""Two nodes, end to end: runs side by side, one that waits, a node that is lost, an artifact that both need, teardown.

Not part of `make test` (it takes some minutes). Run it with

    .venv/bin/pytest tests/end_to_end/two_nodes.py
"""

from collections.abc import Iterator

import pytest
from specdecode import names

from rehearsal.execution import Run
from tests.end_to_end.cloud import LONG, SMALL, Cloud, deployed

FIRST, SECOND = names.held_pools(2)[:2]
WAITS = "compiles the same artifact; this run waits for it"
POOL = "karpenter.sh/nodepool"


class TwoNodes(Cloud):
    """A cloud whose lease has two slots for nodes with devices."""

    def pool_of(self, run: Run) -> str | None:
        """NodePool of the node that the run holds."""
        return next((claim.pool for claim in self.lease().holders if claim.run_id == run.run_id), None)

    def nodes_of(self, run: Run) -> set[str]:
        """NodePools of the nodes on which the run's pods are, but for those on CPU nodes."""
        pools = {
            node["metadata"]["name"]: node["metadata"]["labels"].get(POOL) for node in self.listed("/api/v1/nodes")
        }
        mine = [pod for part in ("compile", "serving", "benchmark") for pod in self.pods(part)]
        mine = [pod for pod in mine if pod["metadata"]["labels"][names.RUN_LABEL] == names.run_label(run.run_id)]
        return {pools.get(pod["spec"]["nodeName"]) or "gone" for pod in mine if pod["spec"].get("nodeName")}

    def both_measure(self, *runs: Run) -> None:
        for run in runs:
            self.until_step(run, "Benchmark")
        assert {self.pool_of(run) for run in runs} == {FIRST, SECOND}
        assert [self.nodes_of(run) for run in runs] == [{self.pool_of(run)} for run in runs]


@pytest.fixture(scope="module")
def cloud() -> Iterator[TwoNodes]:
    with deployed(nodes=2) as running:
        yield TwoNodes(running)


def said(run: Run, step: str) -> str:
    """What the step's looks have answered, newest last."""
    exits = [event.get("stateExitedEventDetails") or {} for event in run.deployment.events(run.arn, newest=1000)]
    return "\n".join(each["output"] for each in exits if each.get("name") == step)


def succeeds(cloud: Cloud, run: Run) -> None:
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"


def test_a_run_waits_for_an_artifact_that_another_one_compiles(cloud):
    """The first one's compile stands still until the second has nothing left to do but wait for it."""
    cloud.forget("compiled/")
    first = cloud.start("first")
    frozen = cloud.until(lambda: cloud.freeze("compile"), what="a compile of the first run")
    second = cloud.start("second")
    cloud.until(lambda: WAITS in said(second, "Compile"), what="a second run that waits for the artifact")
    assert cloud.thaw("compile") == frozen, "nobody else compiles meanwhile"
    for run in (first, second):
        succeeds(cloud, run)
    cloud.at_rest()


def test_a_third_run_waits_and_gets_the_first_free_node_while_the_other_run_goes_on(cloud):
    first, second = cloud.start("one", LONG), cloud.start("two", LONG)
    cloud.both_measure(first, second)
    third = cloud.start("three")
    cloud.until(lambda: cloud.lease().queue, what="a run that waits")
    shown = cloud.command("capacity")
    assert f"holder    {first.run_id}" in shown and f"holder    {second.run_id}" in shown, shown
    assert f"waiting 1 {third.run_id}" in shown and "replicas  2" in shown, shown
    free = cloud.pool_of(second)
    bought = cloud.bought()
    assert f"stopped {second.run_id}" in cloud.command("stop", second.run_id)
    cloud.until(lambda: cloud.pool_of(third), what="a node for the third run")
    assert cloud.pool_of(third) == free
    succeeds(cloud, third)
    assert first.look().status == "RUNNING" and cloud.nodes_of(first) == {cloud.pool_of(first)}
    assert cloud.bought() == bought, "the node was handed over"
    cloud.until(lambda: cloud.running.replicas() == 1, what="one replica")
    first.deployment.stop(first.arn)
    cloud.at_rest()


def test_a_node_is_lost_and_the_other_run_goes_on_undisturbed(cloud):
    lost = cloud.start("lost", LONG)
    cloud.until_step(lost, "Benchmark")
    whole = cloud.start("whole", SMALL | {"workload.requests": 150})
    cloud.both_measure(lost, whole)
    (node,) = {
        pod["spec"]["nodeName"]
        for pod in cloud.pods("serving")
        if pod["metadata"]["labels"][names.RUN_LABEL] == names.run_label(lost.run_id)
    }
    cloud.control("vanish", node=node)
    end = cloud.ended(lost)
    assert (end.status, end.error) == ("FAILED", "NodeLost"), end.cause
    succeeds(cloud, whole)
    assert not any(record.error for found in cloud.records(whole).values() for record in found)
    again = cloud.running.start("again", {"resume": lost.run_id})
    cloud.until_step(again, "Benchmark")
    again.deployment.stop(again.arn)
    cloud.at_rest()


def test_a_deployment_is_deleted_while_both_nodes_are_held(cloud):
    runs = [cloud.start(name, LONG) for name in ("left", "right")]
    cloud.both_measure(*runs)
    assert cloud.running.replicas() == 2
    cloud.running.destroy()
    assert cloud.alive() == []
