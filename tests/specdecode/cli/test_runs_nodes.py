"""`specdecode run --nodes`: one table, one question, a run for each node; and several runs in status and stop."""

import json

import pytest
from specdecode.cli import runs_deployment
from specdecode.cli.runs_deployment import Execution
from specdecode.experiment import Capacity
from specdecode.names import run_label
from specdecode.steps.plan import experiment_of, parse_request

from tests.specdecode.cli.runs_fake import RUNNING, FakeDeployment
from tests.specdecode.steps.aws_fake import client_error

SWEEP = ("run", "qwen3-32b-tuning", "--set", "sweep=grid")
FOUR = Capacity(node="trn2.48xlarge", nodes=4, accept_cost_above=10_000)


@pytest.fixture
def four(command):
    FakeDeployment.capacity = FOUR
    return command


def compared(document):
    return [variant["name"] for variant in document["variants"] if variant["compare_to"]]


def test_a_run_is_started_for_each_node_and_the_end_says_how_to_see_all_arms_together(four):
    result = four(*SWEEP, "--nodes", "4", "--yes")
    assert result.exit_code == 0
    ids = [run_id for run_id, _ in FakeDeployment.started]
    first = ids[0].removesuffix("-1")
    assert ids == [f"{first}-{number}" for number in (1, 2, 3, 4)]
    assert (
        f"specdecode compare {','.join(ids)}" in result.output and f"specdecode status {','.join(ids)}" in result.output
    )
    arms = [name for _, request in FakeDeployment.started for name in compared(request["experiment"])]
    assert len(arms) == len(set(arms)) == 22
    for _, request in FakeDeployment.started:
        asked = parse_request(request)
        assert experiment_of(asked, capacity=FOUR).name == "qwen3-32b-tuning", "each is an ordinary request"
        assert asked.started_by == FakeDeployment.caller_is and asked.accept_cost is None


def test_ids_of_sixteen_runs_are_labels(four):
    FakeDeployment.capacity = FOUR.model_copy(update={"nodes": 16})
    four("run", "qwen3-32b-tuning", "--set", "sweep=grid", "--set", f"name={'x' * 40}", "--nodes", "16", "--yes")
    ids = [run_id for run_id, _ in FakeDeployment.started]
    assert len(ids) == 16 and [run_label(run_id) for run_id in ids] == ids


@pytest.mark.parametrize(("says", "code", "started"), [("y\n", 0, 2), ("n\n", 1, 0)])
def test_one_table_has_all_parts_and_one_question_is_asked(answering, says, code, started):
    FakeDeployment.capacity = FOUR
    result = answering(*SWEEP, "--nodes", "2", says=says)
    assert (result.exit_code, len(FakeDeployment.started)) == (code, started)
    assert result.output.count("Start them? [y/N]") == 1
    flat = " ".join(result.output.split())
    assert "2 runs, each on a node of its own" in flat and "│ all │ 22 arms │" in flat and "│ or one │" in flat
    assert ("nothing was started" in result.output) == (not started)


def test_all_parts_together_are_held_against_what_is_accepted(four):
    """No part alone could cost more than the limit."""
    FakeDeployment.capacity = FOUR.model_copy(update={"accept_cost_above": 2500})
    refused = four(*SWEEP, "--nodes", "4", "--yes")
    assert (refused.exit_code, FakeDeployment.started) == (2, [])
    assert "together they could cost $3,9" in refused.stderr and "add --accept-cost 39" in refused.stderr
    assert four(*SWEEP, "--nodes", "4", "--yes", "--accept-cost", "3000").exit_code == 2
    assert four(*SWEEP, "--nodes", "4", "--yes", "--accept-cost", "4000").exit_code == 0
    assert all("accept_cost" not in request for _, request in FakeDeployment.started), "none needs consent by itself"


