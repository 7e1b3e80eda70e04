"""Published LLMPerf tables come out corrected, with what their authors missed said."""

import json
import random
import shutil
from pathlib import Path

import pytest
from specdecode.analysis import Comparison, Verdict
from specdecode.analysis.other_tools.imported import ImportProblem
from specdecode.analysis.other_tools.imported_report import compare_imported
from specdecode.analysis.other_tools.llmperf import read_arm
from specdecode.analysis.report import render_html
from specdecode.experiment.variants import ModelRef, Speculation, Variant

TABLES = Path(__file__).with_name("llmperf")


def compared(folder: Path, *, quantization: str = "bf16", speculation: Speculation | None = None) -> Comparison:
    variants = (
        Variant(name="base", label="Base", quantization="bf16"),
        Variant(name="sd", label="SD", compare_to="base", quantization=quantization, speculation=speculation),
    )
    return compare_imported(arms=[(read_arm(folder / v.name, name=v.name), v) for v in variants], title="t")


DRAFT = Speculation(draft=ModelRef(id="draft", size_gib=1.0), num_speculative_tokens=7)


@pytest.fixture(scope="module")
def llama() -> Comparison:
    return compared(TABLES / "llama-3.1-405b", quantization="fp8", speculation=DRAFT)


@pytest.fixture(scope="module")
def qwen() -> Comparison:
    return compared(TABLES / "qwen3-32b", speculation=DRAFT)


def gains(comparison: Comparison) -> dict[str, float]:
    return {estimate.metric: estimate.ratio for estimate in comparison.pairs[0].cases[0].speedups}


def said(comparison: Comparison, *parts: str) -> bool:
    return any(all(part in note for part in parts) for note in comparison.notes)


def test_llama_figures_are_the_corrected_ones(llama: Comparison) -> None:
    """TPOT 45.1 -> 8.27 ms is 5.5x, not the published 4.6x; throughput on means 20.5 -> 100.8 is 4.9x, not 4.0x."""
    base, sd = llama.arms
    assert base.metrics["time_per_output_token"].p50 == pytest.approx(0.0451, abs=5e-5)
    assert sd.metrics["time_per_output_token"].p50 == pytest.approx(0.00827, abs=5e-6)
    assert gains(llama)["time_per_output_token"] == pytest.approx(5.46, abs=0.01)
    assert gains(llama)["ttft"] == pytest.approx(2442 / 2255, rel=1e-3)
    assert said(llama, "20.5 to 100.8 tokens/s", "4.92×", "published 4.03×")
    assert llama.pairs[0].cases[0].verdict is Verdict.PAYS


def test_llama_says_what_its_authors_missed(llama: Comparison) -> None:
    assert said(llama, "base:", "1785 output tokens", "1500 at most (+19%)", "another tokenizer")
    assert said(llama, "counted differently", "cannot be compared")
    assert said(llama, "cold request", "153 s")
    assert said(llama, "quantization as well as", "4.71× at most", "without speculation to tell them apart")
    assert said(llama, "sd: one token more", "begin-of-sequence")
    assert llama.pairs[0].changes == ("speculation", "quantization")
    assert llama.answer.startswith("sd against base pays")


def test_what_is_not_in_the_files_is_not_shown(llama: Comparison) -> None:
    page = render_html(llama)
    assert "1970" not in page and "Distributions" not in page and "50 requests" in page
    arm = read_arm(TABLES / "llama-3.1-405b" / "base", name="base")
    assert arm.itl_formula == "neuron" and not said(llama, "LLMPerf's own"), "it was measured with the Neuron patch"


def test_qwen_says_that_99th_percentiles_are_the_best_and_the_worst_request(qwen: Comparison) -> None:
    assert said(qwen, "Only 99th percentiles", "best request (102.3 and 137.8 tokens/s published)", "worst")
    assert said(qwen, "base: 558 output tokens", "512 at most (+9%)")
    assert said(qwen, "sd: 565.37 output tokens", "(+10%)")
    assert not said(qwen, "quantization")


def test_qwen_gets_no_verdict_and_corrected_ratios(qwen: Comparison) -> None:
    found = gains(qwen)
    assert [arm.metrics["ttft"].p99 for arm in qwen.arms] == pytest.approx([0.0483, 0.0474], abs=5e-5)
    assert found["ttft"] == pytest.approx(48.28366 / 47.37630, rel=1e-4)
    assert found["request_output_throughput"] == pytest.approx(137.842 / 565.37 / (102.274 / 558), rel=1e-4)
    assert found["end_to_end_latency"] == pytest.approx(6.0449 / 5.6368, rel=1e-4)
    assert qwen.pairs[0].cases[0].verdict is Verdict.CANNOT_TELL
    assert "too few values for an interval" in qwen.answer


