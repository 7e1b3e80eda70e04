from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from specdecode.benchmark import __main__ as command
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.metrics import Slo
from specdecode.benchmark.probe import ArmNotReady
from specdecode.benchmark.progress import PlainProgress
from specdecode.benchmark.records import ErrorKind, RequestRecord
from specdecode.benchmark.results import BadResults, Results, claim_folder
from specdecode.benchmark.runner import Benchmark, Options, Outcome, failed_beyond
from specdecode.experiment.benchmark_spec import BenchmarkSpec

from tests.specdecode.benchmark.chaos import chaos_server
from tests.specdecode.benchmark.making import case, record, spec
from tests.specdecode.benchmark.pace import Pace, paced_server


def run(spec: BenchmarkSpec, options: Options, *paces: Pace) -> Outcome:
    """The benchmark against one paced server an arm."""

    async def measure() -> Outcome:
        async with contextlib_all([paced_server(pace) for pace in paces]) as urls:
            endpoints = {arm.variant: Endpoint.of(url) for arm, url in zip(spec.arms, urls, strict=True)}
            return await Benchmark(spec, endpoints, options, PlainProgress(io.StringIO())).run()

    return asyncio.run(measure())


class contextlib_all:
    """Several async context managers as one."""

    def __init__(self, managers: list) -> None:
        self.managers = managers

    async def __aenter__(self) -> list[str]:
        return [await manager.__aenter__() for manager in self.managers]

    async def __aexit__(self, *error: object) -> None:
        for manager in reversed(self.managers):
            await manager.__aexit__(None, None, None)


def records(folder: Path, variant: str = "base", name: str = "case") -> list[RequestRecord]:
    lines = (folder / "raw" / variant / f"{name}.jsonl").read_text().splitlines()
    return [RequestRecord.model_validate_json(line) for line in lines]


def test_two_arms_get_the_same_requests(tmp_path: Path) -> None:
    base, sd = Pace(chunk_tokens=(1,) * 8), Pace(chunk_tokens=(1, 3, 4))
    given = spec(arms=("base", "sd"), cases=(case("one"), case("two", text="bye")), requests=3)
    outcome = run(given, Options(folder=tmp_path), base, sd)
    assert not outcome.problems
    assert base.prompts == ["hello"] * 5 + ["bye"] * 4  # the probe, then warm-up and three of each
    assert sorted(sd.prompts) == sorted(base.prompts)
    assert len({json.dumps(body, sort_keys=True) for body in base.bodies[1:5]}) == 1
    assert base.bodies[1:] == sd.bodies[1:]
    for block in outcome.summary["blocks"]:
        assert block["requests"] == {
            "started": 3, "completed": 3, "failed": 0, "failed_by_kind": {}, "without_valid_usage": 0,
        }  # fmt: skip
        steps = {"base": 1.0, "sd": 3.5}[block["variant"]]
        assert block["metrics"]["tokens_per_step"]["mean"] == steps
    assert [(r.warmup, r.index) for r in records(tmp_path, "sd", "one")] == [(True, 0), *((False, i) for i in range(3))]
    folder = tmp_path / "llmperf" / "sd" / "one" / "round-0"
    assert sorted(path.name for path in folder.iterdir()) == [
        "good_64_8_individual_responses.json",
        "good_64_8_summary.json",
    ]


def test_interleaved_arms_alternate(tmp_path: Path) -> None:
    given = spec(arms=("base", "sd"), cases=(case("one"), case("two"), case("three")), requests=1, warmup_requests=0)
    run(given, Options(folder=tmp_path), Pace(), Pace())
    sent = [
        (records(tmp_path, arm, name)[0].sent_s, name, arm)
        for name in ("one", "two", "three")
        for arm in ("base", "sd")
    ]
    assert [(name, arm) for _, name, arm in sorted(sent)] == [
        ("one", "base"), ("one", "sd"), ("two", "sd"), ("two", "base"), ("three", "base"), ("three", "sd"),
    ]  # fmt: skip


