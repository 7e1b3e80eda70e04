"""What a start of the command, and a press of the tab key, may load."""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import get_args

import pytest
from specdecode.analysis.several_runs.gate_questions import BETWEEN_RUNS
from specdecode.analysis.statistics.groups import NODES_DIFFER
from specdecode.cli import app, bench_options, forecast_sources
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.workload import Load
from specdecode.measures.accounting import MODES
from typer.main import get_command

HEAVY = ("aws_cdk", "boto3", "botocore", "rich", "pydantic", "yaml", "asyncio", "specdecode")
LIGHT = {
    *(f"specdecode.{name}" for name in ("assets", "cli", "escape", "giving_back", "names", "s3_keys", "untrusted")),
    *(f"specdecode.cli.{name}" for name in ("options", "output")),
    *(
        f"specdecode.cli.{name}"
        for name in ("bench", "bench_options", "experiments", "forecast", "forecast_sources", "gate", "manifests")
    ),
    *(f"specdecode.cli.{name}" for name in ("ask", "configure", "destroy", "evidence")),
    *(
        f"specdecode.cli.{name}"
        for name in ("instance", "logs", "preflight", "prompts", "report", "report_imports", "runs", "winner")
    ),
    "specdecode",
}
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
    [
        (bench_options.LoadOption, [*Load]),
        (bench_options.AccountingOption, MODES),
        (forecast_sources.MostTokensOption, [*MostTokens]),
    ],
)
def test_an_option_offers_what_the_model_knows(option: object, model: Sequence[str]) -> None:
    assert {*get_args(option)} == {str(choice) for choice in model}


def test_the_option_of_the_gate_and_its_limits_assume_the_same() -> None:
    (said,) = [option.help for option in get_command(app).commands["gate"].params if option.name == "between_runs"]
    assert f"{BETWEEN_RUNS:.1%}, or {NODES_DIFFER:.0%} where each run had a node of its own" in said
