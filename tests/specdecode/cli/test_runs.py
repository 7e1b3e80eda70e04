"""The commands about runs, with the deployment replaced by one that keeps what it is asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import BytesIO, StringIO
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from botocore.exceptions import ClientError
from rich.console import Console
from specdecode import s3_keys
from specdecode.cli import output, runs, runs_capacity, runs_release, runs_watch
from specdecode.cli.runs_deployment import Deployment, Execution, FunctionFailed
from specdecode.cli.runs_view import clock, current_step, lines, new_run_id, view
from specdecode.experiment import Capacity, load_engine, load_preset, to_yaml
from specdecode.planning import Inventory, make_plan, needed_prefixes
from specdecode.runs.lease import Claim, Lease
from specdecode.runs.state import RunState, RunUnit, StateDamaged
from specdecode.runs.store import Store
from specdecode.runs.view import ClusterView, PodView
from typer.testing import CliRunner

from tests.specdecode.steps.aws_fake import FakeS3, client_error

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
STARTED = (NOW - timedelta(minutes=90)).isoformat()
STATE = RunState(
    run_id="r", execution_arn="arn", experiment="rehearsal", started_at=NOW, held_since=NOW - timedelta(hours=1)
)
PLAN = make_plan(load_preset("rehearsal"), inventory=Inventory())
RUNNING = Execution(run_id="r", arn="arn:r", status="RUNNING", started=STARTED, stopped=None)


POD = PodView(
    name="r1-base",
    run="r",
    component="serving",
    variant="base",
    phase="Running",
    ready=False,
    restarts=2,
    problem="slow",
)


def entered(name: str) -> dict[str, Any]:
    return {"stateEnteredEventDetails": {"name": name}}


def exited(message: str) -> dict[str, Any]:
    return {"stateExitedEventDetails": {"name": "x", "output": json.dumps({"done": False, "message": message})}}


class FakeDeployment:
    """A deployment with one run, which ends after some looks."""

    def __init__(self, **given: Any) -> None:
        self.stack = given.get("stack")
        FakeDeployment.last = self

    looks = 0
    reconciled = 0
    broken = False
    found: dict[str, Any]
    remembered = True
    asked_for_pods = 0
    seen_pods: tuple[PodView, ...] | None = (POD,)
    ends_as = "SUCCEEDED"
    capacity = Capacity()
    s3 = FakeS3()
    caller_is: str | None = "arn:aws:sts::111122223333:assumed-role/Admin/anna"
    started: list[tuple[str, dict[str, Any]]]
    stopped: list[str]
    held = True

    @property
    def store(self) -> Store:
        return Store(s3=self.s3, bucket="bucket")

    def caller(self) -> str | None:
        return self.caller_is

    def start(self, run_id: str, request: dict[str, Any]) -> str:
        type(self).started = [(run_id, request)]
        return f"arn:{run_id}"

    def execution(self, run_id: str | None) -> Execution:
        FakeDeployment.looks += 1
        if FakeDeployment.looks < 3:
            return RUNNING
        over = {"status": self.ends_as, "stopped": NOW.isoformat()}
        failed = {"error": "ServeNotReady", "cause": "the engine crashed"} if self.ends_as == "FAILED" else {}
        return Execution(**{**vars(RUNNING), **over, **failed, "output": '{"verdict": "pays"}'})

    def find(self, run_id: str) -> Execution | None:
        if not FakeDeployment.remembered:
            return None
        return RUNNING if FakeDeployment.looks < 3 else Execution(**{**vars(RUNNING), "status": self.ends_as})

    def executions(self, *, limit: int) -> list[Execution]:
        return [RUNNING][:limit]

    going_units: tuple[Execution, ...] = ()

    def units(self, run_id: str) -> list[Execution]:
        return list(self.going_units)

    def events(self, arn: str) -> list[dict[str, Any]]:
        return [entered("Serve"), exited("1 of 2 arms are ready")]

    started_by: str | None = None

    def state(self, run_id: str) -> RunState | None:
        return STATE.model_copy(update={"started_by": self.started_by}) if run_id == "r" else None

    def plan(self, run_id: str) -> Any:
        return PLAN

    def stop(self, arn: str, *, error: str = "StoppedByUser") -> None:
        type(self).stopped = [*self.stopped, arn]

    def reconcile(self) -> dict[str, Any]:
        """As the watchdog does it: a run that goes on keeps the node."""
        found = self.find("r")
        FakeDeployment.held &= not (self.stopped or found is None or found.status != "RUNNING")
        FakeDeployment.reconciled += 1
        if FakeDeployment.broken:
            raise FunctionFailed("Watchdog failed: Task timed out")
        return FakeDeployment.found

    def cluster(self) -> ClusterView:
        claim = Claim(run_id="r", execution_arn="arn:r", queued_at=NOW, held_since=NOW)
        return ClusterView(
            lease=Lease(holders=(claim,) if FakeDeployment.held else ()),
            replicas=int(self.held),
            nodes=("n (Ready)",),
            pods=(POD,) if FakeDeployment.held else (),
        )

    def pods(self, *run_ids: str) -> tuple[PodView, ...] | None:
        FakeDeployment.asked_for_pods += 1
        return FakeDeployment.seen_pods


@pytest.fixture
def command(monkeypatch):
    """Run a command line; returns typer's result."""
    app = typer.Typer()
    runs.register(app)
    FakeDeployment.looks, FakeDeployment.held, FakeDeployment.ends_as = 0, True, "SUCCEEDED"
    FakeDeployment.started, FakeDeployment.stopped = [], []
    FakeDeployment.asked_for_pods, FakeDeployment.seen_pods = 0, (POD,)
    FakeDeployment.reconciled, FakeDeployment.remembered = 0, True
    FakeDeployment.capacity, FakeDeployment.s3 = Capacity(), FakeS3()
    FakeDeployment.s3.objects["runs/r/experiment.yaml"] = to_yaml(load_preset("rehearsal")).encode()
    FakeDeployment.broken, FakeDeployment.found = False, {"replicas": 0}
    for module in (runs, runs_capacity):
        monkeypatch.setattr(module, "Deployment", FakeDeployment)
    monkeypatch.setattr(runs, "refuse_a_run_that_would_fail", lambda deployment, experiment: None)
    monkeypatch.setattr(runs_release.time, "sleep", lambda seconds: None)
    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_run_starts_a_preset_with_its_overrides_and_says_how_to_follow(command):
    result = command("run", "rehearsal", "--set", "workload.requests=4", "--yes")
    assert result.exit_code == 0
    ((run_id, request),) = FakeDeployment.started
    assert request.pop("started_by") == FakeDeployment.caller_is
    assert request == {"experiment": "rehearsal", "set": {"workload.requests": 4}}
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
        (["missing.yaml"], "cannot be read"),
        (["rehearsal", "--set", "nothing"], "path=value"),
    ],
)
def test_run_refuses_before_it_starts_anything(command, arguments, words):
    result = command("run", *arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert FakeDeployment.started == []
    assert "Traceback" not in result.output


def test_resume_names_the_run_only(command):
    FakeDeployment.looks = 5
    command("run", "--resume", "r", "--yes")
    assert FakeDeployment.started[0][1] == {"resume": "r", "started_by": FakeDeployment.caller_is}


def test_a_run_that_step_functions_has_forgotten_can_be_resumed_all_the_same(command):
    FakeDeployment.remembered = False
    assert command("run", "--resume", "r", "--yes").exit_code == 0


@pytest.mark.parametrize(("run_id", "words"), [("nonsense", "there is no run nonsense"), ("r", "r still runs")])
def test_resume_refuses_what_cannot_be_resumed_before_it_starts_anything(command, run_id, words):
    result = command("run", "--resume", run_id)
    assert (result.exit_code, FakeDeployment.started) == (2, [])
    assert words in result.output


@pytest.mark.parametrize(("ends_as", "code"), [("SUCCEEDED", 0), ("FAILED", 1), ("ABORTED", 1)])
def test_watch_shows_steps_and_money_and_ends_as_the_run_does(command, ends_as, code):
    FakeDeployment.ends_as = ends_as
    result = command("run", "rehearsal", "--yes", "--watch", "--interval", "0.2")
    assert result.exit_code == code
    assert "Serve  1 of 2 arms are ready" in result.output
    assert "$" in result.output
    assert result.output.count("pod  r1-base Running, 2 restarts: slow") == 1
    assert result.output.count("1 of 2 arms are ready") == 1
    assert ("the engine crashed" in result.output) == (ends_as == "FAILED")


@pytest.fixture
def answering(monkeypatch, command):
    """Run a command line at a terminal, where a person answers with these lines."""
    monkeypatch.setattr(output, "is_interactive", lambda: True)
    app = typer.Typer()
    runs.register(app)
    return lambda *arguments, says: CliRunner().invoke(app, arguments, input=says)


@pytest.mark.parametrize(("says", "code", "started"), [("y\n", 0, 1), ("n\n", 1, 0), ("\n", 1, 0), ("", 1, 0)])
def test_run_shows_what_it_costs_and_asks_once(answering, says, code, started):
    result = answering("run", "qwen3-32b", says=says)
    assert (result.exit_code, len(FakeDeployment.started)) == (code, started)
    assert "qwen3-32b: 2 waves, 2 models to stage, 2 artifacts to compile" in result.output
    assert "node      1.4 to 5.9 h, $52 to $212 at $35.76 an hour" in result.output
    assert "rounds    2; after the first: 16 to 88 min, $9.27 to $52.24 of it" in result.output
    assert "at most   $378, if every step lasts until its deadline" in result.output
    assert result.output.count("Start it? [y/N]") == 1
    assert ("nothing was started" in result.output) == (not started)


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--watch",)])
def test_where_nobody_can_be_asked_run_wants_yes_and_says_so(command, arguments):
    result = command("run", "qwen3-32b", *arguments)
    assert (result.exit_code, FakeDeployment.started) == (2, [])
    assert "give --yes (nothing was started)" in result.stderr


def test_json_is_never_asked_even_at_a_terminal(answering):
    assert answering("run", "qwen3-32b", "--json", says="y\n").exit_code == 2
    result = answering("run", "qwen3-32b", "--json", "--yes", says="")
    assert json.loads(result.stdout)["bill"]["most"] == pytest.approx(378, abs=1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "it could cost $2,755, if every step lasts until its deadline (more than $500): add --accept-cost 2756"),
        (("--accept-cost", "600"), "(--accept-cost 600 is not enough): add --accept-cost 2756"),
    ],
)
def test_a_run_that_could_cost_more_than_the_bound_needs_more_than_yes(command, arguments, words):
    result = command("run", "llama-3.1-405b", "--yes", *arguments)
    assert (result.exit_code, FakeDeployment.started) == (2, [])
    assert words in result.stderr


