"""An adaptive sweep on both nodes of a deployment, end to end: two arms at once, none twice, a node that is lost.

Not part of `make test` (it takes some minutes). Run it with

    .venv/bin/pytest tests/end_to_end/sweep_on_nodes.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from specdecode import names
from specdecode.runs.ledger import Ledger, StepOutcome, read_ledger

from rehearsal.execution import Run
from tests.end_to_end.cloud import SMALL, deployed
from tests.end_to_end.several_nodes import SharedRuns

pytestmark = pytest.mark.timeout(900)


class SweepsOnNodes(SharedRuns):
    """A cloud of two nodes that one adaptive sweep may take."""

    def start_sweep(self, name: str, changes: dict[str, Any]) -> Run:
        request = {"experiment": "rehearsal-sweep", "set": {**changes, "nodes": 2}, "accept_cost": 9000}
        return self.running.start(name, request)

    def ledger(self, run: Run) -> Ledger:
        return read_ledger(run.deployment.store, run.run_id)


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
    end = cloud.ended(run, seconds=800)
    assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    assert (second.look().status, third.look().status) == ("SUCCEEDED", "SUCCEEDED")
    ledger = cloud.ledger(run)
    assert ledger.taken == () and ledger.of(first.run_id) == ()
    measured = {each.arm for each in ledger.entries if each.outcome is StepOutcome.MEASURED}
    assert measured >= set(begun), "what the lost node had begun is measured elsewhere"
    report = cloud.report(run)
    assert {pair["variant"] for pair in report["pairs"]} == measured
    assert {part["unit"] for part in report["parts"]} == {2, 3}
    assert [step["arm"] for step in report["context"]["sweep"]] == [each.arm for each in ledger.entries]
