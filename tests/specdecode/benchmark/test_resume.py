import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from specdecode.benchmark import __main__ as command
from specdecode.benchmark.loading import Options
from specdecode.benchmark.results import SPECIFICATION, BadResults, Results, claim_folder
from specdecode.records import ErrorKind, RequestRecord

from tests.patience import PATIENCE_S
from tests.specdecode.benchmark.making import record, spec
from tests.specdecode.benchmark.pace import Pace, paced_server
from tests.specdecode.benchmark.running import records, run


def test_resumed_run_sends_what_is_missing(tmp_path: Path) -> None:
    given = spec(requests=6)
    run(given, Options(folder=tmp_path), Pace())
    path = tmp_path / "raw" / "base" / "case.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    cancelled = record([], end=0.1, error=ErrorKind.CANCELLED, index=2).model_dump_json().encode() + b"\n"
    path.write_bytes(b"".join([*lines[:3], cancelled, lines[3][:40]]))
    kept = records_of(lines[1:3])
    pace = Pace()
    outcome = run(given, Options(folder=tmp_path), pace)
    assert len(pace.prompts) == 1 + 1 + 4  # the probe, a warm-up, and indices 2 to 5
    measured = [r for r in records(tmp_path) if not r.warmup]
    assert [(r.index, r.session) for r in measured] == [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 1)]
    assert measured[:2] == kept
    assert outcome.sent["base", "case", "c1"].started == 6
    assert measured[2].sent_s > measured[1].sent_s


def test_only_what_nobody_answered_is_asked_again_and_that_is_told(tmp_path: Path) -> None:
    """A server that was not there is not measured; one that fails while it answers stays charged with it."""
    stored = Results(tmp_path, run_id="run")
    ends = [("connect", []), ("reset", []), ("reset", [0.1]), ("http", []), ("timeout", []), ("truncated", [])]
    for index, (kind, times) in enumerate(ends):
        stored.append(record(times, error=ErrorKind(kind), index=index))
    stored.append(record([], error=ErrorKind.CONNECT, round=1))
    pace = Pace()
    outcome = run(spec(requests=6), Options(folder=tmp_path), pace)
    assert len(pace.prompts) == 1 + 1 + 2, "the probe, a warm-up, and the two that nobody answered"
    kept = sorted(
        (each.round, each.index, each.error and each.error.kind) for each in records(tmp_path) if not each.warmup
    )
    assert kept == [(0, 0, None), (0, 1, None), *((0, at, ends[at][0]) for at in range(2, 6)), (1, 0, "connect")]
    assert outcome.sent["base", "case", "c1"] == (6, 4)
    (told,) = outcome.servers.notes
    assert told.startswith("base: 2 requests found no server")
    assert run(spec(requests=6), Options(folder=tmp_path), Pace()).servers.notes == (told,), "it stays"


COUNTERS = "vllm:spec_decode_num_draft_tokens_total 6\nvllm:spec_decode_num_accepted_tokens_total 5"


