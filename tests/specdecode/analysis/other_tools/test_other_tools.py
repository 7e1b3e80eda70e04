"""Results that other tools really wrote (imports/README.md), against their own requests and the server's truth."""

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from specdecode.analysis import Comparison
from specdecode.analysis.other_tools.imported import AIPERF, GUIDELLM, MEANS, VLLM, ImportProblem
from specdecode.analysis.other_tools.newer_tools import read_other

from tests.specdecode.cli.calling import call

FILES = Path(__file__).with_name("imports")
TOOLS = {"vllm": VLLM, "aiperf": AIPERF, "guidellm": GUIDELLM}
CLOCKS = 0.02
"""How far the tools' own times were from the server's, on a machine that others loaded: TPOT 0.5 %, latency 1.5 %."""

INVENTED = (
    *("tensor parallel", "bf16", "greedy", "arms alternate", "open-ended", "no speculation", "size_gib"),
    *("prompt type measured", "workload.concurrency", "later", "rounds of one prompt", "price per hour"),
    *("as published", "LLMPerf's count", "/ (last end"),
)
"""What an import once said of files that do not say it."""


def truth(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]


def raw(tool: str, arm: str) -> list[tuple[float, float, int]]:
    """TTFT, latency and tokens of each request, straight from the tool's file."""
    folder = FILES / tool / arm
    if tool == "vllm":
        document = json.loads((folder / "vllm.json").read_text())
        return list(zip(document["ttfts"], document["latencies"], document["output_lens"], strict=True))
    if tool == "aiperf":
        lines = [json.loads(line)["metrics"] for line in (folder / "profile_export.jsonl").read_text().splitlines()]
        return [
            (
                each["time_to_first_token"]["value"] / 1000,
                each["request_latency"]["value"] / 1000,
                each["usage_completion_tokens"]["value"],
            )
            for each in lines
        ]
    requests = json.loads((folder / "guidellm.json").read_text())["benchmarks"][0]["requests"]["successful"]
    return [
        (each["time_to_first_token_ms"] / 1000, each["request_latency"], each["output_tokens"]) for each in requests
    ]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


imported = partial(call, "import")


def arms_of(folder: Path) -> list[str]:
    return [f"{name}={folder / name}" for name in ("base", "sd")]


def document(*words: str) -> Any:
    return json.loads(imported(*words, "--json").stdout)


@pytest.mark.parametrize("arm", ["base", "sd"])
@pytest.mark.parametrize("tool", TOOLS)
def test_figures_are_those_of_the_requests_of_the_same_run(tool: str, arm: str) -> None:
    found = next(each for each in document(*arms_of(FILES / tool))["arms"] if each["variant"] == arm)
    rows = raw(tool, arm)
    expected = {
        "ttft": mean([ttft for ttft, _, _ in rows]),
        "end_to_end_latency": mean([latency for _, latency, _ in rows]),
        "time_per_output_token": mean([(latency - ttft) / (made - 1) for ttft, latency, made in rows]),
        "request_output_throughput": mean([made / latency for _, latency, made in rows]),
    }
    for metric, value in expected.items():
        assert found["metrics"][metric]["mean"] == pytest.approx(value, rel=1e-3), metric
    sent = truth(FILES / tool / arm)
    assert found["output_tokens"] == sum(sum(each["tokens"]) for each in sent)
    assert found["completed"] == len(sent) == 6


@pytest.mark.parametrize("arm", ["base", "sd"])
@pytest.mark.parametrize("tool", TOOLS)
def test_figures_are_the_servers_as_far_as_the_tools_clock_is_true(tool: str, arm: str) -> None:
    found = read_other(FILES / tool / arm, name=arm)
    assert found
    sent = truth(FILES / tool / arm)
    per_token = mean([(each["sent_s"][-1] - each["sent_s"][0]) / (sum(each["tokens"]) - 1) for each in sent])
    assert found.metrics["time_per_output_token"].mean == pytest.approx(per_token, rel=0.005)
    assert found.metrics["end_to_end_latency"].mean == pytest.approx(
        mean([each["sent_s"][-1] for each in sent]), rel=CLOCKS
    )


