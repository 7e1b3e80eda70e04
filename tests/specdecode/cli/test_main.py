"""A user's environment that does not fit is one line, never a traceback."""

from pathlib import Path

import pytest
import typer
from botocore.exceptions import ClientError
from specdecode import __version__, aws
from specdecode.cli import app, main
from specdecode.cli.output import NO_TERMINAL
from specdecode.cli.runs_deployment import Deployment
from typer._click.exceptions import UsageError
from typer.testing import CliRunner

LOCAL = {
    "configure", "evidence", "presets", "prompts", "validate", "manifests", "engines", "schema", "import", "instance",
}  # fmt: skip
"""Commands that never ask AWS; `configure`, whose region is a setting; `instance`, which asks S3 if it is told to."""
CASES = ("--case", "x", "--case", "y")
TALKING = [
    ["status"], ["capacity"], ["diagnose"], ["logs"], ["ask", "r1"], ["stop"], ["report"], ["runs"],
    ["run", "account-check"], ["preflight"], ["subscribe"], ["destroy"], ["compare", "r1", "r2"],
    ["gate", "r1", "--min-speedup", "1"], ["winner"], ["advise", "r1"], ["forecast", "--of", "r1"],
    ["plan", "rehearsal", "--bucket", "b"], ["bench", "base=http://127.0.0.1:9", "--case", "count", "--publish"],
]  # fmt: skip
"""Every other one, so that it would ask."""


def test_every_command_that_talks_to_aws_takes_region_and_profile():
    commands = typer.main.get_command(app).commands
    assert {words[0] for words in TALKING} | LOCAL == set(commands)
    for name, command in commands.items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert ({"--region", "--profile"} <= options) is (name not in LOCAL), name


@pytest.mark.parametrize("command", TALKING, ids=lambda words: words[0])
def test_without_a_region_every_command_that_talks_to_aws_says_so_in_one_line(command, monkeypatch, capsys, no_region):
    monkeypatch.setattr("sys.argv", ["specdecode", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    may_be_a_folder = command[0] in ("compare", "gate", "advise", "forecast")
    assert ended.value.code == (2 if may_be_a_folder else 3), "a name that is none here is a mistyped one first"
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "no AWS region is chosen: `export AWS_REGION=us-east-2`" in text


@pytest.mark.parametrize("command", TALKING, ids=lambda words: words[0])
@pytest.mark.parametrize("how", ["AWS_REGION", "AWS_DEFAULT_REGION", "--region", "--profile"])
def test_each_way_to_name_a_region_gets_every_command_past_it(command, how, monkeypatch, tmp_path, no_region):
    """It goes on to ask AWS, with that region and those credentials."""
    (tmp_path / "config").write_text("[profile work]\nregion = us-west-2\n")
    flags = {"--region": ["--region", "us-west-2"], "--profile": ["--profile", "work"]}.get(how, [])
    if not flags:
        monkeypatch.setenv(how, "us-west-2")
    asked = []

    class Reached(BaseException):
        """The session was made."""

    def made(**given):
        asked.append(session(**given).region_name)
        raise Reached

    session = aws.session
    monkeypatch.setattr(aws, "session", made)
    monkeypatch.setattr("sys.argv", ["specdecode", *command, *flags])
    with pytest.raises(Reached):
        main()
    assert asked == ["us-west-2"]


def test_what_the_credentials_do_not_allow_is_one_line(monkeypatch, capsys):
    def refused(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "ListExecutions")

    monkeypatch.setattr(Deployment, "executions", refused)
    monkeypatch.setattr("sys.argv", ["specdecode", "runs"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_the_version():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == __version__


def test_an_option_of_one_value_is_given_once_and_one_of_several_as_often_as_one_likes():
    words = [
        "bench",
        "http://127.0.0.1:9",
        "--out",
        "a",
        "--seed=1",
        "--out=b",
        "--seed",
        "2",
        "--case",
        "x",
        "--case",
        "y",
    ]
    said = CliRunner().invoke(app, words).stderr
    assert said.startswith("error: given twice, and only one value counts: --out, --seed: leave the others out")
    assert "Usage:" in CliRunner().invoke(app, [*words, "--help"]).stdout
    of_several = CliRunner().invoke(app, [each for each in words if each not in ("--out=b", "--seed=1")]).stderr
    assert "no test case is called x, y" in of_several and "twice" not in of_several
    commands = [*typer.main.get_command(app).commands.values()]
    leaves = [leaf for each in commands for leaf in getattr(each, "commands", {"": each}).values()]
    for leaf in leaves:
        for option in (each for each in leaf.params if each.opts[0].startswith("--") and not each.is_flag):
            try:
                leaf.make_context(leaf.name, [option.opts[0], "1", option.opts[0], "1"])
                said = ""
            except UsageError as error:
                said = str(error)
            assert ("only one value counts" in said) is not option.multiple, (leaf.name, option.opts)


@pytest.mark.parametrize("words", [["presets"], ["presets", "--json"]])
def test_a_full_disk_behind_the_answer_is_no_broken_limit(words, monkeypatch, capsys):
    with Path("/dev/full").open("w", buffering=1) as full, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", full)
        patch.setattr("sys.argv", ["specdecode", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code, capsys.readouterr().err) == (3, "error: not all was written: No space left on device\n")


def test_a_table_that_is_piped_is_as_wide_as_a_report(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    widths = [len(line) for line in CliRunner().invoke(app, ["presets"]).stdout.splitlines()]
    assert 80 < max(widths) <= NO_TERMINAL[0]


def test_bench_alone_shows_what_it_takes():
    assert "--concurrency" in CliRunner().invoke(app, ["bench"]).output


def test_help_breaks_lines_where_the_terminal_does_and_keeps_examples():
    texts = {command.callback.__name__: command.help for command in app.registered_commands}
    assert all(text for text in texts.values())
    broken = [p for text in texts.values() for p in text.split("\n\n") if "\n" in p and not p.startswith(" ")]
    assert broken == []
    assert "\n    specdecode bench base=https://a.example sd=https://b.example --case count\n" in texts["bench"]