def test_what_is_accepted_is_part_of_the_request(command):
    assert command("run", "llama-3.1-405b", "--yes", "--accept-cost", "2800").exit_code == 0
    assert FakeDeployment.started[0][1]["accept_cost"] == 2800


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
        FakeDeployment.s3.objects[prefix + s3_keys.COMPLETE] = b"{}"
    result = command("run", "qwen3-32b", "--yes")
    assert "0 models to stage, 0 artifacts to compile" in result.output
    assert "staging" not in result.output


def test_a_bucket_that_may_not_be_read_is_said_and_everything_counts_as_missing(command):
    def deny(operation: str, key: str) -> None:
        raise client_error("AccessDenied", operation, 403)

    FakeDeployment.s3.before = deny
    result = command("run", "qwen3-32b", "--yes")
    assert result.exit_code == 0
    assert "the bucket cannot be read (AccessDenied)" in result.stderr
    assert "2 models to stage" in result.output


def test_nobody_knows_who_starts_it_where_aws_does_not_say(command, monkeypatch):
    monkeypatch.setattr(FakeDeployment, "caller_is", None)
    command("run", "rehearsal", "--yes")
    assert "started_by" not in FakeDeployment.started[0][1]


def test_watch_as_json_prints_one_document(command):
    result = command("run", "rehearsal", "--yes", "--watch", "--interval", "0.2", "--json")
    assert json.loads(result.stdout)["status"] == "SUCCEEDED"