def changed(folder: Path, arm: str, file: str, change: dict[str, object]) -> None:
    (path,) = (folder / arm).glob(file)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    shutil.copytree(TABLES / "llama-3.1-405b", tmp_path / "llama")
    return tmp_path / "llama"


def test_arms_that_were_measured_otherwise_get_no_verdict_and_every_difference_is_listed(seeds: Path) -> None:
    changed(
        seeds, "sd", "*_summary.json", {"num_concurrent_requests": 4, "additional_sampling_params_temperature": 1.0}
    )
    found = compared(seeds)
    assert found.pairs[0].cases[0].verdict is Verdict.CANNOT_TELL
    assert said(found, "num_concurrent_requests is 1 and 4", "temperature is not said and 1.0", "model is /home")
    assert "num_concurrent_requests is 1 and 4" in found.answer


def test_a_first_token_after_the_end_is_reported(seeds: Path) -> None:
    changed(seeds, "sd", "*_summary.json", {f"results_ttft_s_{name}": 99.0 for name in ("mean", "quantiles_p50")})
    found = compared(seeds)
    assert said(found, "CONTRADICTION in the files of sd", "mean TTFT of 99 s is above the mean end-to-end latency")
    assert found.pairs[0].cases[0].verdict is Verdict.DISTRUST


def test_one_token_a_request_has_no_time_between_tokens(seeds: Path) -> None:
    for arm in ("base", "sd"):
        changed(seeds, arm, "*_summary.json", {"mean_output_tokens": 1})
    assert not any("time_per_output_token" in arm.metrics for arm in compared(seeds).arms)


def test_rows_that_the_summary_contradicts_are_reported(individual: Path) -> None:
    changed(individual / "stock", "sd", "*_summary.json", {"results_num_completed_requests": 11})
    changed(individual / "stock", "base", "*_summary.json", {"results_ttft_s_mean": 0.9, "results_ttft_s_max": 9.0})
    found = compared(individual / "stock")
    assert said(found, "files of sd", "counts 11 completed requests, the list of them has 12")
    assert said(found, "files of base", "the summary's mean ttft_s is 0.9, that of the requests 0.")
    assert said(found, "files of base", "(1 more of its statistics differ)")


def scaled(folder: Path, arm: str, factors: dict[str, float], statistics: tuple[str, ...]) -> None:
    (path,) = (folder / arm).glob("*_summary.json")
    document = json.loads(path.read_text())
    keys = {f"results_{field}_{name}": factor for field, factor in factors.items() for name in statistics}
    path.write_text(json.dumps(document | {key: document[key] * factor for key, factor in keys.items()}))


FASTER = {"request_output_throughput_token_per_s": 50.0, "end_to_end_latency_s": 1 / 50, "ttft_s": 1 / 50}
MIDDLE = ("quantiles_p25", "quantiles_p50", "quantiles_p75")
LOWER = ("min", *MIDDLE, "quantiles_p90", "quantiles_p95", "quantiles_p99", "max", "stddev")


@pytest.mark.parametrize(
    ("statistics", "told"),
    [
        (MIDDLE, "the min end_to_end_latency_s of 14.5205 is above its p25 of 0.29172"),
        (MIDDLE, "the p75 request_output_throughput_token_per_s of 5145.34 is above its p90 of 103.022"),
        (MIDDLE, "the p50 ttft_s of 0.0450992 is further from its mean of 2.25616 than its stddev"),
        (LOWER, "the mean end_to_end_latency_s of 14.8862 is above its max of 0.454337"),
        (LOWER, "the mean request_output_throughput_token_per_s of 101.221 is below its min of 3303.71"),
    ],
)
def test_statistics_that_no_requests_have_together_get_no_verdict(
    seeds: Path, statistics: tuple[str, ...], told: str
) -> None:
    """Percentiles 50 times faster with the means left alone: a headline of 239 times otherwise."""
    scaled(seeds, "sd", FASTER, statistics)
    found = compared(seeds)
    assert said(found, "CONTRADICTION in the files of sd", told)
    case = found.pairs[0].cases[0]
    assert case.verdict is Verdict.DISTRUST and case.headline is None and "not to be trusted" in found.answer


def test_the_published_files_contradict_themselves_nowhere(llama: Comparison, qwen: Comparison) -> None:
    assert not said(llama, "CONTRADICTION") and not said(qwen, "CONTRADICTION")


@pytest.mark.parametrize("statistic", ["quantiles_p50", "quantiles_p99", "min", "max"])
def test_every_statistic_is_held_against_the_rows(individual: Path, statistic: str) -> None:
    changed(individual / "stock", "sd", "*_summary.json", {f"results_end_to_end_latency_s_{statistic}": 0.7})
    found = compared(individual / "stock")
    assert said(
        found, "files of sd", f"{statistic.removeprefix('quantiles_')} end_to_end_latency_s is 0.7, that of the"
    )
    assert not said(found, "CONTRADICTION in the files of base")