def test_simultaneous_arms_overlap(tmp_path: Path) -> None:
    given = spec(arms=("base", "sd"), load="simultaneous", requests=2, warmup_requests=0)
    run(given, Options(folder=tmp_path), Pace(first_s=0.1), Pace(first_s=0.1))
    base, sd = (records(tmp_path, arm)[0] for arm in ("base", "sd"))
    assert abs(base.sent_s - sd.sent_s) < 0.08


def test_concurrency_is_kept(tmp_path: Path) -> None:
    pace = Pace(first_s=0.02)
    run(spec(requests=12, concurrency=3), Options(folder=tmp_path), pace)
    assert pace.most_under_way == 3
    assert sorted(r.index for r in records(tmp_path) if not r.warmup) == list(range(12))


def test_a_server_with_one_slot_does_not_slow_the_open_loop(tmp_path: Path) -> None:
    """20 requests a second against a server that answers 10 a second: a queue grows, and the figures show it."""
    pace = Pace(first_s=0.1, slots=1)
    given = spec(requests=12, rate=20, warmup_requests=0)
    run(given, Options(folder=tmp_path, arrivals="constant"), pace)
    measured = sorted(records(tmp_path), key=lambda r: r.index)
    assert [r.scheduled_s - measured[0].scheduled_s for r in measured] == pytest.approx([i / 20 for i in range(12)])
    gaps = [after - before for before, after in zip(pace.arrivals[1:], pace.arrivals[2:], strict=False)]
    assert sum(gaps) == pytest.approx(11 / 20, abs=0.15)
    assert measured[-1].chunks[0].at_s > 0.5
    assert pace.most_under_way > 4


def test_ramp_and_duration(tmp_path: Path) -> None:
    pace = Pace(first_s=0.03)
    run(spec(concurrency=4), Options(folder=tmp_path, duration_s=0.5, ramp_s=0.3), pace)
    measured = [r for r in records(tmp_path) if not r.warmup]
    began = min(r.sent_s for r in measured)
    early = [r for r in measured if r.sent_s - began < 0.1]
    late = [r for r in measured if 0.35 <= r.sent_s - began < 0.45]
    assert len(late) > 1.5 * len(early)
    assert 0.4 < max(r.sent_s for r in measured) - began < 0.5
    assert len(measured) > 10


def test_goodput(tmp_path: Path) -> None:
    outcome = run(spec(requests=3), Options(folder=tmp_path, slo=Slo(ttft_s=10)), Pace())
    metrics = outcome.summary["blocks"][0]["metrics"]
    assert metrics["goodput"] == pytest.approx(metrics["request_throughput"])


def test_a_plain_server_is_asked_plainly(tmp_path: Path) -> None:
    pace = Pace(refuses=("continuous_usage_stats", "ignore_eos", "min_tokens"))
    outcome = run(spec(ignore_eos=True), Options(folder=tmp_path), pace)
    assert outcome.summary["arms"]["base"]["running_usage"] is False
    assert outcome.summary["arms"]["base"]["ignore_eos"] is False
    assert "ignore_eos" not in pace.bodies[-1]
    block = outcome.summary["blocks"][0]
    assert block["metrics"]["output_tokens"]["mean"] == 8
    assert "every chunk" in block["no_value"]["inter_token_latency"]


def test_a_server_without_usage_gives_times_and_no_token_figures(tmp_path: Path) -> None:
    outcome = run(spec(), Options(folder=tmp_path), Pace(refuses=("stream_options",)))
    block = outcome.summary["blocks"][0]
    assert block["metrics"]["ttft"]["count"] == 4
    assert block["requests"]["without_valid_usage"] == 4
    assert "usage" in block["no_value"]["time_per_output_token"]


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
    assert outcome.summary["blocks"][0]["requests"]["started"] == 6
    assert measured[2].sent_s > measured[1].sent_s


def records_of(lines: list[bytes]) -> list[RequestRecord]:
    return [RequestRecord.model_validate_json(line) for line in lines]


