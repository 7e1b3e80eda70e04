"""One run on both nodes of a deployment, end to end: units, a lost node, stop, resume, redrive, teardown.

Not part of `make test` (it takes some minutes). Run it with

    .venv/bin/pytest tests/end_to_end/several_nodes.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from specdecode import names, s3_keys
from specdecode.runs.state import WITH_ITS_RUN

from rehearsal.execution import Run
from tests.end_to_end.cloud import LONG, SMALL, deployed, looks
from tests.end_to_end.two_nodes import TwoNodes

pytestmark = pytest.mark.timeout(900)
BOTH = {"sweep": "grid", "nodes": 2}
ARMS = {"sd-k2", "sd-k4", "sd-k6", "sd-k8"}


class SharedRuns(TwoNodes):
    """A cloud of two nodes on which one run may take both."""

    def start_shared(self, name: str, changes: dict[str, Any]) -> Run:
        request = {"experiment": "rehearsal-sweep", "set": {**changes, **BOTH}, "accept_cost": 5000}
        return self.running.start(name, request)

    def unit(self, run: Run, number: int) -> Run:
        """One of its units, once it has been started."""
        run_id = names.unit_run_id(run.run_id, number)
        found = self.until(lambda: run.deployment.find(run_id), what=f"the start of {run_id}")
        return Run(run_id=run_id, arn=found.arn, deployment=run.deployment, services=run.services)

    def report(self, run: Run) -> dict[str, Any]:
        return dict(json.loads(self.stored(s3_keys.run_key(run.run_id, "report.json"))))


@pytest.fixture(scope="module")
def cloud() -> Iterator[SharedRuns]:
    with deployed(nodes=2) as running:
        yield SharedRuns(running)


@pytest.fixture
def nothing_left(cloud: SharedRuns) -> Iterator[None]:
    yield
    cloud.stop_all()
    cloud.at_rest()


@pytest.mark.usefixtures("nothing_left")
def test_one_run_measures_its_arms_on_both_nodes_and_reports_them_together(cloud):
    run = cloud.start_shared("shared", SMALL)
    units = [cloud.unit(run, number) for number in (1, 2)]
    cloud.both_measure(*units)
    shown = cloud.command("status", run.run_id)
    assert "0 of 2 units measured" in shown and units[0].run_id in shown and units[1].run_id in shown, shown
    listed = cloud.command("list").splitlines()
    at = next(number for number, text in enumerate(listed) if text.endswith(f" {run.run_id}"))
    assert [text.split()[-1] for text in listed[at + 1 : at + 3]] == [unit.run_id for unit in units]
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    report = cloud.report(run)
    assert {pair["variant"] for pair in report["pairs"]} == ARMS
    assert len({part["node"] for part in report["parts"]}) == 2
    assert {record.unit for record in cloud.records(run)["base", "repeat-line"]} == {1, 2}


@pytest.mark.usefixtures("nothing_left")
def test_a_node_is_lost_and_what_it_had_is_measured_again_while_the_other_goes_on(cloud):
    run = cloud.start_shared("lost", SMALL | {"workload.requests": 150})
    first, second = (cloud.unit(run, number) for number in (1, 2))
    cloud.both_measure(first, second)
    (node,) = {
        pod["spec"]["nodeName"]
        for pod in cloud.pods("serving")
        if pod["metadata"]["labels"][names.RUN_LABEL] == names.run_label(first.run_id)
    }
    cloud.control("vanish", node=node)
    end = cloud.ended(first)
    assert (end.status, end.error) == ("FAILED", "NodeLost"), end.cause
    third = cloud.unit(run, 3)
    end = cloud.ended(run, seconds=600)
    assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    assert (second.look().status, third.look().status) == ("SUCCEEDED", "SUCCEEDED")
    assert {pair["variant"] for pair in cloud.report(run)["pairs"]} == ARMS


@pytest.mark.usefixtures("nothing_left")
def test_a_run_is_stopped_with_all_its_units_and_then_resumed(cloud):
    run = cloud.start_shared("stopped", LONG)
    units = [cloud.unit(run, number) for number in (1, 2)]
    cloud.both_measure(*units)
    said = cloud.command("stop", run.run_id)
    assert all(f"stopped {each.run_id}" in said for each in (run, *units)), said
    assert cloud.running.replicas() == 0
    assert {unit.look().status for unit in units} == {"ABORTED"}
    cloud.at_rest()
    again = cloud.running.start("again", {"resume": run.run_id, "accept_cost": 5000})
    cloud.both_measure(*(cloud.unit(again, number) for number in (1, 2)))


@pytest.mark.usefixtures("nothing_left")
def test_units_end_with_a_run_that_step_functions_alone_has_stopped_and_a_redrive_measures_them_again(cloud):
    run = cloud.start_shared("redriven", SMALL | {"workload.requests": 60})
    units = [cloud.unit(run, number) for number in (1, 2)]
    cloud.both_measure(*units)
    run.deployment.stop(run.arn)
    cloud.at_rest()
    assert {(unit.look().status, unit.look().error) for unit in units} == {("ABORTED", WITH_ITS_RUN)}
    cloud.running.services.client("stepfunctions").redrive_execution(executionArn=run.arn)
    cloud.both_measure(*(cloud.unit(run, number) for number in (3, 4)))
    end = cloud.ended(run, seconds=600)
    assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    assert {pair["variant"] for pair in cloud.report(run)["pairs"]} == ARMS
    assert looks(run, "Plan") == 1, "what was done before the stop is not done again"


def test_the_deployment_is_deleted_while_one_run_is_on_both_nodes(cloud):
    """Comes last: nothing is left to run on."""
    run = cloud.start_shared("left", LONG)
    cloud.both_measure(*(cloud.unit(run, number) for number in (1, 2)))
    assert cloud.running.replicas() == 2
    cloud.running.destroy()
    assert cloud.alive() == []
