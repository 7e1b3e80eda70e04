"""What a start of the command, and a press of the tab key, may load; what the shell offers; how help names values."""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

import pytest
from specdecode.analysis.several_runs.gate_questions import BETWEEN_RUNS
from specdecode.analysis.statistics.groups import NODES_DIFFER
from specdecode.cli import app, bench, forecast_sources, options
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.workload import Load
from specdecode.measures.accounting import MODES
from typer.main import get_command
from typer.testing import CliRunner

HEAVY = ("aws_cdk", "boto3", "botocore", "rich", "pydantic", "yaml", "asyncio", "specdecode")
LIGHT = {
    "specdecode", *(f"specdecode.{name}" for name in (
        "assets", "cli", "escape", "giving_back", "names", "s3_keys", "untrusted",
    )), *(f"specdecode.cli.{name}" for name in (
        "ask", "bench", "configure", "destroy", "evidence", "experiments", "forecast",
        "forecast_sources", "gate", "instance", "logs", "options", "output", "preflight", "prompts",
        "report", "report_imports", "runs", "objects",
    )),
}  # fmt: skip
"""Our modules that every start loads: names, options and texts. None of them imports a model or a client of AWS."""


def loaded(argv: Iterable[str], **environment: str) -> tuple[str, set[str]]:
    """What the command prints, and the modules of HEAVY that it loads."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
            f"sys.argv = {['specdecode', *argv]!r}\nfrom specdecode.cli import main; main()",
        ],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, {name for name in done.stderr.split() if name.split(".")[0] in HEAVY}


def test_the_version_loads_options_alone() -> None:
    assert loaded(["--version"])[1] == LIGHT


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("specdecode ", "plan"),
        ("specdecode run qwen", "qwen3-32b"),
        ("specdecode plan rehearsal-n", "rehearsal-nxdi"),
        ("specdecode bench --case co", "count"),
        ("specdecode plan --", "--set"),
        ("specdecode report ", ""),
    ],
)
def test_a_tab_reads_no_model_and_asks_nobody(words: str, offered: str) -> None:
    """Typer itself needs pydantic to take a line of options apart. YAML is read for the names of the cases alone."""
    said, modules = loaded(
        [], _SPECDECODE_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(f"{words}.".split()) - 1)
    )
    assert offered in said.splitlines() or not offered
    ours = {name for name in modules if name.split(".")[0] not in ("pydantic", "yaml")}
    assert ours == LIGHT
    assert ("yaml" in modules) == ("--case" in words)


@pytest.mark.parametrize(
    ("option", "model"),
    [(bench.LoadOption, [*Load]), (bench.AccountingOption, MODES), (forecast_sources.MostTokensOption, [*MostTokens])],
)
def test_an_option_offers_what_the_model_knows(option: object, model: Sequence[str]) -> None:
    assert {*get_args(option)} == {str(choice) for choice in model}


def test_the_option_of_the_gate_and_its_limits_assume_the_same() -> None:
    (said,) = [option.help for option in get_command(app).commands["gate"].params if option.name == "between_runs"]
    assert f"{BETWEEN_RUNS:.1%}, or {NODES_DIFFER:.0%} where each run had a node of its own" in said


def test_presets_and_files_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qwen-mine.yaml").write_text("name: mine")
    assert {"qwen3-32b", "qwen-mine.yaml"} <= set(options.experiments("qwen"))
    assert options.experiments("nothing-begins-so") == []
    assert options.experiments("/no/such/folder/x") == []


def test_runs_here_are_offered_also_behind_dots_and_commas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("command", ["bench", "plan", "run", "report", "gate", "prompts", "import"])
def test_help_has_a_short_form_and_names_no_type_of_python(command: str) -> None:
    result = CliRunner().invoke(app, [command, "-h"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    for word in ("<str>", "<bool>", "<int", "<float", "<list", "<path"):
        assert word not in result.output
    assert result.output == CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"}).output