def test_watch_goes_on_without_pods_that_cannot_be_seen(command):
    FakeDeployment.seen_pods = None
    result = command("run", "rehearsal", "--yes", "--watch", "--interval", "0.2")
    assert result.exit_code == 0
    assert "1 of 2 arms are ready" in result.output


def watched(console: Console) -> None:
    FakeDeployment.looks, FakeDeployment.asked_for_pods, FakeDeployment.seen_pods = 0, 0, (POD,)
    runs_watch.watch(FakeDeployment(), "r", interval=5, quiet=False, console=console, sleep=lambda _: None)


def test_a_terminal_is_shown_step_pods_time_and_money_at_every_look():
    out = StringIO()
    watched(Console(file=out, force_terminal=True, width=100, highlight=False))
    assert out.getvalue().count("  pod         r1-base Running, 2 restarts: slow") >= 2
    assert out.getvalue().count("  step        Serve: 1 of 2 arms are ready") >= 2
    assert out.getvalue().count("  node        ") >= 2


def test_pods_are_asked_for_at_a_slower_rate_than_the_steps(monkeypatch):
    times = iter(range(0, 1000, 5))
    monkeypatch.setattr(runs_watch.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(FakeDeployment, "execution", lambda self, run_id: next(executions))
    executions = iter([RUNNING] * 4 + [Execution(**{**vars(RUNNING), "status": "ABORTED", "stopped": NOW.isoformat()})])
    watched(Console(file=StringIO()))
    assert FakeDeployment.asked_for_pods == 2


class FakeLambda:
    """Answers an invocation with `body`."""

    def __init__(self, body: dict[str, Any], **answer: Any) -> None:
        self.answer = {"Payload": BytesIO(json.dumps(body).encode()), **answer}

    def invoke(self, **_: Any) -> dict[str, Any]:
        if "raises" in self.answer:
            raise self.answer["raises"]
        return self.answer


def deployment_with(function: FakeLambda) -> Deployment:
    made = Deployment(session=SimpleNamespace(client=lambda service, **_: function))
    made.__dict__["outputs"] = {"InspectFunction": "inspect"}
    return made


def test_a_run_s_pods_are_its_own_only():
    other = POD.model_copy(update={"run": "another"})
    seen = ClusterView(lease=Lease(), replicas=1, nodes=(), pods=(other, POD)).model_dump(mode="json")
    assert deployment_with(FakeLambda(seen)).pods("r") == (POD,)


@pytest.mark.parametrize(
    "function",
    [
        FakeLambda({"errorMessage": "no answer"}, FunctionError="Unhandled"),
        FakeLambda({}, raises=ClientError({"Error": {"Code": "AccessDenied"}}, "Invoke")),
    ],
)
def test_pods_that_cannot_be_had_are_no_error(function, capsys):
    assert deployment_with(function).pods("r") is None
    assert capsys.readouterr().err == ""


def test_status_of_a_running_run_shows_its_pods(command):
    assert "pod         r1-base Running, 2 restarts: slow" in command("status", "r").output
    FakeDeployment.seen_pods = None
    assert "pods        cannot be looked at now" in command("status", "r").output


def test_stop_stops_and_waits_for_the_release(command):
    result = command("stop", "r")
    assert result.exit_code == 0
    assert FakeDeployment.stopped == ["arn:r"]
    assert "released; the node pools have 0 replicas" in result.output


@pytest.mark.parametrize(("says", "code", "stopped"), [("y\n", 0, ["arn:r"]), ("n\n", 1, [])])
def test_stop_without_a_run_names_it_and_whose_it_is_and_asks(answering, monkeypatch, says, code, stopped):
    monkeypatch.setattr(FakeDeployment, "started_by", FakeDeployment.caller_is)
    result = answering("stop", says=says)
    assert (result.exit_code, FakeDeployment.stopped) == (code, stopped)
    assert "started by  assumed-role/Admin/anna" in result.output
    assert "Stop r? [y/N]" in result.output
    assert ("r goes on" in result.output) == (not stopped)


def test_stop_without_a_run_and_without_a_terminal_wants_yes(command):
    result = command("stop")
    assert (result.exit_code, FakeDeployment.stopped) == (2, [])
    assert "give --yes (r goes on)" in result.stderr
    FakeDeployment.looks = 0
    assert command("stop", "--yes").exit_code == 0
    assert FakeDeployment.stopped == ["arn:r"]


QUEUED = Execution(**{**vars(RUNNING), "run_id": "newer", "arn": "arn:newer"})


def test_stop_without_a_run_takes_the_one_that_holds_the_node_not_the_newest(command, monkeypatch):
    monkeypatch.setattr(FakeDeployment, "executions", lambda self, *, limit: [QUEUED, RUNNING][:limit])
    monkeypatch.setattr(FakeDeployment, "execution", lambda self, run_id: QUEUED)
    result = command("stop", "--yes")
    assert (result.exit_code, FakeDeployment.stopped) == (0, ["arn:r"])
    assert "r holds the node" in result.output and "released" in result.output


def test_stop_without_a_run_takes_the_newest_that_goes_on_where_nobody_holds(command, monkeypatch):
    FakeDeployment.held = False
    over = Execution(**{**vars(RUNNING), "run_id": "over", "arn": "arn:over", "status": "SUCCEEDED"})
    monkeypatch.setattr(FakeDeployment, "executions", lambda self, *, limit: [over, RUNNING][:limit])
    result = command("stop", "--yes")
    assert (result.exit_code, FakeDeployment.stopped) == (0, ["arn:r"])
    assert "nobody holds a node; the newest run that goes on is r" in result.output


def test_stop_where_no_run_goes_on_says_so_and_gives_the_node_back_all_the_same(command, monkeypatch):
    FakeDeployment.held = False
    monkeypatch.setattr(FakeDeployment, "executions", lambda self, *, limit: [])
    result = command("stop")
    assert (result.exit_code, FakeDeployment.stopped, FakeDeployment.reconciled) == (0, [], 1)
    assert "no run goes on" in result.output and "the node pools have 0 replicas" in result.output


def test_stop_gives_back_the_node_of_a_holder_that_step_functions_has_forgotten(command):
    FakeDeployment.remembered = False
    result = command("stop")
    assert (result.exit_code, FakeDeployment.stopped) == (0, [])
    assert "r has already ended: Step Functions has forgotten it" in result.output and "released" in result.output


def test_status_attaches_to_a_run_that_goes_on_and_ends_as_it_does(command):
    FakeDeployment.ends_as = "FAILED"
    result = command("status", "--watch", "--interval", "0.2")
    assert result.exit_code == 1
    assert "Serve  1 of 2 arms are ready" in result.output
    assert "the engine crashed" in result.output
    FakeDeployment.looks, FakeDeployment.ends_as = 0, "SUCCEEDED"
    assert json.loads(command("status", "r", "--watch", "--json", "--interval", "0.2").stdout)["status"] == "SUCCEEDED"


def test_ctrl_c_leaves_the_run_running_and_says_how_to_attach_again(command, monkeypatch):
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs_watch.time, "sleep", interrupt)
    result = command("status", "r", "--watch")
    assert (result.exit_code, FakeDeployment.stopped) == (130, [])
    assert "r goes on: `specdecode status r --watch` follows it again" in result.stderr


