"""`specdecode status` and `run --watch`: what is shown of a run that goes on, and of one that has ended."""

import json
from datetime import timedelta
from io import BytesIO, StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from rich.console import Console
from specdecode.cli import runs_view
from specdecode.cli.runs_deployment import Deployment, Execution
from specdecode.cli.runs_view import clock, current_step, lines, new_run_id, view
from specdecode.experiment import Capacity, load_preset
from specdecode.runs.cluster_view import ClusterView
from specdecode.runs.lease import Lease

from tests.plans import plan_for
from tests.specdecode.cli.runs_fake import NOW, PLAN, POD, RUNNING, STATE, FakeDeployment, entered, exited, failed


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
    runs_view.watch(FakeDeployment(), "r", interval=5, quiet=False, console=console, sleep=lambda _: None)


def test_a_terminal_is_shown_step_pods_time_and_money_at_every_look():
    out = StringIO()
    watched(Console(file=out, force_terminal=True, width=100, highlight=False))
    assert out.getvalue().count("  pod         r1-base Running, 2 restarts: slow") >= 2
    assert out.getvalue().count("  step        Serve: 1 of 2 arms are ready") >= 2
    assert out.getvalue().count("  node        ") >= 2


def test_pods_are_asked_for_at_a_slower_rate_than_the_steps(monkeypatch):
    times = iter(range(0, 1000, 5))
    monkeypatch.setattr(runs_view.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(FakeDeployment, "execution", lambda self, run_id: next(executions))
    executions = iter([RUNNING] * 4 + [Execution(**{**vars(RUNNING), "status": "ABORTED", "stopped": NOW.isoformat()})])
    watched(Console(file=StringIO()))
    assert FakeDeployment.asked_for_pods == 2


class FakeLambda:
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

    monkeypatch.setattr(runs_view.time, "sleep", interrupt)
    result = command("status", "r", "--watch")
    assert (result.exit_code, FakeDeployment.stopped) == (130, [])
    assert "r goes on: `specdecode status r --watch` follows it again" in result.stderr


def test_status_has_json(command):
    assert json.loads(command("status", "r", "--json").stdout)["step"] == "Serve"


@pytest.mark.parametrize(
    ("seen", "looks", "shown"), [((POD,), 0, [POD.model_dump(mode="json")]), (None, 0, None), ((POD,), 5, [])]
)
def test_status_as_json_has_the_pods_of_a_run_that_goes_on(command, seen, looks, shown):
    FakeDeployment.seen_pods, FakeDeployment.looks = seen, looks
    assert json.loads(command("status", "r", "--json").stdout)["pods"] == shown


def test_the_step_is_the_last_state_and_its_message_the_last_line_of_progress():
    again = [exited(None), entered("Serve")]
    events = [entered("Serve"), failed("LookAgainIn15s", "no devices yet"), *again]
    assert current_step(events) == ("Serve", "no devices yet"), "the state is entered again now and then"
    assert current_step([*events, failed("LookAgainIn60s", "1 of 2 arms are ready")])[1] == "1 of 2 arms are ready"
    assert current_step([*events, exited("all 2 arms are ready")])[1] == "all 2 arms are ready"
    assert current_step([*events, entered("Smoke")]) == ("Smoke", None)
    assert current_step([]) == (None, None)


@pytest.mark.parametrize("cause", ["no JSON", "[]", '{"errorType": "LookAgainIn15s"}', None])
def test_an_error_that_is_no_line_of_progress_changes_nothing(cause):
    events = [entered("Serve"), failed("LookAgainIn15s", "no devices yet"), failed("KeyError", "a bug")]
    events.append({"taskFailedEventDetails": {"error": "LookAgainIn15s", "cause": cause}})
    assert current_step(events) == ("Serve", "no devices yet")


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
    plan = plan_for(load_preset("rehearsal-sweep"))
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
