"""`specdecode run --nodes`: one table, one question, a run for each node; and several runs in status and stop."""

import json

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError
from specdecode.cli import runs_deployment, runs_start
from specdecode.cli.runs_deployment import Deployment, Execution
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
        assert asked.started_by == FakeDeployment.caller_is and asked.accept_cost is not None


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
    assert "together they could cost $4,0" in refused.stderr and "add --accept-cost 40" in refused.stderr
    assert four(*SWEEP, "--nodes", "4", "--yes", "--accept-cost", "3000").exit_code == 2
    assert four(*SWEEP, "--nodes", "4", "--yes", "--accept-cost", "4100").exit_code == 0
    accepted = [request["accept_cost"] for _, request in FakeDeployment.started]
    assert 4000 < sum(accepted) < 4100, "each may cost what was shown, though none needs consent by itself"


def test_an_amount_below_the_limit_is_the_limit_of_all_parts_together(four):
    refused = four(*SWEEP, "--nodes", "4", "--yes", "--accept-cost", "100")
    assert (refused.exit_code, FakeDeployment.started) == (2, [])
    assert "(--accept-cost 100 is not enough)" in refused.stderr


def test_a_part_that_needs_consent_gets_its_own_bound_and_no_more(four):
    FakeDeployment.capacity = FOUR.model_copy(update={"accept_cost_above": 1000})
    assert four(*SWEEP, "--nodes", "4", "--yes", "--accept-cost", "4100").exit_code == 0
    accepted = [request["accept_cost"] for _, request in FakeDeployment.started]
    assert max(accepted[2:]) <= 1000 and all(1000 < dollars < 1200 for dollars in accepted[:2])


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


REFUSED = client_error("ExecutionLimitExceeded")
LOST = ReadTimeoutError(endpoint_url="https://states")
ASKED_AGAIN = client_error("ExecutionAlreadyExists")
ASKED_AGAIN.response["ResponseMetadata"]["RetryAttempts"] = 1
BROKEN_OFF = {
    "refused": (REFUSED, 3, False),
    "lost": (LOST, 3, True),
    "lost, 500": (client_error("InternalError", http=500), 3, True),
    "lost, then refused": (ASKED_AGAIN, 3, True),
    "Ctrl-C": (KeyboardInterrupt(), 130, True),
}
"""What the start of a run raises -> exit code, and whether the run may be running."""


def starts_until(monkeypatch, end, raised):
    """Ids of the starts that are asked for from now on; that of an id with this end raises."""
    begin, asked = FakeDeployment.start, []

    def start(self, run_id, request):
        asked.append(run_id)
        if run_id.endswith(end):
            raise raised
        return begin(self, run_id, request)

    monkeypatch.setattr(FakeDeployment, "start", start)
    return asked


@pytest.mark.parametrize(("raised", "code", "may_run"), BROKEN_OFF.values(), ids=BROKEN_OFF)
def test_a_start_that_breaks_off_in_the_middle_says_what_goes_on_and_how_to_stop_it(
    four, monkeypatch, raised, code, may_run
):
    asked = starts_until(monkeypatch, "-3", raised)
    result = four(*SWEEP, "--nodes", "4", "--yes")
    first, second, third = asked
    assert result.exit_code == code and "Traceback" not in result.output
    assert f"these go on: {first}, {second}\n" in result.stderr
    assert result.stderr.endswith(f"specdecode stop {','.join(asked if may_run else asked[:2])}\n")
    assert (f"{third} may be running" in result.stderr) is may_run
    assert (f"specdecode status {third}\n" in result.stderr) is may_run
    assert (f"{third} could not be started" in result.stderr) is not may_run
    assert "specdecode compare" not in result.output
    asked.clear()
    found = json.loads(four(*SWEEP, "--nodes", "4", "--yes", "--json").stdout)
    assert found["started"] == {run_id: f"arn:{run_id}" for run_id in asked[:2]}
    assert (found["may_be_running"], found["exit_code"]) == (asked[2:] if may_run else [], code)


