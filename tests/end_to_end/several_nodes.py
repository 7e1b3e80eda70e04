"""One sweep on both nodes of a deployment by `run --nodes`, end to end: two ordinary runs, and all arms in one table.

Not part of `make test` (it takes some minutes). Run it with

    .venv/bin/pytest tests/end_to_end/several_nodes.py
"""

import json
from collections.abc import Iterator

import pytest

from rehearsal import execution
from rehearsal.execution import Run
from tests.end_to_end.cloud import LONG, SMALL, deployed
from tests.end_to_end.two_nodes import TwoNodes

ARMS = {"sd-k2", "sd-k4", "sd-k6", "sd-k8"}


class Sweeps(TwoNodes):
    """A cloud of two nodes on which one command starts a sweep."""

    def sweep(self, changes: dict[str, object]) -> list[Run]:
        """The runs that the command started."""
        sets = [f"--set={path}={json.dumps(value)}" for path, value in {**changes, "sweep": "grid"}.items()]
        arguments = ["run", "rehearsal-sweep", *sets, "--nodes", "2", "--accept-cost", "5000", "--yes", "--json"]
        return [execution.of(self.running.services, each) for each in json.loads(self.command(*arguments))]


@pytest.fixture(scope="module")
def cloud() -> Iterator[Sweeps]:
    with deployed(nodes=2) as running:
        yield Sweeps(running)


@pytest.fixture
def nothing_left(cloud: Sweeps) -> Iterator[None]:
    yield
    cloud.calm()
    cloud.at_rest()


@pytest.mark.usefixtures("nothing_left")
def test_two_runs_measure_the_arms_side_by_side_and_one_table_has_them_all(cloud):
    runs = cloud.sweep(SMALL)
    both = ",".join(run.run_id for run in runs)
    cloud.both_measure(*runs)
    shown = cloud.command("status", both)
    assert all(f"{run.run_id}  RUNNING" in shown for run in runs), shown
    for run in runs:
        end = cloud.ended(run)
        assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    found = json.loads(cloud.command("compare", both, "--json"))
    assert {arm["variant"] for arm in found["arms"]} == ARMS and found["not_measured"] == []
    assert {arm["run_id"] for arm in found["arms"]} == {run.run_id for run in runs}
    assert "Arms of different runs were measured on different nodes" in cloud.command("compare", both)


@pytest.mark.usefixtures("nothing_left")
def test_one_of_them_is_stopped_and_resumed_while_the_other_goes_on(cloud):
    first, second = cloud.sweep(SMALL | {"workload.requests": 150})
    cloud.both_measure(first, second)
    assert f"stopped {first.run_id}" in cloud.command("stop", first.run_id)
    assert second.look().status == "RUNNING"
    again = cloud.running.start("again", {"resume": first.run_id, "accept_cost": 5000})
    for run in (second, again):
        end = cloud.ended(run)
        assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    found = json.loads(cloud.command("compare", f"{again.run_id},{second.run_id}", "--json"))
    assert {arm["variant"] for arm in found["arms"]} == ARMS


@pytest.mark.usefixtures("nothing_left")
def test_both_are_stopped_by_one_command(cloud):
    runs = cloud.sweep(LONG)
    cloud.both_measure(*runs)
    said = cloud.command("stop", ",".join(run.run_id for run in runs))
    assert all(f"stopped {run.run_id}" in said for run in runs), said
    assert {run.look().status for run in runs} == {"ABORTED"}
    assert cloud.running.replicas() == 0
