"""What the shell offers, and how the help names values."""

from pathlib import Path

import pytest
from specdecode.cli import app, options
from typer.testing import CliRunner


def test_presets_and_files_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qwen-mine.yaml").write_text("name: mine")
    assert {"qwen3-32b", "qwen-mine.yaml"} <= set(options.experiments("qwen"))
    assert options.experiments("nothing-begins-so") == []
    assert options.experiments("/no/such/folder/x") == []


def test_runs_that_lie_here_are_offered_also_behind_dots_and_commas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two", "unfinished"):
        (tmp_path / "results" / name).mkdir(parents=True)
    for name in ("one", "two"):
        (tmp_path / "results" / name / "report.json").write_text("{}")
    assert options.runs("") == ["results/one", "results/two"]
    assert options.runs("results/t") == ["results/two"]
    assert options.runs("results/one,results/t") == ["results/one,results/two"]
    assert options.runs("results/one..results/t") == ["results/one..results/two"]
    assert "results/one" in options.experiments_or_runs("results/")


def test_cases_and_groups_are_offered() -> None:
    assert options.cases("str") == ["structured"]
    assert {"count", "all", "open"} <= set(options.cases(""))


@pytest.mark.parametrize(
    ("command", "begun", "offered"),
    [
        ("plan", "rehearsal-n", "rehearsal-nxdi"),
        ("run", "llama-3.1-4", "llama-3.1-405b"),
        ("bench --case", "cou", "count"),
    ],
)
def test_the_shell_is_told(command: str, begun: str, offered: str) -> None:
    words = f"specdecode {command} {begun}"
    environment = {
        "_SPECDECODE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1),
    }  # fmt: skip
    assert offered in CliRunner().invoke(app, [], env=environment, prog_name="specdecode").output.split()


@pytest.mark.parametrize("command", ["bench", "plan", "run", "report", "gate", "prompts", "import"])
def test_help_has_a_short_form_and_names_no_type_of_python(command: str) -> None:
    result = CliRunner().invoke(app, [command, "-h"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    for word in ("<str>", "<bool>", "<int", "<float", "<list", "<path"):
        assert word not in result.output
    assert result.output == CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"}).output