@pytest.mark.parametrize("tool", TOOLS)
def test_the_report_says_what_the_tools_own_figures_mean(tool: str) -> None:
    found = document(*arms_of(FILES / tool))
    assert any(MEANS[TOOLS[tool]] in note for note in found["notes"])
    assert TOOLS[tool] in found["context"]["source"]
    (pair,) = found["pairs"]
    assert pair["cases"][0]["headline"]["ratio"] > 1.1  # up to five tokens a chunk


def test_arms_of_different_tools_are_said_to_be() -> None:
    found = document(f"base={FILES / 'vllm/base'}", f"sd={FILES / 'aiperf/sd'}")
    assert any("measured by different tools" in note for note in found["notes"])


def test_a_sweeps_combination_is_its_runs_together() -> None:
    (combination,) = (FILES / "vllm-sweep").glob("BENCH*")
    found = read_other(combination, name="base")
    assert found
    assert (found.tool, found.completed, len(found.requests)) == (VLLM, 12, 12)
    assert found.total_tokens == sum(sum(each["tokens"]) for each in truth(FILES / "vllm-sweep"))
    with pytest.raises(ImportProblem, match=r"a sweep of 1; give one of its folders: BENCH--max_concurrency=2"):
        read_other(FILES / "vllm-sweep", name="base")


