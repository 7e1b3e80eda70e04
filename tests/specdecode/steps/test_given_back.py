"""The node goes back though what we stored cannot be read, whatever is wrong with it and whoever looks."""

import json
from datetime import timedelta

import pytest
from specdecode import names, s3_keys
from specdecode.runs import lease as leases
from specdecode.runs import state
from specdecode.runs.lease import LARGEST, LONGEST_QUEUE, SKEW, Lease, LeaseDamaged, QueueFull
from specdecode.runs.state import StateDamaged
from specdecode.steps import acquire, inspect
from specdecode.steps.errors import CapacityUnavailable, TeardownStuck

from tests.specdecode.steps.aws_fake import client_error, denied
from tests.specdecode.steps.faults import assert_nothing_left, metrics
from tests.specdecode.steps.given_back import claim, held, let_go, watch
from tests.specdecode.steps.world import WAITING, World, arn

STEPS = [step for step in WAITING if step not in {"StageModels", "AcquireCapacity", "StartCheck", "StopArms"}]
"""Those that work on the node."""
DAMAGES = {
    "garbage": b"\x00\xff{",
    "empty": b"",
    "cut off": b'{"holder": {"run_id": "run-1"',
    "a list": b"[]",
    "wrong types": b'{"holder": 7, "queue": {}}',
    "a field too few": b'{"holder": {"run_id": "run-1"}, "queue": []}',
    "nested without end": b"[" * 100_000,
    "huge": b'{"holder": null, "queue": []}' + b" " * LARGEST,
}
damaged = pytest.mark.parametrize("data", DAMAGES.values(), ids=DAMAGES)


def lease_of(run_id: str = "run-1", *, queue: int = 0, twice: bool = False, **claim: object) -> bytes:
    """A lease that reads well, of times before and after World.time, 2026-08-01 12:00 UTC."""
    holder = {"run_id": run_id, "execution_arn": arn(run_id), "queued_at": "2026-08-01T11:00:00Z"}
    waiting = [holder | {"run_id": run_id if twice else f"q-{number}"} for number in range(queue)]
    return json.dumps({"holder": holder | {"held_since": "2026-08-01T11:30:00Z"} | claim, "queue": waiting}).encode()


IMPOSSIBLE = {
    "held since a time to come": lease_of(held_since="2036-01-01T00:00:00Z"),
    "held since the end of all times": lease_of(held_since="9999-12-31T23:59:59-23:59"),
    "held since nobody knows when": lease_of(held_since=None),
    "held before it was asked for": lease_of(held_since=-1),
    "waiting since a time to come": lease_of(queue=1).replace(b"11:00:00Z", b"13:00:00Z", 2).replace(b"13", b"11", 1),
    "a run that stands in it twice": lease_of(queue=1, twice=True),
    "an id that is none": lease_of("x" * 300),
    "more than the watchdog can ask after": lease_of(queue=LONGEST_QUEUE + 1),
}
false_times = pytest.mark.parametrize("data", IMPOSSIBLE.values(), ids=IMPOSSIBLE)


def end(world: World, run_id: str = "run-1") -> None:
    world.states.executions[arn(run_id)] = "FAILED"


def deny(world: World, *keys: str) -> None:
    """S3 denies everything, or all that concerns `keys`."""

    def before(operation: str, key: str) -> None:
        if not keys or key in keys:
            denied(operation, key)

    world.s3.before = before


def kept_aside(world: World) -> list[bytes]:
    return [data for key, data in world.s3.objects.items() if key.startswith(s3_keys.DAMAGED)]


@pytest.fixture
def world() -> World:
    return held()


