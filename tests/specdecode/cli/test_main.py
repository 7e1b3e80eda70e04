"""A user's environment that does not fit is one line, never a traceback."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from specdecode import __version__
from specdecode.cli import app, main
from specdecode.cli.runs_deployment import Deployment
from typer.testing import CliRunner


@pytest.mark.parametrize("command", [["status"], ["list"], ["capacity"], ["diagnose"], ["stop"], ["report"], ["runs"]])
def test_without_a_region_every_command_about_runs_says_so(command, monkeypatch, capsys, tmp_path):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setattr("sys.argv", ["specdecode", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    text = capsys.readouterr().err
    assert "You must specify a region" in text
    assert "Traceback" not in text


def test_what_the_credentials_do_not_allow_is_one_line(monkeypatch, capsys):
    def refused(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "ListExecutions")

    monkeypatch.setattr(Deployment, "executions", refused)
    monkeypatch.setattr("sys.argv", ["specdecode", "list"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_the_version():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == __version__


def test_help_breaks_lines_where_the_terminal_does_and_keeps_examples():
    texts = {command.callback.__name__: command.help for command in app.registered_commands}
    assert all(text for text in texts.values())
    broken = [p for text in texts.values() for p in text.split("\n\n") if "\n" in p and not p.startswith(" ")]
    assert broken == []
    assert "\n    specdecode bench base=https://a.example sd=https://b.example --case count\n" in texts["bench"]
