from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest
from specdecode.benchmark import __main__ as command
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.metrics import Slo
from specdecode.benchmark.outcome import Options, Outcome, failed_beyond
from specdecode.benchmark.probe import ArmNotReady
from specdecode.benchmark.progress import PlainProgress
from specdecode.benchmark.runner import Benchmark
from specdecode.experiment.benchmark_spec import BenchmarkSpec

from tests.specdecode.benchmark.chaos import chaos_server
from tests.specdecode.benchmark.making import case, spec
from tests.specdecode.benchmark.pace import Pace, paced_server
from tests.specdecode.benchmark.running import records, run


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


def with_k(given: BenchmarkSpec, k: int, **fields: object) -> BenchmarkSpec:
    """The specification, its arms known to speculate `k` tokens."""
    arms = tuple(arm.model_copy(update={"num_speculative_tokens": k}) for arm in given.arms)
    return given.model_copy(update={"arms": arms, **fields})


def test_counters_that_the_engine_is_known_to_fake_are_not_used(tmp_path: Path) -> None:
    given = with_k(spec(requests=4), 3, trusted_counters=False)
    block = run(given, Options(folder=tmp_path), Pace(metrics=metrics_text(1))).summary["blocks"][0]
    assert block["counters"]["trusted"] is False
    assert block["acceptance_source"] == "estimated"


def test_impossible_counters_are_shown_and_not_used(tmp_path: Path) -> None:
    given = with_k(spec(requests=4), 3)
    pace = Pace(metrics=metrics_text(1))
    outcome = run(given, Options(folder=tmp_path), pace)
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