@pytest.mark.parametrize("data", (DAMAGES | IMPOSSIBLE).values(), ids=DAMAGES | IMPOSSIBLE)
@pytest.mark.parametrize("step", STEPS)
def test_a_damaged_lease_ends_the_run_at_its_next_look_and_the_node_goes_back(step, data):
    world = held(step)
    world.s3.objects[s3_keys.CAPACITY_KEY] = data
    with pytest.raises(LeaseDamaged, match=r"capacity.json (is no lease|is larger|cannot be true)") as caught:
        world.finish(step)
    assert "state/capacity.json in the bucket cannot be read" in world.clean_up(caught.value).Cause
    assert (world.replicas, world.workloads()) == (0, [])


@damaged
def test_a_damaged_lease_is_kept_for_a_person_and_begins_anew_when_nothing_runs(world, data):
    world.s3.objects[s3_keys.CAPACITY_KEY] = data
    first = watch(world)
    assert (world.replicas, first.replicas) == (0, 0)
    assert (kept_aside(world), world.s3.objects[s3_keys.CAPACITY_KEY]) == ([data], data), "who runs may stand in it"
    assert "kept as state/damaged/capacity-" in str(first.problems)
    assert metrics(world)["WatchdogProblems"] == 1
    end(world)
    assert "begins anew, empty" in str(watch(world).problems)
    assert (kept_aside(world), world.rt.lease.read()) == ([data], Lease())
    for _ in range(2):
        assert watch(world).problems == ()
    assert_nothing_left(world)
    world.run_through("run-2", until="Serve")
    assert world.rt.lease.read().held_by("run-2")


@damaged
def test_a_damaged_queue_of_other_servers_keeps_no_node(data):
    world = held("StopArms")
    world.finish("StopArms")
    world.s3.objects[s3_keys.ENDPOINTS_KEY] = data
    assert "endpoints.json is" in let_go(world)
    assert (world.replicas, world.rt.lease.read().claims) == (0, ())
    assert world.record().released_at == world.time
    end(world)
    watch(world)
    assert world.rt.queue.read() == Lease()
    assert kept_aside(world) == [data]


@false_times
def test_what_cannot_be_true_never_blinds_the_watchdog(world, data):
    """The node is gone at its first look, a person is told, and the age that StuckRun goes by is 0 or true."""
    world.s3.objects[s3_keys.CAPACITY_KEY] = data
    found = watch(world)
    assert (world.replicas, found.replicas, found.ages_s) == (0, 0, dict.fromkeys(names.held_pools(1), 0))
    assert "cannot be true" in str(found.problems)
    assert (kept_aside(world), metrics(world)["WatchdogProblems"]) == ([data], 1)


def test_clocks_that_differ_a_little_damage_nothing(world):
    begun = world.rt.lease.read().holders[0].held_since
    world.time = begun - SKEW + timedelta(seconds=1)
    assert watch(world).ages_s[names.NODEPOOL] == 1, (
        "held, though the age would be negative: the backstop takes 0 for nobody"
    )
    assert world.replicas == 1


def test_the_queue_has_an_end():
    lease = Lease()
    for number in range(LONGEST_QUEUE + 1):
        lease = leases.request(lease, run_id=f"r-{number}", execution_arn="arn", now=World().time)
    assert leases.impossible(lease, now=World().time) is None
    with pytest.raises(QueueFull, match="start this one later"):
        leases.request(lease, run_id="one-more", execution_arn="arn", now=World().time)
    assert leases.request(lease, run_id="r-7", execution_arn="arn", now=World().time) == lease, "asking again"


def test_a_full_queue_refuses_a_run_with_what_to_do():
    world = World()
    world.run_through(until="StageModels")
    world.s3.objects[s3_keys.CAPACITY_KEY] = lease_of("other", queue=LONGEST_QUEUE)
    with pytest.raises(CapacityUnavailable, match="300 runs wait already: start this one later"):
        world.finish("AcquireCapacity")


@pytest.mark.parametrize("launched", [True, False])
def test_a_node_that_never_becomes_usable_is_in_the_run_s_cost_if_it_was_launched(launched):
    """EC2 may have no instance to give: that costs nothing. One that starts and never joins costs until it ends."""
    world = World(node_comes=False)
    world.run_through(until="StageModels")
    status = {"providerID": "aws:///use2-az1/i-1"} if launched else {}
    claim(world, "c", status=status)
    world.time += timedelta(hours=2)
    with pytest.raises(CapacityUnavailable, match="no usable node within"):
        world.finish("AcquireCapacity")
    noted = world.record()
    assert noted is not None and (noted.held_since is not None) == launched


