"""Causes, messages, pod problems and experiments in a terminal: seen, and without effect on it."""

import ast
import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console
from specdecode import cli
from specdecode.cli import app, runs_deployment, runs_view
from specdecode.cli.output import say_json, show
from specdecode.cli.preflight import checks
from specdecode.cli.runs_deployment import Execution
from specdecode.escape import json_text, line, plain
from specdecode.runs.cluster_view import PodView
from typer.testing import CliRunner

from tests.specdecode.cli.runs_fake import RUNNING, FakeDeployment, entered, exited
from tests.specdecode.steps.aws_fake import FakeS3
from tests.untrusted.hostile import ALL, EVERYTHING, TERMINAL

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
COMMANDS = Path(cli.__file__).parent
SEEN = EVERYTHING + " \ud83d lone"


class HostileDeployment(FakeDeployment):
    """A run of which model, engine and cluster say the worst they can."""

    ends_as = "FAILED"

    def execution(self, run_id: str | None) -> Execution:
        FakeDeployment.looks += 1
        if FakeDeployment.looks < 3:
            return RUNNING
        output = json.dumps({"verdict": SEEN})
        ended = {"status": self.ends_as, "stopped": RUNNING.started}
        return Execution(**{**vars(RUNNING), **ended, "error": SEEN, "cause": SEEN, "output": output})

    def events(self, arn: str) -> list[dict[str, Any]]:
        return [entered("Serve"), exited(SEEN)]

    def pods(self, run_id: str) -> tuple[PodView, ...]:
        pod = PodView(
            name=SEEN, run="r", component="serving", variant=None, phase=SEEN, ready=False, restarts=2, problem=SEEN
        )
        return (pod,)

    started: ClassVar[list[Any]] = []
    started_by = SEEN

    @property
    def store(self) -> Any:
        class Store:
            s3, bucket = FakeS3(), "bucket"

            def read_json(self, key: str) -> Any:
                return {"cause": SEEN, "error": SEEN, "detail": SEEN}

            def keys(self, prefix: str) -> list[str]:
                return [f"{prefix}{SEEN}"]

            def url(self, key: str) -> str:
                return f"s3://bucket/{key}"

        return Store()


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    FakeDeployment.looks = 0
    monkeypatch.setattr(runs_deployment, "Deployment", HostileDeployment)
    monkeypatch.setattr(checks, "refuse_a_run_that_would_fail", lambda deployment, experiment: None)
    monkeypatch.setattr(runs_view.time, "sleep", lambda seconds: None)
    return lambda *arguments: CliRunner().invoke(app, arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["status", "--json"],
        ["diagnose"],
        ["diagnose", "--json"],
        ["run", "rehearsal", "--yes", "--watch"],
        ["status", "--watch"],
    ],
)
@pytest.mark.parametrize("ended", [False, True])
def test_what_a_run_says_steers_no_terminal(command: Any, arguments: list[str], ended: bool) -> None:
    FakeDeployment.looks = 3 if ended else 0
    result = command(*arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "window.pwned" in result.output
    assert not STEERING.search(result.output)


def test_a_message_begins_no_line_of_its_own(command: Any) -> None:
    text = command("status").output
    assert not any(row.startswith(("# heading", "touch pwned", "- list")) for row in text.splitlines())


def test_live_view_of_a_run_gets_no_control() -> None:
    FakeDeployment.looks = 0
    console = Console(file=StringIO(), force_terminal=True, width=400, color_system=None, legacy_windows=False)
    runs_view.watch(HostileDeployment(), "r", interval=5, quiet=False, console=console, sleep=lambda _: None)
    text = re.sub(r"\x1b\[[0-9?]*[A-Zhlm]", "", console.file.getvalue())
    assert "window.pwned" in text
    assert not STEERING.search(text.replace("\r", ""))


def test_tables_take_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    show("[bold red]x[/bold red] [/nonsense] :boom: \x1b[2J")
    assert capsys.readouterr().out == "[bold red]x[/bold red] [/nonsense] :boom: \\x1b[2J\n"


def test_json_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    say_json({"a": list(ALL)})
    text = capsys.readouterr().out
    assert not STEERING.search(text)
    assert json.loads(text) == {"a": list(ALL)}


@pytest.mark.parametrize("text", [*TERMINAL, "\ud800", "a\U000e0041b"])
def test_nothing_invisible_stays_and_everything_can_be_encoded(text: str) -> None:
    for shown in (plain(text), line(text), json_text(text)):
        assert not STEERING.search(shown)
        shown.encode("utf-8")
    assert "\n" not in line(text)


def test_commands_print_in_one_way_only() -> None:
    """A `print`, `typer.echo` or console elsewhere would be a way past the escape."""
    for path in sorted(COMMANDS.glob("*.py")):
        if path.name in ("output.py", "runs_view.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("print", "typer.echo", "Console", "sys.stdout.write"), f"{path.name}: {called}"


def test_a_terminal_without_utf_8_gets_ascii_and_no_traceback():
    said = "1.98× (95% CI 1.91–2.05) → ✓ │ 模 \ud83d"
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            f"import sys; from specdecode.escape import spell_out; spell_out(sys.stdout); print({said!r})",
        ],
        env={"PYTHONIOENCODING": "ascii", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1.98x (95% CI 1.91-2.05) -> ok | \\u6a21 \\ud83d\n"


def test_the_command_itself_spells_out(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "from specdecode.cli import main; main()", "plan", "rehearsal"],
        env={"PYTHONIOENCODING": "ascii", "PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.isascii()
    assert "|" in done.stdout
