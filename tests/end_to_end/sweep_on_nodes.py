"""An adaptive sweep on both nodes of a deployment, end to end: two arms at once, none twice, a node that is lost, stop
and resume, redrive.

Not part of `make test` (it takes some minutes). Run it with

    .venv/bin/pytest tests/end_to_end/sweep_on_nodes.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from specdecode import names
from specdecode.runs.ended import has_ended
from specdecode.runs.ledger import Ledger, StepOutcome, read_ledger
from specdecode.runs.state import WITH_ITS_RUN, RunUnit, load_state

from rehearsal.execution import Run
from tests.end_to_end.cloud import SMALL, deployed, looks
from tests.end_to_end.several_nodes import SharedRuns

pytestmark = pytest.mark.timeout(900)


class SweepsOnNodes(SharedRuns):
    """A cloud of two nodes that one adaptive sweep may take."""

    def start_sweep(self, name: str, changes: dict[str, Any]) -> Run:
        request = {"experiment": "rehearsal-sweep", "set": {**changes, "nodes": 2}, "accept_cost": 9000}
        return self.running.start(name, request)

    def ledger(self, run: Run) -> Ledger:
        return read_ledger(run.deployment.store, run.run_id)

    def measured(self, run: Run) -> set[str | None]:
        """The arms of which the ledger has a result."""
        return {each.arm for each in self.ledger(run).entries if each.outcome is StepOutcome.MEASURED}

    def own_units(self, run: Run) -> list[RunUnit]:
        """The units that the run has listed itself."""
        state = load_state(run.deployment.store, run.run_id)
        return [unit for unit in (state.units if state else ()) if names.parent_of(unit.run_id) == run.run_id]

    def whole(self, run: Run) -> dict[str, Any]:
        """The report of the run, which comes to its end; every arm that the ledger has as measured is in it."""
        end = self.ended(run, seconds=800)
        assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
        report, ledger = self.report(run), self.ledger(run)
        assert ledger.taken == ()
        assert {pair["variant"] for pair in report["pairs"]} == self.measured(run)
        assert [step["arm"] for step in report["context"]["sweep"]] == [each.arm for each in ledger.entries]
        return report


@pytest.fixture(scope="module")
def cloud() -> Iterator[SweepsOnNodes]:
    with deployed(nodes=2) as running:
        yield SweepsOnNodes(running)


@pytest.fixture(autouse=True)
def nothing_left(cloud: SweepsOnNodes) -> Iterator[None]:
    yield
    cloud.stop_all()
    cloud.at_rest()


def test_both_nodes_sweep_by_what_both_have_measured_and_one_that_is_lost_costs_its_arm_only(cloud):
    run = cloud.start_sweep("sweep", SMALL | {"workload.requests": 100})
    first, second = (cloud.unit(run, number) for number in (1, 2))
    cloud.both_measure(first, second)
    begun = cloud.ledger(run).taken
    assert len(set(begun)) == 2
    (node,) = {
        pod["spec"]["nodeName"]
        for pod in cloud.pods("serving")
        if pod["metadata"]["labels"][names.RUN_LABEL] == names.run_label(first.run_id)
    }
    cloud.control("vanish", node=node)
    end = cloud.ended(first)
    assert (end.status, end.error) == ("FAILED", "NodeLost"), end.cause
    third = cloud.unit(run, 3)
    report = cloud.whole(run)
    assert (second.look().status, third.look().status) == ("SUCCEEDED", "SUCCEEDED")
    assert cloud.ledger(run).of(first.run_id) == ()
    assert cloud.measured(run) >= set(begun), "what the lost node had begun is measured elsewhere"
    assert {part["unit"] for part in report["parts"]} == {2, 3}


def test_a_sweep_is_stopped_and_a_resumed_one_keeps_what_was_measured(cloud):
    """The first arm is measured, and both nodes are at others, when it is stopped."""
    run = cloud.start_sweep("stopped", SMALL | {"workload.requests": 60})
    cloud.until(lambda: cloud.measured(run), what="an arm that is measured", seconds=400)
    said = cloud.command("stop", run.run_id)
    going = [unit.run_id for unit in cloud.own_units(run) if unit.status is None]
    assert f"stopped {run.run_id}" in said and all(f"stopped {unit}" in said for unit in going), said
    assert cloud.running.replicas() == 0
    cloud.at_rest()
    kept = cloud.measured(run)
    again = cloud.running.start("again", {"resume": run.run_id, "accept_cost": 9000})
    report = cloud.whole(again)
    known = [each for each in cloud.ledger(again).entries if names.parent_of(each.unit) == run.run_id]
    assert {each.arm for each in known} >= kept and all(each.seen for each in known)
    assert {pair["variant"] for pair in report["pairs"]} >= kept


def test_a_sweep_that_step_functions_alone_has_stopped_goes_on_when_it_is_redriven(cloud):
    run = cloud.start_sweep("redriven", SMALL | {"workload.requests": 60})
    units = [cloud.unit(run, number) for number in (1, 2)]
    cloud.both_measure(*units)
    begun = set(cloud.ledger(run).taken)
    run.deployment.stop(run.arn)
    cloud.at_rest()
    assert {(unit.look().status, unit.look().error) for unit in units} == {("ABORTED", WITH_ITS_RUN)}
    assert has_ended(run.deployment.store, run.run_id, 0) and not has_ended(run.deployment.store, run.run_id, 1)
    cloud.running.services.client("stepfunctions").redrive_execution(executionArn=run.arn)
    report = cloud.whole(run)
    later = [unit for unit in cloud.own_units(run) if unit.number > 2]
    assert later and {unit.redrives for unit in later} == {1}
    assert cloud.measured(run) >= begun, "what had begun is measured again"
    assert {part["unit"] for part in report["parts"]} >= {unit.number for unit in later if unit.finished}
    assert looks(run, "Plan") == 1, "what was done before the stop is not done again"
