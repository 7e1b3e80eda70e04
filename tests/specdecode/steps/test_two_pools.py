"""Runs on nodes of two kinds: each has a pool and a queue of its own, and what stays in a pool is deleted."""

from datetime import timedelta
from functools import partial

import pytest
from specdecode import names, s3_keys
from specdecode.runs import lease as leases
from specdecode.runs.lease import Lease, LeaseDamaged
from specdecode.steps import acquire, release, watchdog
from specdecode.steps.replicas import set_replicas

from tests.specdecode.steps.given_back import claim
from tests.specdecode.steps.world import MACHINE, World, arn

CHECK = {"experiment": "account-check"}
POOLS = TRN2, CPU = names.NODEPOOL, names.CPU_NODEPOOL


def test_a_check_of_the_account_holds_the_node_without_devices_and_gives_it_back() -> None:
    world = World(pools=POOLS)
    world.run_through(until="AcquireCapacity", request=CHECK)
    assert world.held == {TRN2: 0, CPU: 1}
    assert not world.cluster.all("ResourceSlice"), "nobody waits for devices"
    assert world.rt.lease.read().pools == {CPU}
    world = World(pools=POOLS)
    world.run_through(request=CHECK)
    assert not world.cluster.all("ResourceClaim")
    release.release(world.given("run-1"), world.rt)
    assert world.held == {TRN2: 0, CPU: 0}


@pytest.mark.parametrize("by", ["release", "watchdog"])
@pytest.mark.parametrize(("first", "second"), [(None, None), (CHECK, CHECK)])
def test_the_next_holder_gets_the_node_of_its_own_pool(first: object, second: object, by: str) -> None:
    world = World(pools=POOLS)
    world.run_through(until="AcquireCapacity", request=first)
    world.plan("run-2", second)
    world.finish("StageModels", "run-2")
    waiting = acquire.acquire(world.given("run-2"), world.rt)
    assert not waiting.done and "number 1 in the queue" in waiting.message
    if by == "release":
        release.release(world.given("run-1"), world.rt)
    else:
        world.states.executions[arn("run-1")] = "ABORTED"
        watchdog.watch(world.given("watchdog"), world.rt)
    own = CPU if second else TRN2
    assert world.held == {TRN2: int(own == TRN2), CPU: int(own == CPU)}
    assert world.rt.lease.read().held_by("run-2")


@pytest.mark.parametrize(("first", "second"), [(None, CHECK), (CHECK, None)])
def test_nobody_waits_for_a_node_of_the_other_kind(first: object, second: object) -> None:
    world = World(pools=POOLS)
    world.run_through(until="AcquireCapacity", request=first)
    world.run_through("run-2", until="AcquireCapacity", request=second)
    assert world.held == {TRN2: 1, CPU: 1}
    release.release(world.given("run-1"), world.rt)
    assert world.held == {TRN2: int(second is None), CPU: int(second is not None)}
    assert world.rt.lease.read().held_by("run-2")


def test_a_pool_that_cannot_be_scaled_keeps_no_other() -> None:
    world = World(pools=POOLS)
    for pool in (TRN2, CPU):
        world.rt.kube.scale("NodePool", pool, 1)

    def fault(method: str, path: str) -> Exception | None:
        if method == "PATCH" and f"nodepools/{TRN2}" in path:
            raise OSError("the API server is away")
        return None

    world.cluster.fault = fault
    with pytest.raises(Exception, match="away"):
        set_replicas(world.rt.pools, Lease(), world.rt.lease.slots)
    assert world.held == {TRN2: 1, CPU: 0}


@pytest.mark.parametrize("holder", [None, CHECK, {"experiment": "rehearsal"}], ids=["nobody", "check", "other"])
def test_a_node_that_stays_is_deleted_in_each_pool_that_nobody_holds(holder: object) -> None:
    world = World(pools=POOLS)
    if holder:
        world.run_through(until="AcquireCapacity", request=holder)
    for pool in (TRN2, CPU, "staging"):
        claim(world, f"of-{pool}", pool=pool)
    world.time += watchdog.GRACE + timedelta(minutes=1)
    found = watchdog.watch(world.given("watchdog"), world.rt)
    kept = {None: set(), "account-check": {CPU}, "rehearsal": {TRN2}}[holder and holder["experiment"]]
    assert set(found.deleted) == {f"of-{pool}" for pool in {TRN2, CPU} - kept}
    assert found.nodes == len(kept) == found.replicas


def test_a_lease_of_a_pool_that_is_none_of_ours_is_damaged() -> None:
    world = World(pools=POOLS)
    world.states.executions[arn("run-1")] = "RUNNING"
    take = partial(leases.request, run_id="run-1", execution_arn=f"{MACHINE}:run-1", now=world.time, kind="staging")
    world.s3.objects[s3_keys.CAPACITY_KEY] = take(Lease()).model_dump_json().encode()
    with pytest.raises(LeaseDamaged, match="'staging', which is no pool of ours"):
        world.rt.lease.read()
    watchdog.watch(world.given("watchdog"), world.rt)
    assert world.held == {TRN2: 0, CPU: 0}


def test_a_lease_that_was_written_before_there_were_two_pools_is_of_the_first() -> None:
    old = leases.request(Lease(), run_id="run-1", execution_arn="arn", now=World().time).model_dump(mode="json")
    (claim,) = old["holder"]
    del claim["pool"]
    assert Lease.model_validate(old | {"holder": claim}).replicas_of(TRN2) == 1