def test_without_the_requests_there_is_no_verdict_and_it_is_said_how_to_get_them() -> None:
    found = document(*arms_of(FILES / "vllm-plain"))
    base = found["arms"][0]
    own = json.loads((FILES / "vllm-plain/base/vllm.json").read_text())
    assert base["metrics"]["ttft"]["mean"] * 1000 == pytest.approx(own["mean_ttft_ms"])
    assert base["metrics"]["time_per_output_token"]["mean"] * 1000 == pytest.approx(own["mean_tpot_ms"])
    assert found["pairs"][0]["cases"][0]["verdict"] == "cannot tell"
    assert any("--save-detailed" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("tool", "file", "change", "said"),
    [
        ("vllm", "vllm.json", ('"ttfts": [', '"ttfts": [0.1, '), "its lists of requests have 7, 6, 6, 6, 6 entries"),
        ("vllm", "vllm.json", ('"duration": ', '"duration": "x", "took": '), "duration"),
        ("vllm", "vllm.json", ('"completed"', '"finished"'), "it lacks completed"),
        ("aiperf", "profile_export.jsonl", ('"ms"', '"fortnight"'), "no unit of time"),
        ("aiperf", "profile_export.jsonl", ("{", "["), "line 1"),
        ("guidellm", "guidellm.json", ('"sample_size": null', '"sample_size": 2'), "only a sample of its requests"),
        ("guidellm", "guidellm.json", ('"benchmarks": [', '"benchmarks": [{}, '), "2 benchmarks, one is needed"),
        ("guidellm", "guidellm.json", ('"request_latency"', '"other"'), "request_latency"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_with_what_is_wrong(
    tmp_path: Path, tool: str, file: str, change: tuple[str, str], said: str
) -> None:
    shutil.copytree(FILES / tool / "base", tmp_path / "base")
    damaged = tmp_path / "base" / file
    assert change[0] in damaged.read_text()
    damaged.write_text(damaged.read_text().replace(*change))
    result = imported(f"base={tmp_path / 'base'}", f"sd={FILES / tool / 'sd'}", code=2)
    assert said in result.stderr
    assert "base" in result.stderr


def test_loads_and_lengths_beyond_what_we_would_run_are_imported(tmp_path: Path) -> None:
    words = []
    for name in ("base", "sd"):
        own = json.loads((FILES / "vllm" / name / "vllm.json").read_text())
        huge = [2**30] * len(own["output_lens"])
        own |= {"max_concurrency": 50_000, "input_lens": huge, "output_lens": huge}
        (tmp_path / f"{name}.json").write_text(json.dumps(own))
        words.append(f"{name}={tmp_path / name}.json")
    assert [arm["completed"] for arm in document(*words)["arms"]] == [len(huge)] * 2


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    shutil.copy(FILES / "aiperf/base/profile_export_aiperf.json", tmp_path)
    with pytest.raises(ImportProblem, match=r"profile_export\.jsonl does not lie beside it"):
        read_other(tmp_path, name="base")
    with pytest.raises(ImportProblem, match="nowhere: no such file or folder"):
        read_other(tmp_path / "nowhere", name="base")


@pytest.mark.parametrize("tool", [*TOOLS, "vllm-plain"])
def test_what_the_files_do_not_say_is_said_by_nothing(tool: str, tmp_path: Path) -> None:
    shown = imported(*arms_of(FILES / tool), "--out", str(tmp_path)).stdout
    for text in (shown, *(each.read_text() for each in tmp_path.glob("report.*") if each.suffix != ".html")):
        assert not [word for word in INVENTED if word in text]
    told = (tmp_path / "report.md").read_text().replace("\\", "")
    assert "Not recorded: sampling, the prompts, and the order of the arms" in told
    page = (tmp_path / "report.html").read_text().partition("<script")[0]
    assert not [word for word in (*INVENTED, "tokens in, ") if word in page]
    told = json.loads((tmp_path / "report.json").read_text())["experiment"]
    assert {"engine", "serving", "node"}.isdisjoint(told) and told["workload"].keys() == {"cases", "concurrency"}
    assert Comparison.model_validate_json((tmp_path / "report.json").read_text()).experiment.workload.cases


@pytest.mark.parametrize(
    ("tool", "file", "figure"),
    [
        *(("vllm", "vllm.json", f'"{name}_{of}_ms": ') for name in ("mean", "p99") for of in ("ttft", "tpot", "e2el")),
        ("aiperf", "profile_export_aiperf.json", r'"time_to_first_token": {\s*"unit": "ms",\s*"avg": '),
        ("aiperf", "profile_export_aiperf.json", r'"inter_token_latency": {\s*"unit": "ms",\s*"avg": '),
    ],
)
def test_a_tools_own_statistics_are_held_against_its_rows(tool: str, file: str, figure: str, tmp_path: Path) -> None:
    for name in ("base", "sd"):
        shutil.copytree(FILES / tool / name, tmp_path / name)
    text, times = re.subn(rf"({figure})[\d.]+", r"\g<1>1900.5", (tmp_path / "sd" / file).read_text())
    assert times == 1
    (tmp_path / "sd" / file).write_text(text)
    found = document(*arms_of(tmp_path))
    assert any("1.9005" in note for note in found["notes"])
    assert found["pairs"][0]["cases"][0]["verdict"] not in ("pays", "costs")


def test_artifacts_of_several_runs_of_aiperf_are_told_from_llmperf(tmp_path: Path) -> None:
    shutil.copytree(FILES / "aiperf" / "sd", tmp_path / "run-1")
    with pytest.raises(ImportProblem, match=r"artifacts of AIPerf; give one of them: .*run-1"):
        read_other(tmp_path, name="sd")


LESS = "request 1: ttfts: must be 0 or more, not -5: measure again, or leave that request out of the file"


def alone(**told: Any) -> dict[str, Any]:
    """vLLM's result without its requests."""
    first = {"model_id": "m", "duration": 9.0, "total_output_tokens": 100, "mean_ttft_ms": 50.0, "completed": 8}
    return first | {"median_ttft_ms": 40.0, "p25_ttft_ms": 30.0, "p75_ttft_ms": 60.0} | told


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (alone(), ""),
        (alone(model_id="Qwen3 32B--(sd) é"), ""),
        (alone(median_ttft_ms=1e-190, p25_ttft_ms=1e-191, p75_ttft_ms=1e14), ""),
        (alone(ttfts=[-5, 0.1], latencies=[1, 1], output_lens=[9, 9], input_lens=[9, 9], errors=["", ""]), LESS),
        (alone(duration=-5), "duration: must be 0 or more, not -5"),
        (alone(completed=0, failed=3, errors=["", "HTTP\n500"]), "all 3 requests failed (the first: HTTP\\n500)"),
        (alone(completed=2**31), "no more than 10,000,000"),
        (alone(failed=10_000_000 - 8), ""),
        (alone(failed=10_000_000 - 7), "10,000,001 requests: vllm bench serve measures no more than 10,000,000"),
        (alone(failed=2**31 + 1), "failed: must be 2147483648 or less, not 2147483649"),
        ({"metadata": 5}, "no result of a tool"),
        ({"metadata": "guidellm_version"}, "no result of a tool"),
    ],
)
def test_figures_that_no_tool_can_measure_are_refused_in_one_line(
    result: dict[str, Any], says: str, tmp_path: Path
) -> None:
    for name in ("base", "sd"):
        (tmp_path / f"{name}.json").write_text(json.dumps(result))
    ended = call("import", f"base={tmp_path}/base.json", f"sd={tmp_path}/sd.json", code=2 if says else 0)
    assert says in ended.stderr
    assert not says or len(ended.stderr.splitlines()) == 2, "a line for each file"


def test_a_negative_time_is_told_with_its_request_and_what_to_do(tmp_path: Path) -> None:
    said = []
    for tool, file, change in (
        ("aiperf", "profile_export.jsonl", (r'("request_latency":\s*\{"value":\s*)', r"\1-")),
        ("guidellm", "guidellm.json", (r'("request_latency":\s*)(?=\d)', r"\1-")),
        ("vllm", "vllm.json", (r'("latencies":\s*\[[^,]*,\s*)', r"\1-")),
    ):
        shutil.copytree(FILES / tool / "base", tmp_path / tool)
        text, times = re.subn(*change, (tmp_path / tool / file).read_text(), count=1)
        assert times == 1, tool
        (tmp_path / tool / file).write_text(text)
        said += imported(f"base={tmp_path / tool}", f"sd={FILES / tool / 'sd'}", code=2).stderr.splitlines()
    assert len(said) == 3 and all("must be 0 or more, not -" in each for each in said)
    assert all("leave that request out of the file" in each for each in said)
    assert "profile_export.jsonl, line 1: " in said[0] and "request 2: latencies: " in said[2]


def test_one_file_is_no_two_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    said = imported("base=vllm/base", f"sd={FILES}/vllm/base", "third=vllm/sd", code=2).stderr
    assert said == f"error: {FILES}/vllm/base: base and sd are the same file: give each arm its own\n"


def at_load(folder: Path, *, only: str = "", **told: Any) -> list[str]:
    """The two arms of vLLM, with `told` in both files, or in that of `only`; None takes a field away."""
    for name in ("base", "sd"):
        (folder / name).mkdir(parents=True)
        own = json.loads((FILES / "vllm" / name / "vllm.json").read_text())
        own = {key: value for key, value in (own | (told if only in ("", name) else {})).items() if value is not None}
        (folder / name / "vllm.json").write_text(json.dumps(own))
    return arms_of(folder)


def verdict(*words: str) -> str:
    """The verdict of an import, with its reason."""
    (case,) = document(*words)["pairs"][0]["cases"]
    return f"{case['verdict']}: {case['reason']}"


TPOT = dict.fromkeys(f"{of}_tpot_ms" for of in ("mean", "median", "std", "p25", "p75", "p90", "p95", "p99"))
"""Without the statistics that other lengths contradict."""


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({}, "pays"),
        ({"input_lens": [6000] * 6}, "mean prompt tokens is 20 and 6000"),
        ({"output_lens": [12] * 6, "total_output_tokens": 72} | TPOT, "its answers have 0.50×"),
        ({"input_lens": [20, 21, 22, 20, 21, 22]}, "pays"),
        ({"model_id": "Qwen/Qwen3-0.6B"}, "model is reference and Qwen/Qwen3-0.6B"),
        ({"model_id": "/models/reference/"}, "pays"),
        ({"burstiness": 0.1}, "burstiness is 1.0 and 0.1"),
        ({"burstiness": None}, "pays"),
        ({"ramp_up_strategy": "linear", "ramp_up_start_rps": 1, "ramp_up_end_rps": 50}, "ramp_up_strategy is not said"),
        ({"num_prompts": 50}, "pays"),
    ],
)
def test_arms_that_were_measured_otherwise_get_no_verdict(told: dict[str, Any], says: str, tmp_path: Path) -> None:
    found = verdict(*at_load(tmp_path, only="sd", **told))
    assert says in found and found.startswith("pays:" if says == "pays" else "cannot tell: ")