def engine(k: int, started_at: float) -> Pace:
    positions = [f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{at}"}} 0' for at in range(k)]
    began = [f"process_start_time_seconds {started_at}"] if started_at else []
    return Pace(metrics="\n".join([*(COUNTERS.splitlines() if k else ()), *positions, *began, "up 1"]))


@pytest.mark.parametrize("now", [(6, 1.7e9), (0, 1.7e9)])
def test_a_part_with_another_k_is_not_measured_into_the_same_arm(tmp_path: Path, now: tuple[int, float]) -> None:
    run(spec(), Options(folder=tmp_path), engine(3, 1.7e9))
    cut_short(tmp_path)
    pace = engine(*now)
    with pytest.raises(BadResults, match=rf"base was measured with k = 3, and its server has k = {now[0]}: "):
        run(spec(), Options(folder=tmp_path), pace)
    assert len(pace.prompts) == 1, "the probe"


@pytest.mark.parametrize(
    ("started_at", "whole", "pod", "told"),
    [
        (1.7e9, False, False, ""),
        (1.7e9 + 60, False, False, "was restarted"),
        (1.7e9 + 60, True, False, ""),
        (1.7e9 + 60, False, True, ""),
        (0, False, False, "does not tell whether it was restarted"),
        (0, False, True, ""),
    ],
)
def test_a_server_that_was_restarted_between_the_requests_is_told(
    tmp_path: Path, started_at: float, whole: bool, pod: bool, told: str
) -> None:
    """Not if no request was left to send; nor of a pod, as its settings are the run's."""
    options = Options(folder=tmp_path, same_urls=not pod)
    first = run(spec(), options, engine(3, 1.7e9)).servers.arms["base"].url
    kept = tmp_path / "servers.json"
    kept.write_text(kept.read_text().replace(first, ""))  # the restarted one listens at another port here
    if not whole:
        cut_short(tmp_path)
    notes = run(spec(), options, engine(3, started_at)).servers.notes
    assert len(notes) == bool(told)
    assert all(each.startswith(f"The server of base {told} between its requests: ") for each in notes)


def cut_short(folder: Path) -> None:
    """As if the benchmark had been stopped before its last two requests."""
    path = folder / "raw" / "base" / "case.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))


def records_of(lines: list[bytes]) -> list[RequestRecord]:
    return [RequestRecord.model_validate_json(line) for line in lines]


def test_a_finished_run_is_not_measured_again(tmp_path: Path) -> None:
    first = run(spec(), Options(folder=tmp_path), Pace())
    pace = Pace()
    again = run(spec(), Options(folder=tmp_path), pace)
    assert len(pace.prompts) == 1
    assert again.sent == first.sent


def test_other_rounds_and_arms_are_kept(tmp_path: Path) -> None:
    run(spec(), Options(folder=tmp_path), Pace(metrics=COUNTERS))
    second = spec(arms=("sd",)).model_copy(update={"round": 1, "wave": 1})
    run(second, Options(folder=tmp_path), Pace(metrics=COUNTERS))
    servers = run(spec().model_copy(update={"round": 1}), Options(folder=tmp_path), Pace(metrics=COUNTERS)).servers
    assert [(c.variant, c.round) for c in servers.counters] == [("base", 0), ("sd", 1), ("base", 1)]
    assert set(servers.arms) == {"base", "sd"}
    assert sorted(r.round for r in records(tmp_path) if not r.warmup) == [0] * 4 + [1] * 4


def test_another_runs_folder_is_refused(tmp_path: Path) -> None:
    Results(tmp_path, run_id="other").append(record(run_id="other"))
    with pytest.raises(BadResults, match="choose another folder"):
        run(spec(), Options(folder=tmp_path), Pace())


def test_a_damaged_record_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = Results(tmp_path, run_id="run").raw_path("base", "case")
    path.parent.mkdir(parents=True)
    path.write_text("{}\n" + record().model_dump_json() + "\n")
    with pytest.raises(BadResults, match=r"line 1 is no record of this version: [a-z_]+: is missing$"):
        Results(tmp_path, run_id="run").load("base", "case")


def test_a_folder_is_resumed_only_with_the_same_settings(tmp_path: Path) -> None:
    given = spec()
    assert claim_folder(tmp_path / "new", given, resume=False) == given
    with pytest.raises(BadResults, match="--resume"):
        claim_folder(tmp_path / "new", given, resume=False)
    later = given.model_copy(update={"run_id": "later"})
    assert claim_folder(tmp_path / "new", later, resume=True).run_id == "run"
    with pytest.raises(BadResults, match="workload"):
        claim_folder(tmp_path / "new", spec(requests=99), resume=True)
    with pytest.raises(BadResults, match="nothing to resume"):
        claim_folder(tmp_path / "none", given, resume=True)


async def start(folder: Path, url: str) -> asyncio.subprocess.Process:
    """The benchmark of spec.json in a process of its own."""
    arguments = ["--spec", "spec.json", "--arm", f"base={url}"]
    environment = {**os.environ, "PYTHONPATH": str(Path(command.__file__).parents[2])}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "specdecode.benchmark", *arguments,
        cwd=folder, env=environment, stderr=subprocess.PIPE,
    )  # fmt: skip


async def until(pace: Pace, count: int) -> None:
    began = time.monotonic()
    while len(pace.prompts) < count:
        assert time.monotonic() - began < PATIENCE_S
        await asyncio.sleep(0.01)


def test_a_folder_of_an_earlier_version_is_resumed_with_what_it_did_not_store(tmp_path: Path) -> None:
    given = spec().model_copy(update={"duration_s": 2.0})
    claim_folder(tmp_path, given, resume=False)
    stored = json.loads((tmp_path / SPECIFICATION).read_text())
    del stored["duration_s"]
    (tmp_path / SPECIFICATION).write_text(json.dumps(stored))
    assert claim_folder(tmp_path, given, resume=True).duration_s == 2.0
    with pytest.raises(BadResults, match="duration_s"):
        claim_folder(tmp_path, given.model_copy(update={"duration_s": 3.0}), resume=True)


def test_a_request_that_the_user_cancelled_has_not_failed(tmp_path: Path) -> None:
    """The probe and the first request are answered, the second is under way."""
    (tmp_path / "spec.json").write_text(spec(warmup_requests=0).model_dump_json())

    async def stopped() -> str:
        pace = Pace(in_turn_s=(0.0, 0.0, 0.0, 3600.0))
        async with paced_server(pace) as url:
            process = await start(tmp_path, url)
            await until(pace, 3)
            process.send_signal(signal.SIGINT)
            return (await process.communicate())[1].decode()

    said = asyncio.run(stopped())
    assert "stopped; 1 cancelled; what was measured is in results" in said and "failed" not in said
    assert [(each.index, each.error) for each in records(tmp_path / "results")] == [(0, None)]


def test_a_killed_process_keeps_what_it_measured_and_goes_on(tmp_path: Path) -> None:
    """SIGKILL in the middle, then SIGTERM in the middle, then to the end: every request once, none lost."""
    given = spec(requests=12, warmup_requests=0)
    (tmp_path / "spec.json").write_text(given.model_dump_json())

    async def run_three() -> list[int]:
        pace = Pace(first_s=0.02, gap_s=0.02)
        codes = []
        async with paced_server(pace) as url:
            for number in (signal.SIGKILL, signal.SIGTERM, None):
                seen = len(pace.prompts)
                process = await start(tmp_path, url)
                if number is not None:
                    await until(pace, seen + 4)
                    process.send_signal(number)
                await process.communicate()
                assert (
                    json.loads((tmp_path / "results" / "servers.json").read_text())["arms"]["base"]["model"] == "good"
                )
                codes.append(process.returncode)
        return codes

    assert asyncio.run(run_three()) == [-signal.SIGKILL, 1, 0]
    measured = records(tmp_path / "results")
    assert sorted(r.index for r in measured) == list(range(12))
    assert {r.session for r in measured} == {0, 1, 2}
    assert all(r.error is None for r in measured)
    assert [r.sent_s for r in measured] == sorted(r.sent_s for r in measured)
