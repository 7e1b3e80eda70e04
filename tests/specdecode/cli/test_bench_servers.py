"""`specdecode bench` on servers that already run: two embedded engines, with and without a draft, each with a key."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reference.steps import StepTime
from tests.patience import PATIENCE_S, until
from tests.rehearsal.engine.conftest import DRAFT, serve
from tests.specdecode.benchmark.reference import serving
from tests.specdecode.benchmark.virtual import World
from tests.specdecode.cli.calling import call

KEYS = {"OPENAI_API_KEY_BASE": "canary-of-base", "OPENAI_API_KEY_SD": "canary-of-sd"}
LOAD = ["--case", "repeat-line", "--endpoint", "completions", "--input-tokens", "24", "--output-tokens", "12"]


@pytest.fixture(scope="module")
def arms() -> Iterator[tuple[str, str]]:
    config = json.dumps({"model": str(DRAFT), "num_speculative_tokens": 5})
    with (
        serve("--api-key", KEYS["OPENAI_API_KEY_BASE"]) as base,
        serve("--api-key", KEYS["OPENAI_API_KEY_SD"], "--speculative-config", config) as sd,
    ):
        yield f"base=http://127.0.0.1:{base.port}", f"sd=http://127.0.0.1:{sd.port}/v1"


@pytest.fixture(scope="module")
def measured(arms: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The results folder, and what the command said."""
    folder = tmp_path_factory.mktemp("bench") / "out"
    prices = ["--price-per-hour", "36", "--price-per-hour", "sd=72"]
    return folder, call("bench", *arms, *LOAD, "--requests", "6", "--ignore-eos", *prices, "--out", folder, env=KEYS)


def test_it_compares_the_arms_and_leaves_the_report(measured: tuple[Path, Any]) -> None:
    folder, result = measured
    said = " ".join(result.stdout.split())
    assert "sd against base" in said and "structured prompts" in said
    assert {"report.html", "report.md", "report.csv", "report.json"} <= {path.name for path in folder.iterdir()}
    shown = call("report", folder, "--full")
    assert "sd against base" in shown.stdout and "6 of 6" in shown.stdout


def test_what_the_servers_tell_of_themselves_is_in_the_report(measured: tuple[Path, Any]) -> None:
    report = json.loads((measured[0] / "report.json").read_text())
    base, sd = report["experiment"]["variants"]
    assert base["speculation"] is None and base["target"]["id"] == "pair"
    assert sd["speculation"]["num_speculative_tokens"] == 5, "from /metrics: nobody said it"
    arms = {arm["variant"]: arm for arm in report["arms"]}
    assert arms["sd"]["acceptance_source"] == "engine counters" and "acceptance_rate" not in arms["base"]["totals"]
    for name, dollars in (("base", 36), ("sd", 72)):
        arm = arms[name]
        cost = dollars / 3600 * arm["load_seconds"] / arm["output_tokens"] * 1e6
        assert arm["cost_per_million"] == pytest.approx(cost)
    assert report["cost"] is None, "no node was held"


@pytest.fixture
def known(world: World) -> Iterator[tuple[str, str]]:
    """Two servers whose times are known, in virtual time: no load of theirs is doubtful."""
    slow, fast = StepTime(base_s=0.02), StepTime(base_s=0.02, k=5, acceptance=0.8)
    with serving(world, steps=slow) as base, serving(world, steps=fast) as sd:
        yield f"base={base.url}", f"sd={sd.url}"


def test_several_loads_and_an_objective_are_answered_in_the_terminal(known: tuple[str, str], tmp_path: Path) -> None:
    slo = ["--slo-e2e-s", "30", "--slo-ttft-ms", "20000"]
    many = ["--concurrency", "1,3", "--requests", "4", "--ignore-eos", "--warmup", "0", *slo]
    result = call("bench", *known, *LOAD, *many, "--out", tmp_path / "out")
    said = " ".join(result.stdout.split())
    assert "sd over the load" in said and "At the first load, 1 at a time: " in said
    assert re.search(r"^1 at a time .*× .*^3 at a time .*×", result.stdout, re.M | re.S), "a row for each load"
    assert "At your SLO both carry 3 at a time, of the loads measured." in said
    assert "SLO: TTFT at most 20 s, end-to-end latency at most 30 s, for 95% of the requests: base carries 3" in said