def test_prompts_that_come_at_once_are_a_load_of_their_number(tmp_path: Path) -> None:
    words = at_load(tmp_path, max_concurrency=None)
    assert verdict(*words).startswith("pays:")
    more = json.loads((tmp_path / "sd" / "vllm.json").read_text()) | {"num_prompts": 60}
    (tmp_path / "sd" / "vllm.json").write_text(json.dumps(more))
    assert "num_prompts is 6 and 60" in verdict(*words)


def test_other_weights_are_compared_if_the_user_says_so(tmp_path: Path) -> None:
    words = at_load(tmp_path, only="sd", model_id="reference-fp8")
    assert verdict(*words, "--about", "sd:quantization=fp8").startswith("pays:")


@pytest.mark.parametrize("detailed", [True, False])
def test_an_older_file_tells_its_failed_requests_by_their_errors(detailed: bool, tmp_path: Path) -> None:
    lists = ("errors", "ttfts", "latencies", "itls", "output_lens", "input_lens")
    plain = {} if detailed else dict.fromkeys(lists)
    failed = {"failed": None, "completed": 4, "errors": ["", "boom", "", "", "boom", ""]} | plain
    found = document(*at_load(tmp_path, only="sd", **failed))
    assert [arm["failed"] for arm in found["arms"]] == [0, 2]