def test_a_stored_plan_cannot_make_a_step_sleep_for_ever():
    world = World(node_comes=False)
    world.run_through(until="StageModels")
    key = s3_keys.run_key("run-1", "plan.json")
    world.s3.objects[key] = json.dumps(
        json.loads(world.s3.objects[key]) | dict.fromkeys(("poll_seconds", "attentive_seconds"), 10**9)
    ).encode()
    with pytest.raises(ValueError, match="wait_s"):
        world.finish("AcquireCapacity")


@pytest.mark.parametrize("name", ["state.json", "plan.json"])
@pytest.mark.parametrize(
    "data",
    [b"[]", b"{", b'{"run_id": 7}', b'{"experiment": []}', b'{"experiment": 7}', b" " * (state.LARGEST + 1)],
    ids=lambda data: data[:17],
)
def test_a_run_s_documents_are_read_to_a_bound_and_end_the_run_at_once(world, name, data):
    world.s3.objects[s3_keys.run_key("run-1", name)] = data
    with pytest.raises(StateDamaged, match=f"{name} is no run's"):
        world.finish("Benchmark")


@pytest.mark.parametrize(
    ("since", "error"), [("2036-01-01T00:00:00Z", TeardownStuck), (None, TeardownStuck), ("no record", StateDamaged)]
)
def test_stopping_ends_in_time_whatever_the_record_says_since_when(world, since, error):
    world.cluster.react = lambda: None
    for pod in world.cluster.all("Pod"):
        pod["metadata"]["deletionTimestamp"] = "2026-08-01T12:00:00Z"
    key = s3_keys.run_key("run-1", "state.json")
    record = json.loads(world.s3.objects.pop(key)) | {"stopping_since": since}
    if since != "no record":
        world.s3.objects[key] = json.dumps(record).encode()
    with pytest.raises(error, match="has no record" if since == "no record" else "after 0:"):
        world.finish("StopArms")


def test_what_a_newer_version_added_is_passed_over(world):
    document = json.loads(world.s3.objects[s3_keys.CAPACITY_KEY])
    document["holder"][0]["priority"] = {"new": True}
    world.s3.objects[s3_keys.CAPACITY_KEY] = json.dumps(document | {"format": 2}).encode()
    key = s3_keys.run_key("run-1", "state.json")
    state = json.loads(world.s3.objects[key])
    world.s3.objects[key] = json.dumps(state | {"mood": "good"}).encode()
    assert watch(world).problems == ()
    assert world.finish("Benchmark")[-1].done
    assert let_go(world) == "released; the node pools have 0 replicas"
    assert world.record().released_at == world.time


@pytest.mark.parametrize("key", [s3_keys.ENDPOINTS_KEY, s3_keys.run_key("run-1", "state.json")])
def test_an_object_beside_the_lease_that_is_denied_keeps_no_node(world, key):
    deny(world, key)
    assert "AccessDenied" in let_go(world)
    assert (world.replicas, world.rt.lease.read().claims) == (0, ())


@pytest.mark.parametrize("keys", [(), (s3_keys.CAPACITY_KEY,)], ids=["everything", "the lease"])
def test_s3_denies_and_goes_on_denying(world, keys):
    """Release, then the watchdog: at no point is the denial lifted."""
    deny(world, *keys)
    with pytest.raises(Exception, match="AccessDenied"):
        let_go(world)
    assert world.replicas == 0, "no other run: nobody can need the node"
    world.cluster.all("NodePool")[0]["spec"]["replicas"] = 1
    end(world)
    found = watch(world)
    assert (world.replicas, found.replicas) == (0, 0)
    assert "WatchdogHeartbeat" not in metrics(world), "a person is told by its absence"
    assert metrics(world)["WatchdogProblems"] >= 1
    watch(world)
    assert world.workloads() == []