@pytest.fixture
def individual(tmp_path: Path) -> Path:
    """Stock LLMPerf's files of two arms with individual responses; the second is 2x faster in chunks of 4 tokens."""
    rng = random.Random(4)
    for name, step, chunk in (("base", 0.02, 1), ("sd", 0.04, 4)):
        responses = []
        for _ in range(12):
            chunks = 200 // chunk
            e2e = 0.1 + step * chunks * rng.lognormvariate(0, 0.01)
            responses.append(
                {
                    "error_code": None,
                    "ttft_s": 0.1,
                    "end_to_end_latency_s": e2e,
                    "inter_token_latency_s": e2e / chunks,
                    "request_output_throughput_token_per_s": 230 / e2e,
                    "number_output_tokens": 230,
                    "number_input_tokens": 64,
                }
            )
        folder = tmp_path / "stock" / name
        folder.mkdir(parents=True)
        responses.append({"error_code": 500, "error_msg": "x", "ttft_s": 0})
        (folder / "m_64_200_individual_responses.json").write_text(json.dumps(responses))
        middle = sorted(r["end_to_end_latency_s"] for r in responses if r["error_code"] is None)[6]
        summary = {
            "model": "m",
            "mean_output_tokens": 200,
            "num_concurrent_requests": 1,
            "results_num_completed_requests": 12,
            "results_number_errors": 0,
            "results_number_output_tokens_quantiles_p50": 230.0,
            "results_ttft_s_quantiles_p50": 0.1,
            "results_end_to_end_latency_s_quantiles_p50": middle,
            "results_inter_token_latency_s_quantiles_p50": middle / (200 // chunk),
        }
        (folder / "m_64_200_summary.json").write_text(json.dumps(summary))
    return tmp_path


def test_stock_inter_token_latency_is_recognized_and_not_used(individual: Path) -> None:
    comparison = compared(individual / "stock", speculation=DRAFT)
    assert said(comparison, "base, sd:", "LLMPerf's own", "opposite of the truth")
    assert gains(comparison)["time_per_output_token"] == pytest.approx(2.0, rel=0.02), "by its own figure 0.5"
    case = comparison.pairs[0].cases[0]
    assert case.headline and case.headline.n == 24 and case.headline.low is not None
    assert case.verdict is Verdict.PAYS and case.headline.method.startswith("Welch")


def test_a_count_above_the_mean_is_no_other_tokenizers_where_lengths_varied(individual: Path, seeds: Path) -> None:
    """LLMPerf's default is --stddev-output-tokens 80."""
    for arm in ("base", "sd"):
        changed(individual / "stock", arm, "*_summary.json", {"stddev_output_tokens": 80})
    arm = read_arm(individual / "stock" / "base", name="base")
    assert (arm.max_tokens, arm.tokens, arm.total_tokens) == (230, 230, 230 * 12)
    assert not said(compared(individual / "stock"), "another tokenizer")
    changed(seeds, "base", "*_summary.json", {"stddev_output_tokens": 80, "results_number_output_tokens_max": 1900})
    assert read_arm(seeds / "base", name="base").max_tokens == 1900


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "tool that is read here; give the file that vllm bench serve"),
        ({"a_summary.json": "{}", "b_summary.json": "{}"}, "give one of these: a_summary.json, b_summary.json"),
        ({"a_summary.json": "{"}, "not JSON"),
        ({"a_summary.json": "[]"}, "tool that is read here, but no object; give the file that vllm bench serve"),
        ({"a_summary.json": '{"model": "m", "b": 1}'}, "but an object with model, b; give the file that vllm bench"),
        ({"a_summary.json": '{"results_x": 1}'}, "no LLMPerf summary, it lacks model, mean_output_tokens, num_con"),
    ],
)
def test_what_is_no_llmperf_result_is_refused_with_what_to_do(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ImportProblem, match=message):
        read_arm(tmp_path, name="base")


@pytest.mark.parametrize(("errors", "is_read"), [(100_000, True), (100_001, False), (-1, False)])
def test_failed_requests_are_counted_up_to_what_llmperf_sends(individual: Path, errors: int, is_read: bool) -> None:
    file = individual / "stock" / "base" / "m_64_200_summary.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"results_number_errors": errors}))
    if is_read:
        assert read_arm(file, name="base").errors == errors
    else:
        with pytest.raises(ImportProblem, match=rf"results_number_errors: must be .*, not {errors}"):
            read_arm(file, name="base")