def test_stop_of_a_run_that_has_ended_only_makes_sure(command):
    FakeDeployment.looks = 5
    result = command("stop", "r")
    assert FakeDeployment.stopped == []
    assert "already ended" in result.output
    assert "released" in result.output


def test_capacity_shows_the_holder_and_releases(command):
    assert "holder    r for" in command("capacity").output
    result = command("capacity", "--release")
    assert "holder    nobody" in result.output
    assert FakeDeployment.stopped == ["arn:r"]


@pytest.fixture
def two_hold(monkeypatch):
    """Two of three nodes' runs: r and s; t waits."""
    first = Claim(run_id="r", execution_arn="arn:r", queued_at=NOW, held_since=NOW)
    second = first.model_copy(update={"run_id": "s", "pool": "trn2-2"})
    waits = first.model_copy(update={"run_id": "t", "held_since": None})
    lease = Lease(holders=(first, second), queue=(waits,))
    view = ClusterView(lease=lease, slots=("trn2", "trn2-2", "cpu"), replicas=2, nodes=(), pods=())
    # As it comes from the function, which answers JSON.
    view = ClusterView.model_validate_json(view.model_dump_json())
    monkeypatch.setattr(FakeDeployment, "cluster", lambda self: view)


def test_capacity_shows_who_has_which_node(command, two_hold):
    said = command("capacity").output
    for words in ("holder    r for", "(trn2)", "holder    s for", "(trn2-2)", "waiting 1 t for", "replicas  2"):
        assert words in said