def test_a_finished_run_is_not_measured_again(tmp_path: Path) -> None:
    first = run(spec(), Options(folder=tmp_path), Pace())
    pace = Pace()
    again = run(spec(), Options(folder=tmp_path), pace)
    assert len(pace.prompts) == 1
    assert again.summary["blocks"] == first.summary["blocks"]


def test_other_rounds_and_arms_are_kept(tmp_path: Path) -> None:
    run(spec(), Options(folder=tmp_path), Pace())
    second = spec(arms=("sd",)).model_copy(update={"round": 1, "wave": 1})
    run(second, Options(folder=tmp_path), Pace())
    outcome = run(spec().model_copy(update={"round": 1}), Options(folder=tmp_path), Pace())
    assert [(b["variant"], b["round"]) for b in outcome.summary["blocks"]] == [("base", 0), ("sd", 1), ("base", 1)]
    assert set(outcome.summary["arms"]) == {"base", "sd"}
    assert sorted(r.round for r in records(tmp_path) if not r.warmup) == [0] * 4 + [1] * 4


def test_another_runs_folder_is_refused(tmp_path: Path) -> None:
    Results(tmp_path, run_id="other").append(record(run_id="other"))
    with pytest.raises(BadResults, match="choose another folder"):
        run(spec(), Options(folder=tmp_path), Pace())


def test_a_damaged_record_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = Results(tmp_path, run_id="run").raw_path("base", "case")
    path.parent.mkdir(parents=True)
    path.write_text("{}\n" + record().model_dump_json() + "\n")
    with pytest.raises(BadResults, match="line 1"):
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


def test_counters_of_the_measured_requests_give_the_acceptance(tmp_path: Path) -> None:
    pace = Pace(metrics=metrics_text(0))

    async def measure() -> Outcome:
        async with paced_server(pace) as url:
            original = pace.prompts.append

            class Prompts(list):
                def append(self, prompt: str) -> None:
                    original(prompt)
                    pace.metrics = metrics_text(len(pace_prompts))
                    super().append(prompt)

            pace_prompts = Prompts()
            pace.prompts = pace_prompts
            benchmark = Benchmark(
                spec(requests=4), {"base": Endpoint.of(url)}, Options(folder=tmp_path), PlainProgress(io.StringIO())
            )
            return await benchmark.run()

    block = asyncio.run(measure()).summary["blocks"][0]
    assert block["counters"] == {
        "drafts": 8, "draft_tokens": 24, "accepted_tokens": 20, "accepted_per_position": [8, 8, 4],
        "trusted": True, "contradiction": None,
    }  # fmt: skip
    assert block["acceptance_source"] == "counters"
    assert block["metrics"]["acceptance_rate"] == pytest.approx(20 / 24)


def metrics_text(requests: int) -> str:
    """vLLM's counters after so many requests of two steps, each of three drafted tokens."""
    values = {"drafts": 2, "draft_tokens": 6, "accepted_tokens": 5}
    lines = [f'vllm:spec_decode_num_{name}_total{{model="m"}} {requests * each}.0' for name, each in values.items()]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{model="m",position="{position}"}} {requests * each}'
        for position, each in enumerate((2, 2, 1))
    ]
    return "# HELP vllm:spec_decode_num_drafts_total x\n" + "\n".join(lines)


def test_impossible_counters_are_shown_and_not_used(tmp_path: Path) -> None:
    given = spec(requests=4)
    pace = Pace(metrics=metrics_text(1))
    outcome = run(given, Options(folder=tmp_path, speculative_tokens={"base": 3}), pace)
    block = outcome.summary["blocks"][0]
    assert block["counters"]["trusted"] is True  # nothing was drafted: nothing to contradict
    assert block["acceptance_source"] == "estimated"
    assert block["metrics"]["acceptance_rate"] == pytest.approx(2.5 / 3)


def test_an_arm_that_is_down_stops_the_run_before_any_load(tmp_path: Path) -> None:
    async def measure() -> None:
        async with paced_server(Pace()) as up:
            endpoints = {"base": Endpoint.of(up), "sd": Endpoint.of("http://127.0.0.1:9")}
            await Benchmark(
                spec(arms=("base", "sd")), endpoints, Options(folder=tmp_path), PlainProgress(io.StringIO())
            ).run()

    with pytest.raises(ArmNotReady, match=r"arm sd \(http://127.0.0.1:9\)"):
        asyncio.run(measure())
    assert not (tmp_path / "raw").exists()