def test_a_part_that_needs_consent_gets_its_own_bound_and_no_more(four):
    FakeDeployment.capacity = FOUR.model_copy(update={"accept_cost_above": 1000})
    assert four(*SWEEP, "--nodes", "4", "--yes", "--accept-cost", "4000").exit_code == 0
    accepted = [request.get("accept_cost") for _, request in FakeDeployment.started]
    assert accepted[2:] == [None, None] and all(1000 < dollars < 1200 for dollars in accepted[:2])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*SWEEP, "--nodes", "5"), "this deployment has 4 nodes, not 5: `.venv/bin/specdecode configure nodes=5`"),
        (("run", "qwen3-32b-tuning", "--nodes", "2"), "an adaptive sweep chooses each arm"),
        (("run", "qwen3-32b", "--nodes", "2"), "one group of arms for 2 nodes"),
        (("run", "--resume", "r", "--nodes", "2"), "a part is resumed as any run: --resume RUN alone"),
        ((*SWEEP, "--nodes", "2", "--watch"), "--watch follows one run"),
    ],
)
def test_what_cannot_be_split_starts_nothing(four, arguments, says):
    result = four(*arguments, "--yes")
    assert (result.exit_code, FakeDeployment.started) == (2, [])
    assert says in result.stderr


def test_one_node_is_an_ordinary_run(four):
    assert four("run", "rehearsal", "--nodes", "1", "--yes").exit_code == 0
    ((_, request),) = FakeDeployment.started
    assert request["experiment"] == "rehearsal"


def test_no_part_starts_if_one_is_too_large(four, monkeypatch):
    four(*SWEEP, "--nodes", "4", "--yes")
    sizes = [len(FakeDeployment().input_of(request)) for _, request in FakeDeployment.started]
    assert sizes[0] < sizes[1]
    FakeDeployment.started = []
    monkeypatch.setattr(runs_deployment, "MAX_INPUT_BYTES", sizes[0])
    result = four(*SWEEP, "--nodes", "4", "--yes")
    assert (result.exit_code, FakeDeployment.started) == (2, [])
    assert "as an execution's input" in result.stderr


def test_a_start_that_fails_in_the_middle_says_what_goes_on_and_how_to_stop_it(four, monkeypatch):
    begin = FakeDeployment.start

    def start(self, run_id, request):
        if run_id.endswith("-3"):
            raise client_error("ExecutionLimitExceeded")
        return begin(self, run_id, request)

    monkeypatch.setattr(FakeDeployment, "start", start)
    result = four(*SWEEP, "--nodes", "4", "--yes")
    assert result.exit_code == 3 and "Traceback" not in result.output
    first, second = (run_id for run_id, _ in FakeDeployment.started)
    assert f"These go on: {first}, {second}" in result.stderr
    assert f"specdecode stop {first},{second}" in result.stderr
    assert "specdecode compare" not in result.output


def test_json_has_every_run_with_its_arms_and_its_bill(four):
    found = json.loads(four(*SWEEP, "--nodes", "2", "--yes", "--json").stdout)
    assert [item["run_id"] for item in found] == [run_id for run_id, _ in FakeDeployment.started]
    assert sum(len(item["arms"]) for item in found) == 22 and all(item["bill"]["most"] > 1000 for item in found)


TWO = {name: Execution(**{**vars(RUNNING), "run_id": name, "arn": f"arn:{name}"}) for name in ("r", "s")}


@pytest.fixture
def two(command, monkeypatch):
    monkeypatch.setattr(FakeDeployment, "execution", lambda self, run_id: TWO[run_id])
    monkeypatch.setattr(FakeDeployment, "find", lambda self, run_id: TWO[run_id])
    return command


def test_status_shows_each_of_several_runs(two):
    shown = two("status", "r,s").output
    assert "r  RUNNING" in shown and "s  RUNNING" in shown
    assert [item["run_id"] for item in json.loads(two("status", "r,s", "--json").stdout)] == ["r", "s"]
    assert json.loads(two("status", "r", "--json").stdout)["run_id"] == "r", "one run is one document"
    assert "--watch follows one run" in two("status", "r,s", "--watch").stderr


def test_stop_stops_all_before_it_waits_for_the_first(two, monkeypatch):
    released = []
    monkeypatch.setattr("specdecode.cli.runs_release.give_back", lambda deployment, run_id: released.append(
        (run_id, [*FakeDeployment.stopped])
    ))  # fmt: skip
    assert two("stop", "r,s").exit_code == 0
    assert released == [("r", ["arn:r", "arn:s"]), ("s", ["arn:r", "arn:s"])]