@pytest.mark.parametrize("arguments", [("stop", "--yes"), ("capacity", "--release")])
def test_where_two_runs_hold_a_node_none_is_stopped_unless_it_is_named(command, two_hold, arguments):
    result = command(*arguments)
    assert (result.exit_code, FakeDeployment.stopped) == (2, [])
    assert "2 runs hold a node each" in result.stderr
    assert "specdecode stop r" in result.stderr and "specdecode stop s" in result.stderr


def test_a_holder_that_step_functions_has_forgotten_is_released_too(command):
    FakeDeployment.remembered = False
    result = command("capacity", "--release")
    assert (result.exit_code, FakeDeployment.stopped) == (0, [])
    assert "nobody holds a node; the node pools have 0 replicas" in result.output


def test_a_node_that_nobody_holds_is_brought_to_zero_by_the_watchdog(command):
    FakeDeployment.held = False
    result = command("capacity", "--release")
    assert FakeDeployment.reconciled == 1
    assert "nobody holds a node; the node pools have 0 replicas" in result.output


def test_a_release_whose_watchdog_fails_says_what_happens_by_itself_and_what_to_do(command):
    FakeDeployment.broken = True
    for arguments in (("stop", "r"), ("capacity", "--release")):
        result = command(*arguments)
        assert result.exit_code == 3
        assert "Task timed out" in result.stderr
        assert "The backstop" in result.stderr and "docs/operations.md#a-node-that-stays" in result.stderr


