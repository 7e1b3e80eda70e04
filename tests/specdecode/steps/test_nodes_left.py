"""NodeClaims that Karpenter does not end: the watchdog deletes them, and those of no other pool or run."""

from datetime import timedelta

import pytest
from specdecode import s3_keys
from specdecode.runs.state import StateDamaged
from specdecode.steps import acquire, stop_arms, watchdog
from specdecode.steps.errors import ServeNotReady

from tests.specdecode.steps.aws_fake import client_error
from tests.specdecode.steps.cluster_fake import status
from tests.specdecode.steps.faults import metrics
from tests.specdecode.steps.given_back import claim, held, let_go, watch
from tests.specdecode.steps.world import World


def claims(world: World) -> list[str]:
    return [obj["metadata"]["name"] for obj in world.cluster.all("NodeClaim")]


def test_a_node_that_karpenter_does_not_end_is_deleted_after_its_grace(world):
    claim(world, "stays")
    claim(world, "of-another-pool", pool="staging")
    world.time += watchdog.GRACE
    assert watch(world).deleted == ()
    world.time += timedelta(minutes=1)
    found = watch(world)
    assert (found.deleted, claims(world)) == (("stays",), ["of-another-pool"])
    assert found.problems == ()


def test_the_label_decides_though_the_api_server_answers_with_nodes_of_other_pools(world):
    claim(world, "stays")
    claim(world, "of-another-pool", pool="staging")
    select = world.cluster._select
    world.cluster._select = lambda kind, namespace, selector: select(kind, namespace, "")
    world.time += watchdog.GRACE + timedelta(minutes=1)
    assert (watch(world).deleted, claims(world)) == (("stays",), ["of-another-pool"])


def test_the_grace_counts_from_the_moment_at_which_the_pool_went_to_zero(world):
    claim(world, "a-long-run-s")
    world.time += timedelta(hours=9)
    scaled = {"subresource": "scale", "time": world.time.strftime("%Y-%m-%dT%H:%M:%SZ")}
    world.cluster.all("NodePool")[0]["metadata"]["managedFields"] = [{"time": "2020-01-01T00:00:00Z"}, scaled]
    world.time += watchdog.GRACE
    assert watch(world).deleted == ()
    world.time += timedelta(minutes=1)
    assert watch(world).deleted == ("a-long-run-s",)


def test_a_node_that_goes_already_or_that_somebody_holds_is_not_deleted(world):
    world.cluster.collect_garbage = lambda: None
    claim(world, "going", deletionTimestamp="2026-08-01T12:00:00Z")
    world.time += timedelta(hours=1)
    found = watch(world)
    assert (found.deleted, sum(found.too_many.values())) == ((), 1), "an alarm, and the backstop's business"
    world = held()
    claim(world, "the-run-s")
    world.time += timedelta(hours=1)
    assert (watch(world).deleted, claims(world)) == ((), ["the-run-s"])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_one_read_of_the_lease_that_fails_ends_no_run_s_node_and_is_told(number):
    world = held()
    claim(world, "the-run-s")
    world.time += timedelta(hours=1)
    reads = iter(range(1, 9))

    def before(operation: str, key: str) -> None:
        if (operation, key) == ("GetObject", s3_keys.CAPACITY_KEY) and next(reads) == number:
            raise client_error("SlowDown", operation, 503)

    world.s3.before = before
    found = watch(world)
    assert (found.deleted, claims(world), world.replicas) == ((), ["the-run-s"], 1)
    assert "SlowDown" in str(found.problems)
    assert metrics(world)["WatchdogProblems"] == 1
    assert "WatchdogHeartbeat" not in metrics(world)
    assert watch(world).problems == ()


def test_by_a_damaged_lease_nobody_holds_a_node_that_stays():
    world = held()
    claim(world, "stays")
    world.s3.objects[s3_keys.CAPACITY_KEY] = b"?"
    world.time += timedelta(hours=1)
    assert watch(world).deleted == ("stays",)


def test_a_run_that_becomes_the_holder_meanwhile_keeps_its_node(world):
    claim(world, "kept")
    world.time += timedelta(hours=1)
    world.plan("run-1")
    world.finish("StageModels")

    def begin(method: str, path: str) -> None:
        world.cluster.fault = lambda method, path: None
        acquire.acquire(world.given("run-1"), world.rt)

    world.cluster.fault = lambda method, path: begin(method, path) if "nodeclaims" in path else None
    assert watch(world).deleted == ()
    assert claims(world) == ["kept"]


def test_a_node_that_may_not_be_deleted_is_a_problem_and_no_heartbeat(world):
    claim(world, "stays")
    world.time += timedelta(hours=1)
    world.cluster.fault = lambda method, path: status(403) if method == "DELETE" else None
    assert "Forbidden" in str(watch(world).problems)
    assert "WatchdogHeartbeat" not in metrics(world)


def test_workloads_that_cannot_be_stopped_with_a_damaged_record_do_not_keep_the_node():
    world = held()
    world.s3.objects[s3_keys.run_key("run-1", "state.json")] = b"?"
    world.cluster.react = lambda: None
    with pytest.raises(StateDamaged):
        stop_arms.stop_arms(world.given("run-1"), world.rt)
    with pytest.raises(StateDamaged):
        world.clean_up(ServeNotReady("x"))
    let_go(world)
    assert world.replicas == 0