@pytest.mark.parametrize(
    ("model", "says"), [("absent", "does not serve 'absent'"), ("status-400", "too long"), ("no-text", "empty")]
)
def test_an_arm_that_answers_wrongly_is_named(tmp_path: Path, model: str, says: str) -> None:
    async def measure() -> None:
        async with chaos_server() as url:
            options = Options(folder=tmp_path)
            await Benchmark(spec(model=model), {"base": Endpoint.of(url)}, options, PlainProgress(io.StringIO())).run()

    with pytest.raises(ArmNotReady, match=says):
        asyncio.run(measure())


def test_failed_beyond() -> None:
    blocks = [
        {"variant": "a", "case": "x", "metrics": {"error_rate": 0.05}},
        {"variant": "b", "case": "x", "metrics": {"error_rate": 0.2}},
    ]
    outcome = Outcome(summary={"blocks": blocks}, problems=())
    assert failed_beyond(outcome, 0.1) == ["b/x: 20% of the requests failed"]
    assert not failed_beyond(outcome, 0.5)
    blocks[0]["metrics"]["error_rate"] = 1.0
    assert failed_beyond(outcome, 1.0) == ["a/x: 100% of the requests failed"]


def test_command_line_names_every_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.json"
    path.write_text(spec(arms=("base", "sd")).model_dump_json())
    assert command.main(["--spec", str(path), "--arm", "base=ftp://x", "--arm", "other=http://x:1"]) == 2
    assert "ftp://x" in capsys.readouterr().err
    assert command.main(["--spec", str(path), "--arm", "base=http://x:1", "--arm", "other=http://x:1"]) == 2
    error = capsys.readouterr().err
    assert "no --arm sd=URL" in error
    assert "--arm other" in error
    path.write_text(json.dumps({"schema_version": 1, "wave": -1}))
    assert command.main(["--spec", str(path)]) == 2
    error = capsys.readouterr().err
    assert "wave" in error
    assert "run_id" in error
    assert command.main(["--spec", str(tmp_path / "none.json")]) == 2


def test_a_killed_process_keeps_what_it_measured_and_goes_on(tmp_path: Path) -> None:
    """SIGKILL in the middle, then SIGTERM in the middle, then to the end: every request once, none lost."""
    given = spec(requests=12, warmup_requests=0)
    (tmp_path / "spec.json").write_text(given.model_dump_json())

    async def start(url: str) -> asyncio.subprocess.Process:
        arguments = ["--spec", "spec.json", "--arm", f"base={url}"]
        environment = {**os.environ, "PYTHONPATH": str(Path(command.__file__).parents[2])}
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "specdecode.benchmark", *arguments,
            cwd=tmp_path, env=environment, stderr=subprocess.PIPE,
        )  # fmt: skip

    async def until(pace: Pace, count: int) -> None:
        began = time.monotonic()
        while len(pace.prompts) < count:
            assert time.monotonic() - began < 20
            await asyncio.sleep(0.01)

    async def run_three() -> list[int]:
        pace = Pace(first_s=0.02, gap_s=0.02)
        codes = []
        async with paced_server(pace) as url:
            for number in (signal.SIGKILL, signal.SIGTERM, None):
                seen = len(pace.prompts)
                process = await start(url)
                if number is not None:
                    await until(pace, seen + 4)
                    process.send_signal(number)
                await process.communicate()
                codes.append(process.returncode)
        return codes

    assert asyncio.run(run_three()) == [-signal.SIGKILL, 1, 0]
    measured = records(tmp_path / "results")
    assert sorted(r.index for r in measured) == list(range(12))
    assert {r.session for r in measured} == {0, 1, 2}
    assert all(r.error is None for r in measured)
    assert [r.sent_s for r in measured] == sorted(r.sent_s for r in measured)