@pytest.mark.parametrize("error", [StateDamaged("?"), ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject")])
def test_a_run_whose_record_cannot_be_read_is_shown_and_stopped(command, monkeypatch, error):
    def unreadable(self, run_id):
        raise error

    monkeypatch.setattr(FakeDeployment, "state", unreadable)
    monkeypatch.setattr(FakeDeployment, "plan", unreadable)
    assert "Serve" in command("status", "r").stdout
    FakeDeployment.looks = 0
    result = command("stop", "--yes")
    assert (result.exit_code, FakeDeployment.stopped) == (0, ["arn:r"])


def test_what_the_watchdog_could_not_do_is_said_and_the_node_is_released_all_the_same(command):
    FakeDeployment.found = {
        "replicas": 0,
        "problems": ["s3://b/state/capacity.json is no lease"],
        "deleted": ["trn2-x"],
    }
    result = command("stop", "r")
    assert result.exit_code == 0
    assert "released; the node pools have 0 replicas" in result.stdout
    assert "deleted node trn2-x" in result.stdout
    assert "problem: s3://b/state/capacity.json is no lease" in result.stderr


def test_a_lease_that_cannot_be_read_while_runs_go_on_names_them(command):
    FakeDeployment.found, FakeDeployment.held = {"replicas": None, "problems": ["the node: AccessDenied"]}, False
    result = command("capacity", "--release")
    assert result.exit_code == 1
    assert "specdecode stop r" in result.stderr and "AccessDenied" in result.stderr


def test_list_and_status_have_json(command):
    assert json.loads(command("list", "--json").stdout)[0]["run_id"] == "r"
    assert json.loads(command("status", "r", "--json").stdout)["step"] == "Serve"


@pytest.mark.parametrize(
    ("seen", "looks", "shown"), [((POD,), 0, [POD.model_dump(mode="json")]), (None, 0, None), ((POD,), 5, [])]
)
def test_status_as_json_has_the_pods_of_a_run_that_goes_on(command, seen, looks, shown):
    FakeDeployment.seen_pods, FakeDeployment.looks = seen, looks
    assert json.loads(command("status", "r", "--json").stdout)["pods"] == shown


def test_waits_and_questions_belong_to_their_step():
    events = [entered("Serve"), exited("no devices yet"), entered("Serve done?"), entered("Serve: wait")]
    assert current_step(events) == ("Serve", "no devices yet")
    assert current_step([*events, entered("Smoke")]) == ("Smoke", None)
    assert current_step([]) == (None, None)


def test_money_counts_from_holding_the_node_to_its_release():
    shown = view(RUNNING, [], STATE, PLAN, now=NOW)
    assert shown.node_s == 3600
    assert shown.dollars == pytest.approx(PLAN.price_per_node_hour)
    released = STATE.model_copy(update={"released_at": NOW - timedelta(minutes=30)})
    assert view(RUNNING, [], released, PLAN, now=NOW).node_s == 1800
    assert view(RUNNING, [], None, None, now=NOW).dollars is None


def test_status_says_when_the_node_is_not_on_demand(command):
    assert "Reservation" not in command("status", "r").output
    FakeDeployment.capacity = Capacity(reservation="cr-0123456789abcdef0")
    FakeDeployment.looks = 0
    assert "from an On-Demand Capacity Reservation" in command("status", "r").output
    assert json.loads(command("status", "r", "--json").stdout)["capacity"] == "odcr"


def test_of_a_sweep_it_says_which_waves_were_given_up():
    plan = make_plan(load_preset("rehearsal-sweep"), inventory=Inventory())
    shown = view(RUNNING, [], STATE.model_copy(update={"lost": (0,)}), plan, now=NOW)
    assert "0 of 1 waves measured, 1 given up with their arm, " in shown.wave


def test_a_failed_run_shows_its_cause():
    over = Execution(
        **{**vars(RUNNING), "status": "FAILED", "stopped": NOW.isoformat(), "error": "E", "cause": "plain words"}
    )
    text = "\n".join(lines(view(over, [], STATE, PLAN, now=NOW)))
    assert "plain words" in text
    assert "1:30:00" in text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.9, "0:59"), (3599, "59:59"), (3723, "1:02:03")])
