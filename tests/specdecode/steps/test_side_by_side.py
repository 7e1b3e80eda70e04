"""Two runs on two nodes, each with a NodePool of its own: neither sees, takes or ends the other's."""

from datetime import timedelta
from typing import Any

import pytest
from specdecode import names
from specdecode.experiment import Capacity
from specdecode.kubernetes.resources import KubeObject
from specdecode.steps import acquire, release, watchdog
from specdecode.steps import compile as compiling
from specdecode.steps.errors import CompileFailed, LeaseLost, NodeLost
from specdecode.steps.inspect import cluster_view
from specdecode.steps.runtime import Progress

from tests.finished_folders import stored
from tests.specdecode.steps.faults import metrics_of_pools
from tests.specdecode.steps.given_back import claim
from tests.specdecode.steps.world import World, arn

FIRST, SECOND = names.held_pools(2)[:2]


class SideBySide(World):
    """A world of `count` nodes with devices, and of those without."""

    count = 2

    def __post_init__(self) -> None:
        self.pools = names.held_pools(self.count)
        super().__post_init__()
        self.rt.environ = {**self.rt.environ, "CAPACITY": Capacity(nodes=self.count).model_dump_json()}

    def begin(self, run_id: str, request: Any = None) -> Progress:
        """Plan, stage and ask for a node once."""
        self.plan(run_id, request)
        self.finish("StageModels", run_id)
        return acquire.acquire(self.given(run_id), self.rt)

    def nodes_of(self, run_id: str) -> set[str]:
        """Where the pods of a run are, but for those on CPU nodes."""
        pods = [pod for pod in self.cluster.all("Pod") if pod["metadata"]["labels"][names.RUN_LABEL] == run_id]
        return {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def compile_jobs(world: SideBySide) -> list[KubeObject]:
    return [job for job in world.cluster.all("Job") if job["metadata"]["labels"][names.COMPONENT_LABEL] == "compile"]


def two_at_work() -> SideBySide:
    """Both hold a node, and compile, serve and measure on it in turn."""
    world = SideBySide()
    for run_id in ("run-1", "run-2"):
        world.begin(run_id)
        world.finish("AcquireCapacity", run_id)
    return world


@pytest.fixture
def world() -> SideBySide:
    return two_at_work()


def test_two_runs_get_a_node_each_and_their_pods_stay_on_it(world):
    assert world.held == {FIRST: 1, SECOND: 1, "cpu": 0, "cpu-large": 0}
    for step in ("Compile", "Serve", "Smoke", "Benchmark"):
        for run_id in ("run-1", "run-2"):
            world.finish(step, run_id)
    assert world.nodes_of("run-1") == {f"{FIRST}-node"}
    assert world.nodes_of("run-2") == {f"{SECOND}-node"}
    seen = cluster_view(world.given("inspect"), world.rt)
    assert seen.replicas == 2 and len(seen.nodes) == 2 and seen.slots == names.held_pools(2)


def test_the_third_waits_and_gets_the_node_that_is_free_first_while_the_other_run_goes_on(world):
    waiting = world.begin("run-3")
    assert not waiting.done and "number 1 in the queue; held by run-1, run-2" in waiting.message
    release.release(world.given("run-2"), world.rt)
    assert world.held == {FIRST: 1, SECOND: 1, "cpu": 0, "cpu-large": 0}, "handed over, not bought anew"
    world.finish("AcquireCapacity", "run-3")
    lease = world.rt.lease.read()
    assert {claim.run_id: claim.pool for claim in lease.holders} == {"run-1": FIRST, "run-3": SECOND}


def test_a_run_without_devices_does_not_wait_for_the_nodes_with_devices(world):
    world.begin("check", {"experiment": "account-check"})
    assert world.held == {FIRST: 1, SECOND: 1, "cpu": 1, "cpu-large": 0}
    world.begin("forecast", {"experiment": "qwen3-32b-forecast", "set": {"workload.prompts": []}})
    assert world.held == {FIRST: 1, SECOND: 1, "cpu": 1, "cpu-large": 1}


@pytest.mark.parametrize("by", ["release", "watchdog"])
def test_only_the_node_of_the_run_that_ends_is_given_back(world, by):
    if by == "release":
        release.release(world.given("run-1"), world.rt)
    else:
        world.states.executions[arn("run-1")] = "ABORTED"
        watchdog.watch(world.given("watchdog"), world.rt)
    assert world.held == {FIRST: 0, SECOND: 1, "cpu": 0, "cpu-large": 0}
    world.finish("Compile", "run-2")
    with pytest.raises(LeaseLost, match="run-1 no longer holds its node; held now by run-2"):
        compiling.compile_arms(world.given("run-1"), world.rt)


def test_a_node_that_is_lost_ends_its_own_run_and_no_other(world):
    world.node_comes = False
    world.cluster.remove("Node", f"{FIRST}-node")
    with pytest.raises(NodeLost, match=f"{FIRST}-node no longer exists"):
        compiling.compile_arms(world.given("run-1"), world.rt)
    world.clean_up(NodeLost("gone"), "run-1")
    for step in ("Compile", "Serve", "Smoke", "Benchmark"):
        world.finish(step, "run-2")
    assert world.held == {FIRST: 0, SECOND: 1, "cpu": 0, "cpu-large": 0}


def test_a_node_of_another_pool_is_not_taken_for_ones_own():
    world = SideBySide()
    world.begin("run-1")
    world.finish("AcquireCapacity", "run-1")
    world.node_comes = False
    waiting = world.begin("run-2")
    assert world.held[SECOND] == 1 and not waiting.done


def test_the_watchdog_tells_of_each_pool_and_of_all(world):
    world.time += timedelta(hours=1)
    for pool in (FIRST, SECOND, SECOND, "cpu"):
        claim(world, f"of-{pool}-{len(world.cluster.all('NodeClaim'))}", pool=pool)
    world.begin("run-3")
    watchdog.watch(world.given("watchdog"), world.rt)
    told = metrics_of_pools(world)
    assert (told["Nodes", ""], told["NodesWithoutLease", ""]) == (4, 2)
    assert [told["NodesWithoutLease", pool] for pool in (FIRST, SECOND, "cpu")] == [0, 1, 1]
    assert told["LeaseAge", ""] == told["LeaseAge", FIRST] >= told["LeaseAge", SECOND] >= 3600 > told["LeaseAge", "cpu"]
    assert (told["RunsHolding", ""], told["RunsWaiting", ""]) == (2, 1)


def test_one_run_compiles_what_the_other_does_not_and_then_waits_for_its_artifact(world):
    world.trouble["compile"] = lambda pod: None  # goes on
    assert "started" in compiling.compile_arms(world.given("run-1"), world.rt).message
    first = made_by(world)
    beside = compiling.compile_arms(world.given("run-2"), world.rt)
    assert not beside.done and "started" in beside.message
    both = made_by(world)
    assert len(both) == 2 and both.items() >= first.items() and set(both.values()) == {"run-1", "run-2"}
    (own,) = [job for job in compile_jobs(world) if job["metadata"]["labels"][names.RUN_LABEL] == "run-2"]
    own["status"] = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
    compiled = f"compiled/{own['metadata']['labels'][names.ARTIFACT_LABEL]}/"
    world.s3.objects |= stored(compiled)
    world.cluster.objects["Pod", names.NAMESPACE, f"{own['metadata']['name']}-0"]["status"] = {"phase": "Succeeded"}
    waiting = compiling.compile_arms(world.given("run-2"), world.rt)
    assert not waiting.done and "run-1 compiles the same artifact" in waiting.message
    world.trouble.clear()
    world.finish("Compile", "run-1")
    world.finish("Compile", "run-2")
    assert made_by(world) == both
    assert compiling.load_run(world.rt.store, "run-2").state.awaited == {}, "the next wait has its own time"


def test_a_run_that_waited_in_vain_compiles_itself_one_at_a_time_and_not_without_end(world):
    world.trouble["compile"] = lambda pod: None
    compiling.compile_arms(world.given("run-1"), world.rt)
    (job,) = compile_jobs(world)
    compiling.compile_arms(world.given("run-2"), world.rt)
    world.cluster.remove("Job", job["metadata"]["name"])  # run-1 was stopped
    assert "running" in compiling.compile_arms(world.given("run-2"), world.rt).message
    (own,) = compile_jobs(world)
    compiled = f"compiled/{own['metadata']['labels'][names.ARTIFACT_LABEL]}/"
    world.s3.objects |= stored(compiled)
    world.cluster.remove("Job", own["metadata"]["name"])
    assert "started" in compiling.compile_arms(world.given("run-2"), world.rt).message
    limit = 2 * compiling.load_run(world.rt.store, "run-2").plan.experiment.deadlines.compile
    world.time += timedelta(minutes=limit + 1)
    with pytest.raises(CompileFailed, match=f"was not made within {limit} min"):
        compiling.compile_arms(world.given("run-2"), world.rt)


def made_by(world: World) -> dict[str, str]:
    """Fingerprint -> run whose Job makes it."""
    labels = [job["metadata"]["labels"] for job in compile_jobs(world)]
    return {label[names.ARTIFACT_LABEL]: label[names.RUN_LABEL] for label in labels}


def test_two_compilations_that_began_between_two_looks_become_one(world):
    world.trouble["compile"] = lambda pod: None
    compiling.compile_arms(world.given("run-1"), world.rt)
    (first,) = compile_jobs(world)
    labels, artifact = {**first["metadata"]["labels"], names.RUN_LABEL: "run-2"}, made_by(world).popitem()[0]
    later = {**first["metadata"], "name": "later", "labels": labels}
    world.cluster.put({**first, "metadata": {**later, "creationTimestamp": "2027-01-01T00:00:00Z"}})
    compiling.compile_arms(world.given("run-2"), world.rt)
    made = [job for job in compile_jobs(world) if job["metadata"]["labels"][names.ARTIFACT_LABEL] == artifact]
    assert [job["metadata"]["name"] for job in made] == [first["metadata"]["name"]]


def warning(kind: str, name: str, message: str) -> KubeObject:
    about = {"kind": kind, "name": name}
    event = {"type": "Warning", "reason": "Told", "message": message, "lastTimestamp": "2099-01-01T00:00:00Z"}
    return event | {
        "kind": "Event",
        "metadata": {"name": f"of-{name}", "namespace": "default"},
        "involvedObject": about,
    }


def test_what_karpenter_says_of_another_run_s_node_is_no_reason_for_ones_own():
    world = SideBySide(node_comes=False)
    world.begin("run-1")
    world.begin("run-2")
    world.cluster.put(warning("NodeClaim", f"{SECOND}-x7f9q", "of the second"))
    world.cluster.put(warning("NodeClaim", "staging-x7f9q", "of staging"))
    world.cluster.put(warning("NodePool", SECOND, "of the second pool"))
    world.cluster.put(warning("EC2NodeClass", "staging", "of another class"))
    assert acquire.acquire(world.given("run-1"), world.rt).message == "Karpenter has not asked for a node yet"
    assert "of the second" in acquire.acquire(world.given("run-2"), world.rt).message
    world.cluster.put(warning("NodeClaim", f"{FIRST}-q9f7x", "of the first"))
    assert acquire.acquire(world.given("run-1"), world.rt).message.endswith("of the first")
