"""`specdecode bench` on a server that fails now and then: what it prints, and what its exit code says."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from specdecode.cli import app
from typer.testing import CliRunner

from benchmarks.reference.processes import reference_server
from tests.specdecode.benchmark.chaos import BEHAVIOURS, Peer
from tests.specdecode.benchmark.virtual import World

MIX = {
    "good": None,
    "stalls-in-the-middle": "timeout",
    "reset-in-the-middle": "reset",
    "ends-in-the-middle": "truncated",
    "status-429": "http",
    "malformed-json": "protocol",
    "error-in-the-stream": "server",
    "no-text": "empty",
}
"""What every eighth request meets, and the category that it ends in."""


@pytest.fixture
def failing_server(world: World) -> str:
    """The URL of a server that answers the probe well, then each behaviour of MIX in turn."""
    turn = itertools.chain(["good"], itertools.cycle(MIX))

    async def serve(reader: asyncio.StreamReader, writer: Any) -> None:
        peer = Peer(reader, writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            path, _ = await peer.body()
            if path == "/v1/models":
                await peer.reply("200 OK", b'{"data": [{"id": "m"}]}')
            elif path == "/metrics":
                await peer.reply("404 Not Found", b"")
            else:
                await BEHAVIOURS[next(turn)](peer)
        writer.close()

    return f"http://127.0.0.1:{world.listen(serve).port}"


def bench(url: str, folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    arguments = ["bench", url, "--prompt", "hi", "--requests", "16", "--concurrency", "4", "--warmup", "0"]
    arguments += ["--output-tokens", "8", "--timeout", "1", "--out", str(folder), "--json", *options]
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, json.loads(result.stdout), result.stderr


def test_at_several_loads_each_failure_is_a_record_of_its_load(failing_server: str, tmp_path: Path) -> None:
    arguments = ["bench", failing_server, "--prompt", "hi", "--requests", "8", "--concurrency", "1,4", "--warmup", "0"]
    arguments += ["--output-tokens", "8", "--timeout", "1", "--out", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(app, [*arguments, "--max-error-rate", "1"])
    assert result.exit_code == 0, result.output
    (raw,) = (tmp_path / "out" / "raw" / "base").iterdir()
    found = [json.loads(line) for line in raw.read_text().splitlines()]
    assert sorted((each["level"], each["index"]) for each in found) == [
        (level, index) for level in ("c1", "c4") for index in range(8)
    ]
    for level in ("c1", "c4"):
        kinds = Counter(each["error"]["kind"] if each["error"] else None for each in found if each["level"] == level)
        assert kinds == Counter(MIX.values()), f"{level}: eight requests, each behaviour once"


def test_each_failure_is_counted_in_its_category_and_the_exit_code_tells(failing_server: str, tmp_path: Path) -> None:
    began = time.monotonic()
    code, summary, said = bench(failing_server, tmp_path / "out")
    assert time.monotonic() - began < 3, "two stalls of a second each, in virtual time"
    assert code == 1
    assert "88% of the requests failed" in said
    (arm,) = summary["arms"]
    assert (arm["requests"], arm["completed"], arm["failed"]) == (16, 2, 14)
    assert arm["errors"] == {kind: 2 for kind in MIX.values() if kind}
    assert arm["totals"]["error_rate"] == 14 / 16
    assert arm["metrics"]["ttft"]["n"] == 2, "percentiles are of whole answers only"
    assert arm["metrics"]["output_tokens"]["max"] == 8
    lines = [path.read_text().splitlines() for path in (tmp_path / "out" / "raw").rglob("*.jsonl")]
    assert sum(map(len, lines)) == 16, "every request has its raw record"


@pytest.mark.parametrize(("allowed", "code"), [("0.8", 1), ("0.9", 0)])
def test_how_many_may_fail_is_the_users_choice(failing_server: str, tmp_path: Path, allowed: str, code: int) -> None:
    assert bench(failing_server, tmp_path / "out", "--max-error-rate", allowed)[0] == code


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "http://127.0.0.1:9", "--prompt", "hi", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "http://127.0.0.1:9" in result.stderr
    assert "Traceback" not in result.stderr


def test_bad_input_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "ftp://x", "--prompt", "hi", "--requests", "0", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "ftp://x" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("option", "given"), [("--concurrency", "0"), ("--concurrency", "0,4"), ("--rate", "0")])
def test_a_load_of_nothing_is_one_problem(option: str, given: str) -> None:
    result = CliRunner().invoke(app, ["bench", "http://127.0.0.1:1", option, given])
    assert result.exit_code == 2
    assert result.stderr.strip().count("Input should be") == 1 and "Tuple" not in result.stderr


def test_a_failed_probe_leaves_the_folder_to_the_next_try(tmp_path: Path) -> None:
    """The first server is not there; the same command against one that is needs no other folder."""
    out = tmp_path / "results"
    words = ["--case", "count", "--requests", "1", "--output-tokens", "4", "--out", str(out)]
    first = CliRunner().invoke(app, ["bench", "http://127.0.0.1:9", *words])
    assert first.exit_code == 1
    assert not (out / "benchmark.json").exists()
    with reference_server("--first-ms", "5", "--gap-ms", "2") as url:
        assert CliRunner().invoke(app, ["bench", url, *words]).exit_code == 0
        assert CliRunner().invoke(app, ["bench", url, *words]).exit_code == 2
