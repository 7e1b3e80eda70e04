"""`specdecode bench` on a server that fails now and then: what it prints, and what its exit code says."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from specdecode.benchmark import results
from specdecode.benchmark.adhoc import adhoc_spec, cases_of
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.load import LoadPlan, arrival_times
from specdecode.benchmark.probe import ArmFacts
from specdecode.benchmark.results import Results
from specdecode.benchmark.runner import Benchmark, takes_s
from specdecode.cli import app
from specdecode.cli.bench import ResultOptions, SendingOptions, SentOptions, _workload
from specdecode.cli.written_files import only_writer
from typer.testing import CliRunner

from benchmarks.reference.processes import reference_server
from tests.specdecode.benchmark.chaos import BEHAVIOURS, Peer
from tests.specdecode.benchmark.virtual import World
from tests.specdecode.cli.calling import call

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
    given = {"--requests": "16", "--concurrency": "4", **dict(zip(options[::2], options[1::2], strict=True))}
    arguments = ["bench", url, "--prompt", "hi", *itertools.chain(*given.items()), "--warmup", "0"]
    arguments += ["--output-tokens", "8", "--timeout", "1", "--out", str(folder), "--json"]
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, json.loads(result.stdout), result.stderr


def fails_after(room: int, error: OSError, works: Callable[..., Any]) -> Callable[..., Any]:
    """What `works` does for so many calls, and then fails for ever."""
    calls = itertools.count()

    def full(*given: Any) -> Any:
        if next(calls) >= room:
            raise error
        return works(*given)

    return full


def test_at_several_loads_each_failure_is_a_record_of_its_load(failing_server: str, tmp_path: Path) -> None:
    two_loads = ("--requests", "8", "--concurrency", "1,4", "--max-error-rate", "1")
    assert bench(failing_server, tmp_path / "out", *two_loads)[0] == 0
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
    found, document, _ = bench(failing_server, tmp_path / "out", "--max-error-rate", allowed)
    assert found == code
    assert document["experiment"]["workload"]["cases"][0]["structured"] is None, "nobody said what kind of prompt it is"


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, told, said = bench("http://127.0.0.1:9", tmp_path / "out")
    assert code == told["exit_code"] == 1
    assert "http://127.0.0.1:9" in told["error"] and f"error: {told['error']}" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(("option", "given"), [("--concurrency", "0"), ("--concurrency", "0,4"), ("--rate", "0")])
def test_a_load_of_nothing_is_one_problem(option: str, given: str) -> None:
    result = call("bench", "http://127.0.0.1:1", option, given, code=2)
    assert result.stderr.strip().count("must be") == 1 and "Tuple" not in result.stderr


@pytest.mark.parametrize("given", ["", "base= "])
def test_a_model_without_a_name_is_refused(given: str, tmp_path: Path) -> None:
    """The folder's specification could not be read back, and so nothing that was measured be reported."""
    said = call("bench", "http://127.0.0.1:1", "--model", given, "--out", tmp_path / "out", code=2).stderr
    assert said.endswith("write NAME, or ARM=NAME for one arm\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("rate", ["1e9", "10001", "1,1e300"])
def test_a_rate_that_cannot_be_sent_is_one_problem(rate: str) -> None:
    said = call("bench", "http://127.0.0.1:1", "--rate", rate, code=2).stderr.strip()
    assert said.count("must be 10000 or less") == 1 and "\n" not in said


def test_a_benchmark_alone_looks_for_the_records_of_as_many_clients_as_there_can_be() -> None:
    """This load takes 200,000 of them, each with a file for each arm and case."""
    fast = {"rate": "10000", "output_tokens": 2**18}
    cases = cases_of(named=["count"], prompts=[], files=[])
    workload = {**_workload(cases, SentOptions(), SendingOptions(), ResultOptions()), **fast}
    assert adhoc_spec(run_id="x", arms={"base": {}}, model="m", workload=workload).most_clients == 16


def test_a_failed_probe_leaves_the_folder_to_the_next_try(tmp_path: Path) -> None:
    """The first server is not there; the same command against one that is needs no other folder."""
    out = tmp_path / "results"
    words = ["--case", "count", "--requests", "1", "--output-tokens", "4", "--out", str(out)]
    call("bench", "http://127.0.0.1:9", *words, code=1)
    assert not (out / "benchmark.json").exists()
    with reference_server("--first-ms", "5", "--gap-ms", "2") as url:
        call("bench", url, *words)
        call("bench", url, *words, code=2)


def test_a_folder_of_other_files_is_refused_and_nothing_in_it_changes(failing_server: str, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("report.html", "servers.json", "raw/base/count.jsonl")]
    files[2].parent.mkdir(parents=True)
    for file in files:
        file.write_text("mine")
    said = call("bench", failing_server, "--case", "count", "--out", tmp_path, code=2).stderr
    assert said == f"error: {tmp_path} is not empty: choose a new folder\n"
    assert [file.read_text() for file in files] == ["mine"] * 3
    assert {*tmp_path.iterdir()} == {*files[:2], tmp_path / "raw"}


def test_a_disk_that_is_full_is_one_message_that_says_how_to_go_on(
    failing_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After two records, and before anything is sent."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        patch.setattr(Results, "append", fails_after(2, full, Results.append))
        patch.setattr(Results, "write", fails_after(1, full, Results.write))
        code, told, said = bench(failing_server, tmp_path / "out", "--requests", "4")
    assert code == told["exit_code"] == 1 and "error: [Errno 28] No space left on device\n" in said
    assert "the same command with --resume goes on" in said
    monkeypatch.setattr(results, "replace_file", fails_after(0, full, results.replace_file))
    said = call("bench", failing_server, "--out", tmp_path / "other", code=2).stderr
    assert "other: No space left on device" in said


def test_a_second_benchmark_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    words = ["--case", "count", "--requests", "2", "--output-tokens", "4", "--out", str(tmp_path / "out")]
    with reference_server("--first-ms", "5", "--gap-ms", "2") as url:
        call("bench", url, *words)
        with only_writer(tmp_path / "out"):
            said = call("bench", url, *words, "--resume", code=2).stderr
        call("bench", url, *words, "--resume")
    assert said == f"error: another benchmark writes to {tmp_path / 'out'}: wait for it, or choose another --out\n"


@pytest.mark.parametrize("moved", ["the address", "the model"])
def test_what_was_measured_on_one_server_is_not_said_of_another(tmp_path: Path, moved: str) -> None:
    words = ["--case", "count", "--requests", "2", "--output-tokens", "4", "--out", str(tmp_path / "out")]
    with reference_server("--first-ms", "5", "--gap-ms", "2") as url:
        call("bench", url, *words)
        servers = tmp_path / "out" / "servers.json"
        kept = json.loads(servers.read_text())
        kept["arms"]["base"] |= {"url": "http://before"} if moved == "the address" else {"model": "before"}
        servers.write_text(json.dumps(kept))
        said = call("bench", url, *words, "--resume", code=2).stderr
        assert "error: base was measured at " in said and "before" in said and "choose another --out" in said
        assert "before" in servers.read_text(), "nothing is said anew"
        for raw in (tmp_path / "out" / "raw" / "base").iterdir():
            raw.write_text("")
        call("bench", url, *words, "--resume")


def test_what_a_server_measured_that_may_be_another_now_is_doubted_and_of_an_unknown_one_refused(
    tmp_path: Path,
) -> None:
    words = ["--case", "count", "--requests", "4", "--output-tokens", "4", "--out", str(tmp_path / "out")]
    with reference_server("--first-ms", "5", "--gap-ms", "2") as url:
        call("bench", f"base={url}", f"sd={url}", *words)
        (raw,) = (tmp_path / "out" / "raw" / "sd").iterdir()
        raw.write_text("".join(raw.read_text().splitlines(keepends=True)[:-2]))
        shown = call("bench", f"base={url}", f"sd={url}", *words, "--resume").stdout
        assert "but: The server of sd does not tell whether it was restarted between its requests" in " ".join(
            shown.split()
        )
        (tmp_path / "out" / "servers.json").unlink()
        said = call("bench", f"base={url}", f"sd={url}", *words, "--resume", code=2).stderr
        assert "error: nothing tells on which server base was measured before: choose another --out" in said


@pytest.mark.parametrize("path", ["", "/v1", "/v1/", "/v1/chat/completions", "/v1/completions/", "/chat/completions"])
def test_an_address_as_people_paste_it_is_the_server(path: str) -> None:
    assert Endpoint.of(f"https://host.example/team{path}").root == "/team"


def test_the_time_is_told_and_the_resume_line_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = Benchmark._block

    async def stopped(self: Benchmark, block: Any, prompts: Any) -> None:
        if block.case.name == "prompt-2":
            raise asyncio.CancelledError
        await whole(self, block, prompts)

    with reference_server("--first-ms", "5", "--gap-ms", "2") as url:
        words = ["bench", f"{url}/v1/chat/completions", "--prompt", "a", "--prompt", "b"]
        with monkeypatch.context() as patch:
            patch.setattr(Benchmark, "_block", stopped)
            said = CliRunner().invoke(app, words).stderr
        again = re.search(r"the same command with (--resume --out \S+) goes on", said)
        assert again, said
        went_on = call(*words, *again[1].split())
    assert re.search(r"2 cells, about \d+ s at the pace of one request \(--requests", said), said
    assert "cell 1 of 2: prompt-1, 1 at a time; about" in said
    assert "5 requests were measured before" in went_on.stderr
    assert "give that folder" in call(*words, "--resume", code=2).stderr


def test_the_defaults_take_five_minutes_at_most_where_a_token_takes_ten_milliseconds() -> None:
    cases = cases_of(named=["structured", "open"], prompts=[], files=[])
    workload = _workload(cases, SentOptions(), SendingOptions(), ResultOptions())
    made = adhoc_spec(run_id="x", arms={"base": {}, "sd": {}}, model="m", workload=workload)
    facts = [cast(ArmFacts, SimpleNamespace(first_s=0.2, token_s=0.010))] * 2
    assert len(made.workload.cases) >= 9
    assert 60 < takes_s(made, facts) <= 300
    timed = made.model_copy(update={"duration_s": 10.0})
    assert takes_s(timed, facts) == pytest.approx(2 * len(made.workload.cases) * (10 + 1.8))


def test_the_time_that_is_told_holds_the_ramp_and_the_arrivals() -> None:
    facts = [cast(ArmFacts, SimpleNamespace(first_s=0.4, token_s=0.010))] * 2
    cases = cases_of(named=["count"], prompts=[], files=[])

    def told(sending: SendingOptions, **ramp: Any) -> float:
        workload = _workload(cases, SentOptions(), sending, ResultOptions())
        return takes_s(adhoc_spec(run_id="x", arms={"a": {}, "b": {}}, model="m", workload=workload), facts, **ramp)

    closed = SendingOptions(requests=8, concurrency="2", warmup=0)
    assert told(closed) == pytest.approx(2 * 4 * 2.0)
    assert told(closed, ramp_s=30.0) == pytest.approx(2 * (4 * 2.0 + 30))
    assert told(closed, ramp_s=30.0, portions=lambda case, level: 2) == pytest.approx(2 * (4 * 2.0 + 60))
    opened = SendingOptions(requests=100, rate="5", warmup=0)
    for ramp_s in (0.0, 30.0):
        plans = [LoadPlan(requests=100, rate=5.0, ramp_s=ramp_s, seed=seed) for seed in range(200)]
        last = sorted(next(itertools.islice(arrival_times(plan), 99, None)) for plan in plans)
        assert last[-3] + 2.0 < told(opened, ramp_s=ramp_s) / 2 < last[-1] * 1.2 + 2.0


def test_one_server_has_its_own_figures_in_every_form(tmp_path: Path) -> None:
    with reference_server("--first-ms", "20", "--gap-ms", "4") as url:
        words = ["bench", url, "--prompt", "a", "--concurrency", "1,2", "--output-tokens", "24", "--out", str(tmp_path)]
        shown = call(*words).stdout
    document = json.loads((tmp_path / "report.json").read_text())
    arms = [*document["arms"], *document["loads"][0]["arms"]]
    assert len(arms) == 2 and all(arm["metrics"]["ttft"]["n"] == 5 for arm in arms)
    page = (tmp_path / "report.html").read_text().partition("<script")[0]
    again = call("report", tmp_path, "--full").stdout
    assert "One server, compared with nothing" in shown
    for text in (again, (tmp_path / "report.md").read_text().replace("\\", ""), page):
        assert "One server, compared with nothing" in text
        assert "Nothing could be compared" not in text and "arms alternate" not in text
        for arm in arms:
            for tag, scale, digits in (("ttft", 1000, 2), ("time_per_output_token", 1000, 3)):
                assert all(f"{arm['metrics'][tag][name] * scale:.{digits}f}" in text for name in ("p50", "p99"))
            assert f"{arm['totals']['output_throughput']:.1f}" in text
    assert 'id="distributions"' in page


def test_a_load_of_so_many_seconds_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no requests that are left: all cells would be measured again."""

    async def stopped(self: Benchmark, block: Any, prompts: Any) -> None:
        await whole(self, block, prompts)
        raise asyncio.CancelledError

    whole = Benchmark._block
    monkeypatch.setattr(Benchmark, "_block", stopped)
    with reference_server("--first-ms", "5", "--gap-ms", "2") as url:
        words = ["bench", url, "--prompt", "a", "--duration", "0.2", "--out", tmp_path / "out"]
        said = call(*words, code=1).stderr
    assert "compares it" in said and "goes on" not in said
    assert "--duration has none: choose another --out" in call(*words, "--resume", code=2).stderr


def test_a_load_of_so_many_seconds_has_no_wanted_count(tmp_path: Path) -> None:
    with reference_server("--first-ms", "150", "--gap-ms", "1") as url:
        words = ["bench", f"base={url}", f"sd={url}", "--prompt", "a", "--output-tokens", "4", "--duration", "0.3"]
        call(*words, "--out", tmp_path)
    document = json.loads((tmp_path / "report.json").read_text())
    assert all(arm["requests"] < 5 for arm in document["arms"])
    shown = call("report", tmp_path, "--full").stdout
    assert "was sent" not in shown and "5 requests per" not in shown
    assert "requests for 0.3 s per prompt type and arm" in shown


def test_a_rate_at_which_no_request_falls_due_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    words = ["bench", "http://127.0.0.1:9", "--prompt", "a", "--duration", "2", "--out", tmp_path / "out"]
    said = call(*words, "--rate", "0.001,50", code=2).stderr
    assert "no request falls due in 2 s at 0.001 requests a second" in said and "raise --duration or --rate" in said
    assert said.count("falls due") == 1 and not (tmp_path / "out").exists()
    assert "no request falls due in 2 s" in call(*words, "--rate", "2", "--ramp", "100", code=2).stderr
    assert "falls due" not in call(*words, "--rate", "50", code=1).stderr


def test_the_commands_below_the_screen_work_as_they_are_printed(tmp_path: Path) -> None:
    with reference_server("--first-ms", "5", "--gap-ms", "2") as url:
        out = tmp_path / "of mine; and (long)" / ("x" * 150)
        shown = call("bench", url, "--prompt", "a", "--requests", "2", "--output-tokens", "4", "--out", out).stdout
    whole = re.search(r"^All of it: specdecode (.+)$", shown, re.MULTILINE)
    assert whole and f"The page: specdecode report {shlex.quote(str(out))} --open\n" in shown
    assert len(call(*shlex.split(whole[1])).stdout) > len(shown)
    assert f"\nAll of it: specdecode report {shlex.quote(str(out))} --full\n" in call("report", out).stdout


def test_runs_of_one_server_each_have_no_speed_up_and_the_gate_that_is_named_judges_them(tmp_path: Path) -> None:
    with reference_server("--first-ms", "5", "--gap-ms", "2") as url:
        for name in ("a", "b"):
            call("bench", url, "--prompt", "a", "--requests", "4", "--output-tokens", "8", "--out", tmp_path / name)
    said = call("compare", f"{tmp_path}/a/", f"{tmp_path}/b/", code=2).stderr
    assert said.startswith("error: each of these runs has one server") and said.count("\n") == 1
    gate = re.search(r"`specdecode (gate .+)`", said)
    assert gate
    judged = CliRunner().invoke(app, shlex.split(gate[1]))
    assert judged.exit_code in (0, 1, 4) and "throughput at most 3% lower" in judged.stdout, judged.output