@pytest.mark.parametrize("other", [{"max_concurrency": 1}, {"request_rate": 2.0}, {"model_id": "other/model"}])
def test_runs_of_several_loads_are_no_arm(other: dict[str, Any], tmp_path: Path) -> None:
    runs = json.loads(next((FILES / "vllm-sweep").glob("BENCH*/summary.json")).read_text())
    (tmp_path / "summary.json").write_text(json.dumps([runs[0], runs[1] | other]))
    with pytest.raises(ImportProblem, match="its 2 runs have several loads or models; give a file for each"):
        read_other(tmp_path, name="base")


def test_several_results_in_one_file_are_told_from_damage(tmp_path: Path) -> None:
    text = (FILES / "vllm-plain/base/vllm.json").read_text()
    (tmp_path / "vllm.json").write_text(f"{text}\n{text}")
    with pytest.raises(ImportProblem, match=r"a file of --append-result\? Give one with one result"):
        read_other(tmp_path, name="base")


def aiperf(folder: Path, config: dict[str, Any]) -> Path:
    """AIPerf's artifacts with another configuration."""
    shutil.copytree(FILES / "aiperf" / "sd", folder)
    file = folder / "profile_export_aiperf.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"input_config": config}))
    return folder


def phase(kind: str, name: str, concurrency: int) -> dict[str, Any]:
    return {"name": name, "kind": kind, "type": "concurrency", "concurrency": concurrency}


@pytest.mark.parametrize(
    "phases",
    [
        [phase("warmup", "warmup", 8), phase("profiling", "profiling", 32)],
        [phase("warmup", "before", 8), phase("profiling", "steady", 32)],
        [{"name": "warmup", "concurrency": 8}, {"name": "profiling", "concurrency": 32}],
    ],
)
def test_the_load_of_aiperf_is_that_of_the_requests_that_count(phases: list[Any], tmp_path: Path) -> None:
    found = read_other(aiperf(tmp_path / "sd", {"phases": phases}), name="sd")
    assert found and found.concurrency == 32 and found.conditions["concurrency"] == "32"