@pytest.mark.parametrize(("raised", "code", "may_run"), BROKEN_OFF.values(), ids=BROKEN_OFF)
def test_the_start_of_one_run_says_whether_it_may_be_running(command, monkeypatch, raised, code, may_run):
    asked = starts_until(monkeypatch, "", raised)
    result = command("run", "rehearsal", "--yes")
    assert result.exit_code == code
    assert (f"{asked[0]} may be running" in result.stderr) is may_run
    assert result.stderr.endswith(f"specdecode stop {asked[0]}\n") is may_run
    assert ("nothing was started" in result.stderr) is not may_run


def test_ctrl_c_after_the_last_start_names_all(four, monkeypatch):
    def interrupted(text):
        if text.endswith("-2"):
            raise KeyboardInterrupt

    monkeypatch.setattr(runs_start, "say", interrupted)
    result = four(*SWEEP, "--nodes", "2", "--yes")
    ids = ",".join(run_id for run_id, _ in FakeDeployment.started)
    assert result.exit_code == 130 and result.stderr.endswith(f"specdecode stop {ids}\n")
    assert "may be running" not in result.stderr


@pytest.mark.parametrize(("lost", "answers"), [(1, True), (99, False)])
def test_the_sdk_asks_again_for_the_same_run_if_an_answer_is_lost(monkeypatch, lost, answers):
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)
    session, asked = boto3.Session("a", "b", region_name="us-east-2"), []

    def answer(request, **_):
        asked.append(request.body)
        if len(asked) <= lost:
            raise LOST
        answered = AWSResponse(request.url, 200, {}, None)
        answered._content = b'{"executionArn": "arn"}'
        return answered

    session.events.register("before-send.sfn.StartExecution", answer)
    deployment = Deployment(session=session)
    deployment.__dict__["outputs"] = {"StateMachineArn": "machine"}
    if answers:
        assert deployment.start("r", {"experiment": "rehearsal"}) == "arn"
    else:
        with pytest.raises(ReadTimeoutError):
            deployment.start("r", {"experiment": "rehearsal"})
    assert len(asked) == min(lost + 1, 5) and len(set(asked)) == 1


def test_json_has_every_run_with_its_arms_and_its_bill(four):
    found = json.loads(four(*SWEEP, "--nodes", "2", "--yes", "--json").stdout)
    assert [item["run_id"] for item in found] == [run_id for run_id, _ in FakeDeployment.started]
    assert sum(len(item["arms"]) for item in found) == 22 and all(item["bill"]["most"] > 1000 for item in found)


TWO = {name: Execution(**{**vars(RUNNING), "run_id": name, "arn": f"arn:{name}"}) for name in ("r", "s")}


@pytest.fixture
def two(command, monkeypatch):
    monkeypatch.setattr(FakeDeployment, "execution", lambda self, run_id: TWO[run_id])
    monkeypatch.setattr(FakeDeployment, "find", lambda self, run_id: TWO.get(run_id))
    return command


def test_status_shows_each_of_several_runs(two):
    shown = two("status", "r,s").output
    assert "r  RUNNING" in shown and "s  RUNNING" in shown
    assert [item["run_id"] for item in json.loads(two("status", "r,s", "--json").stdout)] == ["r", "s"]
    assert json.loads(two("status", "r", "--json").stdout)["run_id"] == "r", "one run is one document"
    assert "--watch follows one run" in two("status", "r,s", "--watch").stderr


@pytest.mark.parametrize(("asked", "code"), [("r,s", 0), ("r,none,s", 2)])
def test_stop_stops_all_that_there_are_before_it_waits_for_the_first(two, monkeypatch, asked, code):
    released = []
    monkeypatch.setattr("specdecode.cli.runs_release.give_back", lambda deployment, run_id: released.append(
        (run_id, [*FakeDeployment.stopped])
    ))  # fmt: skip
    result = two("stop", asked)
    assert (result.exit_code, "there is no run none (" in result.stderr) == (code, code == 2)
    assert released == [("r", ["arn:r", "arn:s"]), ("s", ["arn:r", "arn:s"])]
