"""The commands about runs, with the deployment replaced by one that keeps what it is asked."""

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import typer
from specdecode.analysis.advice.sweep import first_steps
from specdecode.cli.runs_deployment import Deployment
from specdecode.cli.runs_start import estimate
from specdecode.experiment import Capacity, load_engine, load_preset
from specdecode.experiment.model import Sweep
from specdecode.planning import Inventory, needed_prefixes
from specdecode.steps.errors import InvalidExperiment
from specdecode.store import Store

from tests.finished_folders import stored
from tests.specdecode.cli.runs_fake import FakeDeployment
from tests.specdecode.steps.aws_fake import denied
from tests.specdecode.steps.world import World


def test_run_starts_a_preset_with_its_overrides_and_says_how_to_follow(command):
    result = command("run", "rehearsal", "--set", "workload.requests=4", "--yes")
    assert result.exit_code == 0
    ((run_id, request),) = FakeDeployment.started
    assert request.pop("started_by") == FakeDeployment.caller_is
    assert request == {"experiment": "rehearsal", "set": {"workload.requests": 4}, "accept_cost": 129}
    assert run_id.startswith("rehearsal-")
    assert f"specdecode status {run_id}" in result.output


def test_run_sends_a_file_as_a_document(command, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("extends: rehearsal\nname: mine\n")
    assert command("run", str(path), "--yes").exit_code == 0
    ((_, request),) = FakeDeployment.started
    assert request["experiment"]["name"] == "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "no preset is called 'nonsense'"),
        (["rehearsal", "--set", "workload.requests=0"], "workload.requests"),
        (["missing.yaml"], "no such file"),
        (["rehearsal", "--set", "nothing"], "path=value"),
    ],
)
def test_run_refuses_before_it_starts_anything(command, arguments, words):
    result = command("run", *arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert FakeDeployment.started == []
    assert "Traceback" not in result.output


def test_run_without_a_preset_starts_nothing_and_names_them_with_their_prices(command):
    result = command("run", "--yes")
    assert result.exit_code == 2 and FakeDeployment.started == []
    assert "say what to run" in result.output and "$54 to $220, at most $412" in result.output
    assert result.output.index("qwen3-32b-native") < result.output.index("qwen3-32b "), "the supported engine first"


def test_resume_names_the_run_only(command):
    FakeDeployment.looks = 5
    command("run", "--resume", "r", "--yes")
    asked = {"resume": "r", "accept_cost": 129, "started_by": FakeDeployment.caller_is}
    assert FakeDeployment.started[0][1] == asked


def test_a_run_that_step_functions_has_forgotten_can_be_resumed_all_the_same(command):
    FakeDeployment.remembered = False
    assert command("run", "--resume", "r", "--yes").exit_code == 0


@pytest.mark.parametrize(("run_id", "words"), [("nonsense", "there is no run nonsense"), ("r", "r still runs")])
def test_resume_refuses_what_cannot_be_resumed_before_it_starts_anything(command, run_id, words):
    result = command("run", "--resume", run_id)
    assert (result.exit_code, FakeDeployment.started) == (2, [])
    assert words in result.output


def test_resume_says_that_it_is_the_stored_experiment_that_is_wrong(command, monkeypatch):
    FakeDeployment.looks = 5
    monkeypatch.setattr(Store, "read", lambda self, key: b"extends: nosuch")
    result = command("run", "--resume", "r")
    assert result.exit_code == 2 and "r cannot be resumed: 1 problem" in result.stderr


@pytest.mark.parametrize(("says", "code", "started"), [("y\n", 0, 1), ("n\n", 1, 0), ("\n", 1, 0), ("", 1, 0)])
def test_run_shows_what_it_costs_and_asks_once(answering, says, code, started):
    result = answering("run", "qwen3-32b", says=says)
    assert (result.exit_code, len(FakeDeployment.started)) == (code, started)
    assert "qwen3-32b: 2 waves, 2 models to stage, 2 artifacts to compile" in result.output
    assert "node      1.5 to 6.1 h, $54 to $220 at $35.76 an hour" in result.output
    assert "rounds    2; after the first: 16 to 88 min, $9.27 to $52.24 of it" in result.output
    assert "check     $2.38 to $7.45 of it, at most $18: engines start with tiny models" in result.output
    assert "at most   $412, if every step lasts until its deadline" in result.output
    assert result.output.count("Start it? [y/N]") == 1
    assert ("nothing was started" in result.output) == (not started)


def test_a_run_whose_answers_are_not_there_is_refused_before_it_starts(command):
    result = command("run", "qwen3-32b-forecast", "--set", "answers=run-0", "--yes")
    assert (result.exit_code, FakeDeployment.started) == (2, [])
    assert "there is no run run-0 in s3://bucket/" in result.stderr


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--watch",)])
def test_where_nobody_can_be_asked_run_wants_yes_and_says_so(command, arguments):
    result = command("run", "qwen3-32b", *arguments)
    assert (result.exit_code, FakeDeployment.started) == (2, [])
    assert "give --yes (nothing was started)" in result.stderr


def test_json_is_never_asked_even_at_a_terminal(answering):
    assert answering("run", "qwen3-32b", "--json", says="y\n").exit_code == 2
    result = answering("run", "qwen3-32b", "--json", "--yes", says="")
    assert json.loads(result.stdout)["bill"]["most"] == pytest.approx(412, abs=1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "it could cost $2,828, if every step lasts until its deadline (more than $500): add --accept-cost 2828"),
        (("--accept-cost", "600"), "(--accept-cost 600 is not enough): add --accept-cost 2828"),
        (("--accept-cost", "10"), "(--accept-cost 10 is not enough): add --accept-cost 2828"),
    ],
)
def test_a_run_that_could_cost_more_than_the_bound_needs_more_than_yes(command, arguments, words):
    result = command("run", "llama-3.1-405b", "--yes", *arguments)
    assert (result.exit_code, FakeDeployment.started) == (2, [])
    assert words in result.stderr