def test_several_loads_of_aiperf_are_refused(tmp_path: Path) -> None:
    phases = [phase("profiling", name, 2) for name in ("first", "second")]
    with pytest.raises(ImportProblem, match="2 phases are measured, one is needed"):
        read_other(aiperf(tmp_path / "sd", {"phases": phases}), name="sd")


def test_older_files_of_aiperf_say_their_load_and_model(tmp_path: Path) -> None:
    """As up to version 0.9."""
    config = {"endpoint": {"model_names": ["reference"]}, "loadgen": {"concurrency": 64, "request_rate": 3.0}}
    found = read_other(aiperf(tmp_path / "sd", config), name="sd")
    assert found and (found.model, found.concurrency, found.conditions["request_rate"]) == ("reference", 64, "3.0")


@pytest.mark.parametrize("config", [{}, {"phases": 5, "loadgen": 5}, {"phases": [5, phase("warmup", "warmup", 8)]}])
def test_a_load_that_no_file_says_is_not_taken_for_equal(config: dict[str, Any], tmp_path: Path) -> None:
    arms = [f"{name}={aiperf(tmp_path / name, {'models': {'items': [{'name': 'm'}]}} | config)}" for name in "ab"]
    rows = tmp_path / "a" / "profile_export.jsonl"
    rows.write_bytes((FILES / "aiperf" / "base" / rows.name).read_bytes())
    summary = tmp_path / "a" / "profile_export_aiperf.json"
    own = json.loads((FILES / "aiperf" / "base" / summary.name).read_text())
    summary.write_text(json.dumps(own | {"input_config": json.loads(summary.read_text())["input_config"]}))
    assert "cannot tell: no verdict on figures like these: the load is not in the files of a; the" in verdict(*arms)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"request_rate": 20.0}, "recorded.base.request_rate: inf -> 20.0"),
        ({"input_lens": [8000] * 6}, "recorded.sd.mean prompt tokens: 20 -> 8000"),
        ({"only": "sd", "model_id": "Qwen/Qwen3-0.6B"}, "recorded.sd.model: None -> qwen3-0.6b"),
        ({"input_lens": [20, 21, 22, 20, 21, 22]}, ""),
    ],
)
def test_a_gate_holds_imports_only_to_imports_that_were_measured_alike(
    told: dict[str, Any], says: str, tmp_path: Path
) -> None:
    imported(*at_load(tmp_path / "1", date="20261123-092932"), "--out", str(tmp_path / "before"))
    imported(*at_load(tmp_path / "2", **told), "--out", str(tmp_path / "after"))
    words = ("gate", f"{tmp_path}/before..{tmp_path}/after", "--max-regression", "50%")
    assert says in call(*words, code=2 if says else 0).output


def test_imports_of_other_results_are_other_runs(tmp_path: Path) -> None:
    first, again, later = (
        document(*words)["run_id"]
        for words in (
            arms_of(FILES / "vllm"),
            [*arms_of(FILES / "vllm"), "--title", "The same results"],
            at_load(tmp_path, date="20261123-092932"),
        )
    )
    assert first == again != later
    assert all(re.fullmatch("import-base-sd-[0-9a-f]{8}", run) for run in (first, later))


def test_imports_are_compared_with_each_other(tmp_path: Path) -> None:
    imported(*arms_of(FILES / "vllm"), "--out", str(tmp_path / "a"))
    imported(*at_load(tmp_path / "later", date="20261123-092932"), "--out", str(tmp_path / "b"))
    told = json.loads(call("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)
    assert told["cases"]["sd/imported"]["speedup"]["n"] == 2


def test_what_an_arm_is_is_said_once() -> None:
    said = imported(*arms_of(FILES / "vllm"), "--about", "sd:k=5", "--about", "sd:k=7", code=2).stderr
    assert said == "error: --about sd:k is said twice\n"