def test_s3_denies_while_another_run_may_hold_the_node(world):
    """Nobody can say whose the node is: it stays until the runs, which cannot read the lease either, have ended."""
    world.plan("run-2")
    deny(world)
    with pytest.raises(Exception, match="AccessDenied"):
        let_go(world)
    end(world)
    assert watch(world).replicas is None
    assert world.replicas == 1
    for step in STEPS:
        with pytest.raises(Exception, match="AccessDenied"):
            world.finish(step)
    with pytest.raises(Exception, match="AccessDenied"):
        world.finish("AcquireCapacity", "run-2")
    end(world, "run-2")
    watch(world)
    assert world.replicas == 0


def test_the_lease_can_be_read_and_not_written(world):
    world.plan("run-2")

    def before(operation: str, key: str) -> None:
        if operation == "PutObject":
            denied(operation, key)

    world.s3.before = before
    end(world)
    assert watch(world).replicas == 0
    assert world.replicas == 0


@pytest.mark.parametrize("by", ["release", "watchdog"])
def test_step_functions_does_not_answer(world, by):
    """A lease that can be read needs nothing else to be followed."""
    world.states.get_paginator = lambda operation: (_ for _ in ()).throw(client_error("ThrottlingException"))
    if by == "release":
        let_go(world)
        assert world.replicas == 0
    else:
        assert watch(world).replicas == world.replicas == 1
        assert "WatchdogHeartbeat" not in metrics(world)


def test_a_claim_of_something_that_is_no_execution_of_ours_holds_nothing(world):
    document = json.loads(world.s3.objects[s3_keys.CAPACITY_KEY])
    for strange in ("", "arn:aws:states:us-east-2:000000000000:execution:another:run-1"):
        document["holder"][0]["execution_arn"] = strange
        world.s3.objects[s3_keys.CAPACITY_KEY] = json.dumps(document).encode()
        assert watch(world).ended == ("run-1",)
        assert world.replicas == 0


def test_a_run_that_will_be_redriven_keeps_its_node(world):
    end(world)
    world.states.executions[arn("run-1")] = "PENDING_REDRIVE"
    assert watch(world).ended == () and world.replicas == 1


def test_the_cluster_can_be_looked_at_though_no_queue_can_be_read(world):
    deny(world)
    seen = inspect.cluster_view(world.given("inspect"), world.rt)
    assert (seen.replicas, len(seen.nodes), len(seen.problems), seen.lease_read) == (1, 1, 2, False)
    assert "AccessDenied" in seen.problems[0]
    deny(world, s3_keys.ENDPOINTS_KEY)
    seen = inspect.cluster_view(world.given("inspect"), world.rt)
    assert (len(seen.problems), seen.lease_read, len(seen.lease.holders)) == (1, True, 1)


# --- races


@pytest.mark.parametrize("moment", range(12))
@pytest.mark.parametrize("by", ["release", "watchdog"])
def test_a_slow_release_never_takes_the_next_holder_s_node(by, moment):
    """Another run becomes the holder at every moment in turn: the replicas are its own in the end."""
    world = held("StopArms")
    world.finish("StopArms")
    world.plan("run-2")
    world.finish("StageModels", "run-2")
    if by == "watchdog":
        end(world)
    count = [0]

    def interrupt(*_: str) -> None:
        count[0] += 1
        if count[0] == moment + 1:
            acquire.acquire(world.given("run-2"), world.rt)

    world.s3.before = interrupt
    world.cluster.fault = lambda method, path: interrupt() if "nodepools" in path else None
    let_go(world) if by == "release" else watch(world)
    if count[0] <= moment:
        acquire.acquire(world.given("run-2"), world.rt)
    assert world.rt.lease.read().held_by("run-2")
    assert world.replicas == 1