@pytest.mark.parametrize(
    ("most", "tokens", "source"), [("k", 7, "estimated from tokens per streamed chunk"), ("k+1", 8, "engine counters")]
)
def test_perfect_acceptance_is_100_percent_on_either(tmp_path: Path, most: str, tokens: int, source: str) -> None:
    """Every draft of `count` is right: k = 7 tokens a step where k - 1 drafts are verified, k + 1 = 8 where all are."""
    config = json.dumps({"model": str(DRAFT), "num_speculative_tokens": 7})
    kind = {"REHEARSAL_MOST_TOKENS_PER_STEP": most}
    with serve() as base, serve("--speculative-config", config, environment=kind) as sd:
        arms = [f"base=http://127.0.0.1:{base.port}", f"sd=http://127.0.0.1:{sd.port}"]
        said = ["--most-tokens-per-step", f"sd={most}", "--speculative-tokens", "sd=7", "--json"]
        load = ["--case", "count", "--endpoint", "completions", "--requests", "4", "--ignore-eos", *said]
        load += ["--output-tokens", str(10 * tokens + 1), "--out", str(tmp_path / "out")]
        result = call("bench", *arms, *load)
    again = call("report", tmp_path / "out", "--json")
    for report in (json.loads(result.stdout), json.loads(again.stdout)):
        arm = next(arm for arm in report["arms"] if arm["variant"] == "sd")
        assert arm["verified_drafts"] == tokens - 1 and arm["acceptance_source"] == source
        assert arm["totals"]["acceptance_rate"] == 1.0
        assert arm["metrics"]["tokens_per_step"]["p50"] == tokens
        assert not any("yields at most" in note or "IMPOSSIBLE" in note for note in report["notes"])


def test_no_key_is_in_anything_that_was_written_or_said(measured: tuple[Path, Any]) -> None:
    folder, result = measured
    assert "canary" not in result.output
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 6
    assert not [path.name for path in files if b"canary" in path.read_bytes()]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({}, "demands an API key, and none is set (status 401): set OPENAI_API_KEY_BASE or OPENAI_API_KEY"),
        ({"OPENAI_API_KEY": "wrong"}, "refused the API key that it was given (status 401): set OPENAI_API_KEY_BASE"),
    ],
)
def test_a_refused_key_says_which_variable(
    arms: tuple[str, str], tmp_path: Path, keys: dict[str, str], says: str
) -> None:
    result = call("bench", *arms, *LOAD, "--out", tmp_path / "out", code=1, env=keys)
    assert says in " ".join(result.stderr.split())


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured_and_the_same_command_goes_on(arms: tuple[str, str], tmp_path: Path) -> None:
    program, environment = Path(sys.executable).with_name("specdecode"), {**os.environ, **KEYS}

    def command(folder: Path) -> list[Any]:
        load = ["--requests", "30", "--rate", "15", "--arrivals", "constant", "--out", str(folder)]
        return [program, "bench", *arms, *LOAD, *load]

    def interrupted(folder: Path) -> str:
        """What it said. Empty if it had measured all before this process came to end it."""
        raw, pipe = folder / "raw" / "sd" / "repeat-line.jsonl", subprocess.PIPE
        process = subprocess.Popen(command(folder), env=environment, stderr=pipe, stdout=pipe, text=True)
        until(lambda: process.poll() is not None or (raw.exists() and raw.read_bytes().count(b"\n") > 4))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
        return said if process.returncode else ""

    tries = (tmp_path / str(number) for number in range(10))
    folder, said = next((folder, said) for folder in tries if (said := interrupted(folder)))
    raw = folder / "raw" / "sd" / "repeat-line.jsonl"
    assert "Traceback" not in said
    assert f"specdecode report {folder}" in " ".join(said.split())
    shown = call("report", folder, "--json")
    completed = {arm["variant"]: arm["completed"] for arm in json.loads(shown.stdout)["arms"]}
    assert completed["base"] == 30 and 4 <= completed["sd"] < 30
    before = raw.read_bytes().splitlines()[:4]
    resumed = [*command(folder), "--resume", "--json"]
    again = subprocess.run(resumed, env=environment, capture_output=True, text=True, check=True)
    done = {arm["variant"]: arm["completed"] for arm in json.loads(again.stdout)["arms"]}
    assert done == {"base": 30, "sd": 30}
    assert raw.read_bytes().splitlines()[:4] == before
    assert re.search("report: .*report.html", again.stderr)