@pytest.mark.parametrize("accepted", ["0", "10", "411"])
def test_an_amount_below_the_bound_is_the_bound(command, accepted):
    result = command("run", "qwen3-32b", "--yes", "--accept-cost", accepted)
    assert (result.exit_code, FakeDeployment.started) == (2, [])
    assert f"it could cost $412, if every step lasts until its deadline (--accept-cost {accepted} is" in result.stderr


@pytest.mark.parametrize("preset", ["rehearsal", "account-check", "qwen3-32b-tuning"])
def test_plan_asks_for_no_more_than_was_shown_and_for_no_less(command, preset):
    """The command sends the amount that it showed; Plan makes the bill anew."""
    FakeDeployment.capacity = Capacity(accept_cost_above=10_000)
    assert command("run", preset, "--yes").exit_code == 0
    world, ((_, request),) = World(), FakeDeployment.started
    with pytest.raises(InvalidExperiment, match=f'"accept_cost": {request["accept_cost"]} '):
        world.plan(request={**request, "accept_cost": request["accept_cost"] - 1})
    world.plan(request=request)


def test_what_is_accepted_is_part_of_the_request(command):
    assert command("run", "llama-3.1-405b", "--yes", "--accept-cost", "2900").exit_code == 0
    assert command("run", "qwen3-32b", "--yes").exit_code == 0
    assert [request["accept_cost"] for _, request in FakeDeployment.started] == [2900, 412], "what was shown"


def test_the_deployment_says_where_the_bound_lies_and_on_what_terms_the_node_comes(command):
    FakeDeployment.capacity = Capacity(accept_cost_above=100)
    assert "more than $100" in command("run", "qwen3-32b", "--yes").stderr
    reserved = Capacity(accept_cost_above=100, reservation="cr-0123456789abcdef0")
    FakeDeployment.capacity = reserved
    result = command("run", "qwen3-32b", "--yes")
    assert result.exit_code == 0
    assert "from an On-Demand Capacity Reservation, billed whether the run uses it or not" in result.output
    FakeDeployment.capacity = reserved.model_copy(update={"block_end": datetime.now(UTC) + timedelta(days=1)})
    assert "from a Capacity Block, paid for already" in command("run", "qwen3-32b", "--yes").output


def test_what_lies_in_the_bucket_is_not_estimated_again(command):
    for prefix in needed_prefixes(load_preset("qwen3-32b"), load_engine("0.9.1-sdk2.26.1")):
        FakeDeployment.s3.objects |= stored(prefix)
    result = command("run", "qwen3-32b", "--yes")
    assert "0 models to stage, 0 artifacts to compile" in result.output
    assert "staging" not in result.output


def test_a_sweep_is_estimated_with_the_arm_that_it_begins_with():
    experiment = load_preset("qwen3-32b-tuning").model_copy(update={"sweep": Sweep.ADAPTIVE})
    plan, _ = estimate(FakeDeployment(), experiment, Inventory())
    assert plan.sweep is not None and plan.sweep.steps == first_steps(experiment)


def test_a_bucket_that_may_not_be_read_is_said_and_everything_counts_as_missing(command):
    FakeDeployment.s3.before = denied
    result = command("run", "qwen3-32b", "--yes")
    assert result.exit_code == 0
    assert "the bucket cannot be read (AccessDenied)" in result.stderr
    assert "2 models to stage" in result.output


def test_nobody_knows_who_starts_it_where_aws_does_not_say(command, monkeypatch):
    monkeypatch.setattr(FakeDeployment, "caller_is", None)
    command("run", "rehearsal", "--yes")
    assert "started_by" not in FakeDeployment.started[0][1]


def test_an_experiment_too_large_for_an_execution_is_refused_in_words(capsys):
    """A thousand cases with long prompts; what fits is sent compactly, and as UTF-8."""
    sent = []
    states = SimpleNamespace(start_execution=lambda **given: sent.append(given["input"]) or {"executionArn": "arn"})
    made = Deployment(session=SimpleNamespace(client=lambda service: states))
    made.__dict__["outputs"] = {"StateMachineArn": "machine"}
    case = {"name": "c", "text": "ü" * 60}
    assert made.start("r", {"experiment": {"workload": {"cases": [case] * 1000}}}) == "arn"
    assert len(sent[0].encode()) < 150 * 1024
    with pytest.raises(typer.Exit) as refused:
        made.start("r", {"experiment": {"workload": {"cases": [case] * 2000}}})
    assert refused.value.exit_code == 2 and len(sent) == 1
    assert "279 KiB" in capsys.readouterr().err