def test_clock(seconds, text):
    assert clock(seconds) == text


def test_run_ids_sort_by_time_and_fit_a_label():
    run_id = new_run_id("x" * 60, now=NOW, token="1a2b")
    assert len(run_id) <= 63
    assert run_id.endswith("-20260801-120000-1a2b")


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


UNITS = tuple(
    Execution(run_id=f"r-n{number}", arn=f"arn:r-n{number}", status="RUNNING", started=STARTED, stopped=None)
    for number in (1, 2)
)


@pytest.fixture
def shared(monkeypatch):
    """The run has two units, which hold a node each until they are stopped."""

    def cluster(self):
        claims = tuple(
            Claim(run_id=unit.run_id, execution_arn=unit.arn, queued_at=NOW, held_since=NOW, pool=pool)
            for unit, pool in zip(UNITS, ("trn2", "trn2-2"), strict=True)
            if unit.arn not in self.stopped
        )
        return ClusterView(lease=Lease(holders=claims), replicas=len(claims), nodes=(), pods=())

    monkeypatch.setattr(FakeDeployment, "going_units", UNITS)
    monkeypatch.setattr(FakeDeployment, "cluster", cluster)


@pytest.mark.parametrize("arguments", [("stop", "r"), ("stop", "--yes"), ("capacity", "--release")])
def test_a_run_on_several_nodes_is_stopped_before_its_units_and_with_them(command, shared, arguments):
    result = command(*arguments)
    assert (result.exit_code, FakeDeployment.stopped) == (0, ["arn:r", "arn:r-n1", "arn:r-n2"])
    assert "stopped r-n2" in result.output


