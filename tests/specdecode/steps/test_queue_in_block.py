"""The queue in a Capacity Block: whatever comes when, nobody is passed over, nobody waits beyond the block, and no node
is idle while somebody waits. A run that gets its node late begins all the same, and is cut off by the end of the block.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from specdecode import s3_keys
from specdecode.experiment import Capacity
from specdecode.experiment.capacity import DRAIN_BEFORE_BLOCK_END_MINUTES
from specdecode.steps import acquire, release
from specdecode.steps.errors import CapacityUnavailable

from tests.specdecode.steps.test_side_by_side import SideBySide

BEGIN = datetime(2026, 8, 1, 12, tzinfo=UTC)
HOURS = 8
"""Of the block."""
TICK = timedelta(hours=1)
DRAINED = BEGIN + timedelta(hours=HOURS, minutes=-DRAIN_BEFORE_BLOCK_END_MINUTES)
RUNS = tuple(f"run-{number}" for number in range(5))


class Wish(NamedTuple):
    """When a run asks, and how long it needs the node, in ticks."""

    asks: int
    needs: int


class Story(NamedTuple):
    got: dict[str, datetime]
    """When each run got a node."""
    ends: dict[str, str]
    """done, cut (by the end of the block), or refused."""


wishes = st.lists(st.builds(Wish, st.integers(0, HOURS - 1), st.integers(1, HOURS)), min_size=1, max_size=len(RUNS))


@pytest.fixture(scope="module")
def block() -> SideBySide:
    """Two nodes; every run is planned and staged."""
    world = SideBySide(time=BEGIN)
    end = BEGIN + timedelta(hours=HOURS)
    terms = Capacity(nodes=2, reservation="cr-0", block_start=BEGIN, block_end=end)
    world.rt.environ = {**world.rt.environ, "CAPACITY": terms.model_dump_json()}
    for run_id in RUNS:
        world.plan(run_id)
        world.finish("StageModels", run_id)
    return world


def happens(world: SideBySide, asked: list[Wish]) -> Story:
    """Each tick every run looks once, in the order of their names, as the state machine has it look."""
    world.s3.objects.pop(s3_keys.CAPACITY_KEY, None)
    wish, story = dict(zip(RUNS, asked, strict=False)), Story({}, {})
    for tick in range(HOURS + len(RUNS)):
        world.time = BEGIN + tick * TICK
        for run_id in [run for run in wish if run not in story.ends and wish[run].asks <= tick]:
            since = story.got.get(run_id)
            if since and (world.time - since >= wish[run_id].needs * TICK or world.time >= DRAINED):
                story.ends[run_id] = "done" if world.time - since >= wish[run_id].needs * TICK else "cut"
            else:
                try:
                    answer = acquire.acquire(world.given(run_id), world.rt)
                    assert not (answer.done and world.time >= DRAINED), "it begins on a node that is drained"
                except CapacityUnavailable:
                    story.ends[run_id] = "refused"
                    assert world.time >= DRAINED
            if run_id in story.ends:
                release.release(world.given(run_id), world.rt)
            lease = world.rt.lease.read()
            story.got.update({claim.run_id: world.time for claim in lease.holders if claim.run_id not in story.got})
            assert not lease.queue or len(lease.holders) == 2, "a node is idle while somebody waits"
    assert world.rt.lease.read().claims == ()
    return story


@settings(max_examples=25, phases=[Phase.explicit, Phase.generate])
@given(wishes)
def test_nobody_is_passed_over_or_waits_for_ever(block, asked):
    story = happens(block, asked)
    wish = dict(zip(RUNS, asked, strict=False))
    order = sorted(story.ends, key=lambda run: (wish[run].asks, run))
    assert set(story.ends) == set(wish), "every run comes to an end"
    got = [run for run in order if run in story.got]
    assert got == sorted(got, key=lambda run: (story.got[run], order.index(run))) and got == order[: len(got)]
    for run, end in story.ends.items():
        if end == "cut":
            assert story.got[run] + wish[run].needs * TICK > DRAINED - TICK


def test_a_run_that_gets_its_node_late_begins_though_its_hours_do_not_fit(block):
    """`plan` and `run` warn of it; what it finishes is kept for a resume, and the node is paid for in any case."""
    story = happens(block, [Wish(0, 5), Wish(0, 6), Wish(1, 5), Wish(2, 1)])
    assert [story.ends[run] for run in RUNS[:4]] == ["done", "done", "cut", "done"]
