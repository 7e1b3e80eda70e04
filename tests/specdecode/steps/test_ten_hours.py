"""A run of ten hours, of which three are seen, on a clock that is set forward: looks, history, deadline, watchdog."""

from datetime import timedelta

import pytest
from specdecode.planning.events import EVENTS_PER_LOOK, EVENTS_PER_VISIT, RETRIES_A_VISIT
from specdecode.steps import compile as compiling
from specdecode.steps import watchdog
from specdecode.steps.errors import CompileFailed
from specdecode.steps.run import load_run

from tests.specdecode.steps.world import World

HOURS, SEEN = 10, 3


def compiling_for(minutes: int, world: World) -> list[int]:
    """Ask Compile until it is done, its pod running for `minutes`; the seconds between the looks.

    Every five minutes the watchdog looks too, and finds nothing to do.
    """
    begun, watched, waits, react = world.time, world.time, list[int](), world.cluster.react
    while not (answer := compiling.compile_arms(world.given("run-1"), world.rt)).done:
        waits.append(answer.wait_s)
        world.cluster.react = lambda: None
        world.time += timedelta(seconds=answer.wait_s)
        if world.time - watched >= timedelta(minutes=5):
            watched = world.time
            found = watchdog.watch(world.given("watchdog"), world.rt)
            assert (found.ended, found.cleaned, found.replicas) == ((), (), 1)
        if world.time - begun >= timedelta(minutes=minutes):
            world.trouble.clear()
            world.cluster.react = react
    return waits


@pytest.fixture
def world():
    world = World(trouble={"compile": lambda pod: None})
    limit = {"deadlines.compile": HOURS * 60 + 5}
    world.run_through(until="AcquireCapacity", request={"experiment": "rehearsal", "set": limit, "accept_cost": 1000})
    return world


def test_ten_hours_of_compiling_are_looked_at_within_the_history_and_left_alone_by_the_watchdog(world):
    plan = load_run(world.rt.store, "run-1").plan
    waits = compiling_for(SEEN * 60, world)
    looks = len(waits) * HOURS // SEEN + 1
    events = EVENTS_PER_LOOK * looks + EVENTS_PER_VISIT * -(-looks // (RETRIES_A_VISIT + 1))
    assert (plan.attentive_seconds, plan.poll_seconds) == (15, 15)
    assert set(waits) == {15}
    assert 3 * HOURS * 3600 / 15 < events < plan.worst_case_events < 20_000
    age = [
        item["Value"] for item in world.cloudwatch.data if item["MetricName"] == "LeaseAge" and "Dimensions" not in item
    ]
    assert SEEN * 3600 - 600 < age[-1] < SEEN * 3600 + 600
    assert world.rt.lease.read().held_by("run-1")


def test_the_deadline_is_kept_to_a_look(world):
    def look():
        return compiling.compile_arms(world.given("run-1"), world.rt)

    assert not look().done
    world.time += timedelta(minutes=605)
    assert not look().done
    world.time += timedelta(seconds=look().wait_s)
    with pytest.raises(CompileFailed, match="did not finish within 605 min"):
        look()
