"""Which arms are measured, which one each unit is at, and the best so far: in `specdecode status` and its JSON."""

from __future__ import annotations

from typing import Any

import pytest
from specdecode.cli.runs_deployment import Execution
from specdecode.cli.runs_view import lines
from specdecode.cli.runs_watch import look
from specdecode.experiment import Capacity
from specdecode.planning import Plan
from specdecode.runs.state import change_state, load_state

from tests.specdecode.cli.runs_fake import NOW, STARTED, entered, exited
from tests.specdecode.steps.swept import ONE, TWO, Swept
from tests.specdecode.steps.units import GRID, REQUEST, Units
from tests.specdecode.steps.world import arn


class Seen:
    """What the command line reads of a world."""

    capacity = Capacity()

    def __init__(self, world: Units) -> None:
        self.world, self.store = world, world.rt.store

    def find(self, run_id: str) -> Execution | None:
        status = self.world.states.executions.get(arn(run_id))
        if status is None:
            return None
        stopped = None if status == "RUNNING" else NOW.isoformat()
        return Execution(run_id=run_id, arn=arn(run_id), status=status, started=STARTED, stopped=stopped)

    execution = find

    def events(self, execution_arn: str) -> list[dict[str, Any]]:
        return [entered("Serve"), exited("1 of 2 arms are ready")]

    def state(self, run_id: str) -> Any:
        return load_state(self.store, run_id)

    def plan(self, run_id: str) -> Any:
        data = self.store.read(f"runs/{run_id}/plan.json")
        return None if data is None else Plan.model_validate_json(data)


def shown(world: Units) -> Any:
    deployment: Any = Seen(world)
    return look(deployment, "run")


@pytest.fixture
def going() -> Swept:
    world = Swept()
    world.open_sweep()
    for unit in (ONE, TWO):
        world.enter(unit)
    return world


def test_a_sweep_counts_its_arms_and_says_which_is_best(going):
    begun = dict(going.arms())
    first = shown(going)
    assert first.arms.measured == () and first.arms.most == 4 and first.arms.best is None
    assert {unit.run_id: unit.at for unit in first.units} == {unit: (arm,) for unit, arm in begun.items()}
    text = "\n".join(lines(first))
    assert "arms        0 of at most 4 measured\n" in text
    assert f" {begun[ONE]}: Serve: 1 of 2 arms are ready" in text
    took = going.go(ONE)
    later = shown(going)
    assert later.arms.measured == (begun[ONE],) and later.units[0].at == ((took,) if took else ())
    assert later.arms.best.arm == begun[ONE] and later.arms.best.loads == 1
    assert f"best so far {begun[ONE]}: {later.arms.best.speedup:.2f}x" in "\n".join(lines(later))


def test_the_best_is_that_of_the_whole_sweep_and_stays_after_its_end(going):
    document = going.to_the_end(ONE, TWO)
    going.states.executions[arn("run")] = "SUCCEEDED"
    end = shown(going)
    speed = {pair["variant"]: pair["groups"][0]["speedups"][0]["ratio"] for pair in document["pairs"]}
    assert set(end.arms.measured) == set(speed)
    assert end.arms.best.speedup == pytest.approx(max(speed.values()), rel=0.02)
    assert all(unit.at == () for unit in end.units)


def test_a_ledger_that_cannot_be_read_hides_the_best_alone(going):
    going.go(ONE)
    going.s3.objects["runs/run/sweep.json"] = b"{"
    found = shown(going)
    assert len(found.arms.measured) == 1 and found.arms.best is None


def test_a_grid_counts_arms_of_units_that_have_ended_and_of_those_that_go_on():
    world = Units()
    alone = {"serving.devices": 16, "serving.tensor_parallel_size": 64}
    world.begin_units(request={**REQUEST, "set": {**GRID, **alone}})
    world.look()
    world.measure("run-n1", waves=2)  # base, sd-k2; not sd-k4
    found = shown(world)
    assert (found.arms.measured, found.arms.most, found.arms.best) == (("sd-k2",), 4, None)
    assert found.units[0].at == ("sd-k4",)
    world.measure("run-n2")
    world.end("run-n2")
    world.look()
    assert shown(world).arms.measured == ("sd-k6", "sd-k8", "sd-k2")


def test_a_lost_arm_is_not_where_a_unit_is(going):
    """The sweep goes on without it."""
    waves = tuple(wave.index for wave in going.stored(ONE).waves)
    change_state(going.rt.store, ONE, lost=waves)
    assert shown(going).units[0].at == ()
