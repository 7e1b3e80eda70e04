"""What surrounds every step: its input, its log lines, and how its errors leave it."""

import json
import subprocess
import sys

import pytest
from specdecode.steps import inspect, logs, runtime, watchdog
from specdecode.steps.errors import InvalidExperiment, LookAgain, ServeNotReady
from specdecode.steps.runtime import Progress, run_step

from tests.specdecode.steps.world import World


class Context:
    aws_request_id = "request-1"


@pytest.fixture(autouse=True)
def _world(monkeypatch):
    world = World()
    monkeypatch.setattr(runtime, "process_runtime", lambda: world.rt)
    yield world
    logs.LOGGER.handlers.clear()


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_step_s_answer_is_json_and_its_log_names_run_step_and_request(capsys):
    def step(given, rt):
        return Progress(done=True, message="all is there")

    assert run_step(step, {"run_id": "r", "wave": 2}, Context()) == {"done": True, "message": "all is there"}
    begin, end = lines(capsys)
    assert (begin["message"], begin["wave"]) == ("begin", 2)
    assert end["result"]["message"] == "all is there"
    for line in (begin, end):
        assert (line["step"], line["run_id"], line["request_id"]) == ("step", "r", "request-1")


@pytest.mark.parametrize(
    ("wait_s", "name"),
    [(15, "LookAgainIn15s"), (60, "LookAgainIn60s"), (61, "LookAgainIn300s"), (300, "LookAgainIn300s")],
)
def test_a_step_that_is_not_done_ends_with_an_error_that_says_when_to_look_again_and_logs_none(wait_s, name, capsys):
    """Its message is the line of progress: one line, whatever a pod said."""

    def step(given, rt):
        return Progress(done=False, message="1 of 2\nare ready", wait_s=wait_s)

    with pytest.raises(LookAgain) as raised:
        run_step(step, {"run_id": "r"}, Context())
    assert (type(raised.value).__name__, str(raised.value)) == (name, r"1 of 2\nare ready")
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    assert {(entry["level"], entry["message"]) for entry in lines(capsys)} == {("INFO", "begin"), ("INFO", "end")}


def test_a_line_of_progress_is_short():
    assert len(str(LookAgain("x" * 100_000))) <= 2_000


def test_a_final_error_keeps_its_name_and_has_no_traceback(capsys):
    def step(given, rt):
        raise ServeNotReady("an arm is late")

    with pytest.raises(ServeNotReady):
        run_step(step, {"run_id": "r"}, Context())
    last = lines(capsys)[-1]
    assert (last["error"], last["reason"], "traceback" in last) == ("ServeNotReady", "an arm is late", False)


def test_a_bug_is_logged_with_its_traceback_and_goes_on(capsys):
    def step(given, rt):
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_step(step, {"run_id": "r"}, Context())
    last = lines(capsys)[-1]
    assert last["level"] == "ERROR"
    assert "KeyError" in last["traceback"]


def test_an_event_that_is_none_is_refused():
    with pytest.raises(InvalidExperiment, match="run_id"):
        run_step(lambda given, rt: Progress(done=True, message=""), {"run": "r"}, Context())


def test_the_watchdog_takes_any_event(_world):
    for event in ({}, {"detail": {"status": "FAILED"}}, {"source": "aws.events"}, {"ended": "run-9"}, {"ended": 9}):
        assert watchdog.handler(event, Context())["replicas"] == 0


def test_inspect_shows_lease_node_and_pods(_world):
    _world.run_through(until="Serve")
    seen = inspect.handler({}, Context())
    assert seen["lease"]["holder"][0]["run_id"] == "run-1"
    assert (seen["replicas"], seen["nodes"]) == (1, ["trn2-node of trn2 (Ready)"])
    serving = [pod for pod in seen["pods"] if pod["component"] == "serving"]
    assert [(pod["variant"], pod["ready"], pod["problem"]) for pod in serving] == [
        ("base", True, None),
        ("sd", True, None),
    ]


def test_functions_that_run_while_the_node_is_held_load_little():
    """Their cold starts are paid at the node's price."""
    steps = [
        "acquire",
        "benchmark",
        "compile",
        "diagnose",
        "inspect",
        "release",
        "serve",
        "smoke",
        "stop_arms",
        "watchdog",
    ]
    heavy = {"asyncio", "jinja2", "numpy", "rich", "typer"}
    code = f"import sys, {', '.join(f'specdecode.steps.{step}' for step in steps)}\nprint(*{heavy} & {{*sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []
