"""A run on several nodes is stopped while it starts a unit: in whatever order things happen, no unit goes on."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator

import pytest
from specdecode.runs.state import WITH_ITS_RUN
from specdecode.steps import measure_units, plan, watchdog
from specdecode.steps.errors import FINAL, StoppedWithItsRun

from tests.specdecode.steps.aws_fake import client_error
from tests.specdecode.steps.units import Units
from tests.specdecode.steps.world import arn

MATTERS = {("look", "PutObject", "state.json"), ("watch", "GetObject", "state.json")}


class Turns:
    """Threads that go on one at a time, each from one of its operations to the next, in a given order."""

    def __init__(self, prefer: Iterator[str]) -> None:
        self.order: list[str] = []
        """Who took each turn."""
        self.choices: list[list[str]] = []
        """Who could have."""
        self._prefer = prefer
        self._may: dict[str, threading.Semaphore] = {}
        self._paused = threading.Semaphore(0)
        self._waiting: set[str] = set()
        self.errors: list[BaseException] = []

    def pause(self) -> None:
        """Called by a thread before an operation of its own."""
        name = threading.current_thread().name
        if name in self._may:
            self._waiting.add(name)
            self._paused.release()
            self._may[name].acquire()

    def begin(self, name: str, part: Callable[[], object]) -> None:
        """Start one more thread, which waits for its first turn."""

        def go() -> None:
            self._may[name].acquire()
            try:
                part()
            except BaseException as error:
                self.errors.append(error)
            finally:
                self._paused.release()

        assert name not in self._may
        self._may[name] = threading.Semaphore(0)
        self._waiting.add(name)
        threading.Thread(target=go, name=name, daemon=True).start()

    def run(self) -> None:
        """Until nobody is left."""
        while self._waiting:
            able = sorted(self._waiting)
            self.choices.append(able)
            name = next(self._prefer, able[0])
            self.order.append(name)
            self._waiting.discard(name)
            self._may[name].release()
            self._paused.acquire()


def one_unit_lost() -> Units:
    """A run whose next look starts a unit in the place of one that lost its node."""
    world = Units()
    world.begin_units()
    world.look()
    world.measure("run-n1", waves=0)
    world.end("run-n1", "FAILED", error="NodeLost", cause="the node went away")
    world.measure("run-n2", waves=0)
    return world


def stopped_while_it_starts(world: Units, prefer: tuple[str, ...]) -> Turns:
    """The run is stopped while its look goes on, and the watchdog hears of it."""

    def unit(run_id: str) -> None:
        try:
            plan.plan(world.given(run_id, input={"unit_of": "run", "accept_cost": 900}), world.rt)
        except StoppedWithItsRun as error:
            world.end(run_id, "FAILED", error=type(error).__name__, cause=str(error))

    turns = Turns(iter(prefer))

    def before(operation: str, key: str) -> None:
        who = threading.current_thread().name
        if (who, operation, key.rpartition("/")[2]) in MATTERS or "/ended/" in key:
            turns.pause()

    def before_states(operation: str, name: str) -> None:
        turns.pause()
        if operation == "StartExecution":
            turns.begin(name, lambda: unit(name))

    # The look has begun when the run is stopped.
    world.s3.before, world.states.before = before, before_states
    turns.begin("look", world.look)
    world.states.executions[arn("run")] = "ABORTED"
    turns.begin("watch", lambda: watchdog.watch(world.given("watchdog", ended="run"), world.rt))
    turns.run()
    world.s3.before = world.states.before = lambda operation, key: None
    assert turns.errors == [], turns.order
    return turns


def every_order() -> Iterator[tuple[Units, Turns]]:
    """All orders in which the operations can come."""
    left: list[tuple[str, ...]] = [()]
    world = one_unit_lost()
    kept = [world.s3.objects, vars(world.states), world.cluster.objects]
    before = copy.deepcopy(kept)
    while left:
        given = left.pop()
        for now, then in zip(kept, copy.deepcopy(before), strict=True):
            now.clear()
            now.update(then)
        turns = stopped_while_it_starts(world, given)
        yield world, turns
        for at in range(len(given), len(turns.order)):
            others = [name for name in turns.choices[at] if name != turns.order[at]]
            left += [(*turns.order[:at], name) for name in others]


def test_in_every_order_a_late_unit_is_stopped_or_ends_by_itself_and_a_redrive_measures_its_arms():
    orders, late, outcomes = set(), set(), set()
    for world, turns in every_order():
        assert tuple(turns.order) not in orders
        orders.add(tuple(turns.order))
        for unit in world.started[1:]:
            status, why = world.states.executions[arn(unit)], world.states.ends.get(arn(unit), {})
            assert (status, why.get("error")) in {("ABORTED", WITH_ITS_RUN), ("FAILED", WITH_ITS_RUN)}, turns.order
            late |= {status} if unit == "run-n3" else set()
        outcome = repr((world.states.executions, world.state().units))
        if outcome not in outcomes:
            outcomes.add(outcome)
            measured_again(world)
    assert late == {"ABORTED", "FAILED"} and len(orders) > 100, (late, len(orders))


def measured_again(world: Units) -> None:
    """A redrive takes the notes of the last time for what they are, and gives every arm to a unit that begins."""
    world.states.redrive(arn("run"))
    for _ in range(3):
        measure_units.measure_units(world.given("run", redrives=1), world.rt)
    going = [unit for unit in world.state().units if unit.status is None]
    assert {arm for unit in going for arm in unit.arms} == {"sd-k2", "sd-k4", "sd-k6", "sd-k8"}
    for unit in going:
        plan.plan(world.given(unit.run_id, input={"unit_of": "run", "accept_cost": 900}), world.rt)
    assert watchdog.watch(world.given("watchdog", ended="run", stopped="run"), world.rt).stopped == ()


def test_the_units_of_a_run_that_was_redriven_are_left_by_a_watchdog_that_still_sees_it_stopped():
    """DescribeExecution may lag: it shows the run as it was before the redrive."""
    world = one_unit_lost()
    world.states.redrive(arn("run"))
    measure_units.measure_units(world.given("run", redrives=1), world.rt)
    world.states.executions[arn("run")], world.states.redrives[arn("run")] = "ABORTED", 0
    assert watchdog.watch(world.given("watchdog", ended="run"), world.rt).stopped == ("run-n2",)
    plan.plan(world.given("run-n3", input={"unit_of": "run", "accept_cost": 900}), world.rt)


def test_only_a_run_with_units_is_noted():
    world = Units()
    world.plan("small", None)
    world.states.executions[arn("small")] = "ABORTED"
    watchdog.watch(world.given("watchdog", ended="small"), world.rt)
    assert not [key for key in world.s3.objects if "ended" in key]


@pytest.mark.parametrize("told", [{"ended": "run"}, {"stopped": "run"}])
def test_whoever_stops_a_run_that_has_started_no_unit_yet_none_begins_later(told):
    world = Units()
    world.begin_units()
    world.states.executions[arn("run")] = "ABORTED"
    assert watchdog.watch(world.given("watchdog", **told), world.rt).stopped == ()
    world.look()
    for unit in world.started:
        with pytest.raises(StoppedWithItsRun, match="run run had ended"):
            plan.plan(world.given(unit, input={"unit_of": "run", "accept_cost": 900}), world.rt)
    assert StoppedWithItsRun.__name__ == WITH_ITS_RUN in FINAL


def test_units_are_stopped_though_no_note_can_be_written():
    world = one_unit_lost()
    world.states.executions[arn("run")] = "ABORTED"

    def denied(operation: str, key: str) -> None:
        if operation == "PutObject" and "/ended/" in key:
            raise client_error("AccessDenied", operation, 403)

    world.s3.before = denied
    found = watchdog.watch(world.given("watchdog", ended="run"), world.rt)
    assert found.stopped == ("run-n2",) and "AccessDenied" in found.problems[0]
