"""A hundred runs in the queue: what the watchdog asks and writes, who is left, and what a burst of stops costs."""

import pytest
from specdecode import s3_keys
from specdecode.steps import acquire

from tests.specdecode.steps.given_back import watch
from tests.specdecode.steps.world import World, arn

RUNS = [f"run-{number:03}" for number in range(100)]


class Asked:
    """Step Functions that counts the questions about single executions."""

    def __init__(self, states):
        self.states, self.described = states, 0

    def describe_execution(self, **given):
        self.described += 1
        return self.states.describe_execution(**given)

    def get_paginator(self, operation):
        return self.states.get_paginator(operation)


@pytest.fixture(scope="module")
def planned():
    """The first run holds the node, the others wait, in order."""
    world = World()
    world.run_through(RUNS[0], until="AcquireCapacity", request={"experiment": "rehearsal"})
    folder = s3_keys.run_prefix(RUNS[0])
    for run_id in RUNS[1:]:
        world.states.executions[arn(run_id)] = "RUNNING"
        for name in ("plan.json", "state.json"):
            stored = world.s3.objects[folder + name].replace(RUNS[0].encode(), run_id.encode())
            world.s3.objects[s3_keys.run_prefix(run_id) + name] = stored
        assert not acquire.acquire(world.given(run_id), world.rt).done
    return world


@pytest.fixture
def world(planned):
    planned.asked = Asked(planned.states)
    services = {"s3": planned.s3, "stepfunctions": planned.asked, "cloudwatch": planned.cloudwatch}
    planned.rt.clients = services.__getitem__
    planned.writes = []
    planned.s3.before = lambda operation, key: planned.writes.append(key) if operation == "PutObject" else None
    return planned


def claims(world):
    return [claim.run_id for claim in world.rt.lease.read().claims]


def test_a_queue_of_a_hundred_runs_is_watched_with_two_questions_and_changes_nothing(world):
    found = watch(world)
    assert (found.ended, found.cleaned, found.replicas) == ((), (), 1)
    assert (world.asked.described, world.writes) == (1, [])
    assert claims(world) == RUNS
    assert len(world.s3.objects[s3_keys.CAPACITY_KEY]) < 32 * 1024


def test_a_run_that_the_listing_does_not_show_yet_is_asked_for_by_name(world):
    listed = world.asked.get_paginator

    class Lagging:
        @staticmethod
        def paginate(**given):
            for page in listed("list_executions").paginate(**given):
                yield {"executions": [item for item in page["executions"] if item["name"] != RUNS[7]]}

    world.asked.get_paginator = lambda operation: Lagging
    assert watch(world).ended == () and world.asked.described == 2


def test_runs_stopped_in_a_burst_leave_in_one_write_and_the_others_keep_their_order(world):
    """The holder and every second waiting run."""
    stopped = RUNS[::2]
    for run_id in stopped:
        world.states.executions[arn(run_id)] = "ABORTED"
    found = watch(world)
    assert list(found.ended) == stopped
    assert claims(world) == RUNS[1::2]
    assert [key for key in world.writes if key == s3_keys.CAPACITY_KEY] == [s3_keys.CAPACITY_KEY]
    assert watch(world).ended == ()