def test_units_that_outlived_their_run_are_stopped_by_its_name(command, shared):
    FakeDeployment.looks = 5
    result = command("stop", "r")
    assert (result.exit_code, FakeDeployment.stopped) == (0, ["arn:r-n1", "arn:r-n2"])
    assert "r has already ended" in result.output


def test_units_are_listed_below_their_run(command, monkeypatch):
    other = Execution(**{**vars(RUNNING), "run_id": "other"})
    alone = Execution(**{**vars(RUNNING), "run_id": "older-n1"})
    newest_first = [other, UNITS[1], UNITS[0], RUNNING, alone]
    monkeypatch.setattr(FakeDeployment, "executions", lambda self, *, limit: newest_first)
    shown = [text.partition("RUNNING")[2].removeprefix("    ") for text in command("list").output.splitlines()]
    assert shown == ["other", "r", "  r-n1", "  r-n2", "older-n1"]
    found = {item["run_id"]: item["unit_of"] for item in json.loads(command("list", "--json").stdout)}
    assert found == {"other": None, "r-n2": "r", "r-n1": "r", "r": None, "older-n1": "older"}


def test_status_shows_each_unit_and_what_their_nodes_cost_together(command, monkeypatch):
    units = tuple(
        RunUnit(number=n, run_id=f"r-n{n}", arms=("sd",), accept_cost=1, finished=("sd",) * (n == 1)) for n in (1, 2)
    )
    later = RunUnit(number=3, run_id="r-n3", arms=("x",), accept_cost=1)
    states = {unit.run_id: STATE.model_copy(update={"run_id": unit.run_id}) for unit in units}
    states["r"] = STATE.model_copy(update={"held_since": None, "units": (*units, later)})
    executions = {each.run_id: each for each in (RUNNING, *UNITS)}
    monkeypatch.setattr(FakeDeployment, "state", lambda self, run_id: states[run_id])
    monkeypatch.setattr(FakeDeployment, "find", lambda self, run_id: executions.get(run_id))
    monkeypatch.setattr(FakeDeployment, "execution", lambda self, run_id: executions[run_id or "r"])
    result = command("status", "r")
    assert "1 of 3 units measured" in result.output
    assert "unit        r-n1 RUNNING" in result.output and "unit        r-n2 RUNNING" in result.output
    assert "Serve: 1 of 2 arms are ready" in result.output and "r-n3" not in result.output
    shown = json.loads(command("status", "r", "--json").stdout)
    assert shown["dollars"] == pytest.approx(sum(unit["dollars"] for unit in shown["units"]))
    assert shown["node_s"] > 7000
