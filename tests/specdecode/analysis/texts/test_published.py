"""Others' figures beside the measured ones: each of the three verdicts, and why."""

from typing import Any, get_args

import pytest
from specdecode.analysis import compare
from specdecode.analysis.report import render_markdown, render_terminal
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.texts.published import BY_NAME, WITHIN, Judged, beside, in_short
from specdecode.experiment import load_preset, preset_names
from specdecode.experiment.effective import WORKERS
from specdecode.experiment.told import Figure, Published
from specdecode.experiment.workload import PromptKind

from tests.specdecode.analysis.simulate import context, experiment, run

CASE = experiment().workload.cases[0].name
MEASURED = compare(experiment=experiment(), records=run(experiment()), context=context())
"""Qwen3-32B at TP 32 with 4 requests at a time, 8 requests a type."""
ANSWERS = round(MEASURED.arms[0].output_tokens / MEASURED.arms[0].completed)


def measured(name: str, metric: str, statistic: str) -> float:
    arm = MEASURED.arm(name, CASE)
    assert arm
    value = arm.totals.get(metric, 1.0) if statistic == "all" else getattr(arm.metrics[metric], statistic)
    assert value
    return float(value)


def laid(metric: str, statistic: str = "all", *, base: float = 1.0, sd: float = 1.0, **given: Any) -> Comparison:
    """A run beside a figure that is published as `base` and `sd` times the measured ones."""
    theirs = (base * measured("base", metric, statistic), sd * measured("sd", metric, statistic))
    document = {"by": "AWS", "base": "base", "variant": "sd", "source": "a tutorial",
                "figures": {CASE: {metric: {statistic: theirs}}}, **given}  # fmt: skip
    tested = experiment().model_copy(update={"published": (Published.model_validate(document),)})
    return MEASURED.model_copy(update={"experiment": tested})


@pytest.mark.parametrize(
    ("comparison", "judged", "why"),
    [
        (laid("output_throughput"), Judged.REPRODUCED, ""),
        (laid("output_throughput", base=1 + 0.9 * WITHIN, sd=1 + 0.9 * WITHIN), Judged.REPRODUCED, ""),
        (laid("ttft", "p50", base=0.8, sd=0.8), Judged.NOT, "base +25%, sd +25%"),
        (laid("time_per_output_token", "mean", sd=0.8), Judged.NOT, "the change +25%, sd +25%"),
        (laid("acceptance_rate"), Judged.NOT_COMPARABLE, "not measured here"),
        (laid("ttft", "p90"), Judged.NOT_COMPARABLE, "p90 of 8 requests is the value of one request"),
        (laid("ttft", "max"), Judged.NOT_COMPARABLE, "max of 8 requests is the value of one request"),
        (laid("ttft", "p75"), Judged.REPRODUCED, ""),
        (laid("ttft", "p50", variant="other"), Judged.NOT_COMPARABLE, "not measured here"),
        (
            laid("ttft", "p50", num_speculative_tokens=5, concurrency=1, engine="a vLLM of 2024"),
            Judged.NOT_COMPARABLE,
            "k 5 there, 7 here; engine a vLLM of 2024 there, rehearsal-cpu here; requests at a time 1 there, 4 here",
        ),
        (laid("ttft", "p50", temperature=0.7), Judged.NOT_COMPARABLE, "temperature 0.7 there, 0 here"),
        (
            laid("ttft", "p50", input_tokens=128, output_tokens=300),
            Judged.NOT_COMPARABLE,
            f"input tokens 128 there, 64 here; output tokens 300 there, {ANSWERS} here",
        ),
        (laid("ttft", "p50", input_tokens=60, output_tokens=ANSWERS + 1), Judged.REPRODUCED, ""),
        (
            laid("ttft", "p50", model="Qwen/Qwen3-32B", tensor_parallel_size=32, num_speculative_tokens=7,
                 temperature=0.0, draft="Qwen/Qwen3-1.7B"),
            Judged.REPRODUCED,
            "",
        ),
    ],
)  # fmt: skip
def test_a_published_figure_is_judged(comparison: Comparison, judged: Judged, why: str) -> None:
    (found,) = beside(comparison)
    assert (found.judged, found.why) == (judged, why)


def test_every_form_of_the_report_has_each_figure_and_its_verdict() -> None:
    comparison = laid("ttft", "p50", sd=0.5, conditions="sonnets")
    (found,) = beside(comparison)
    for text in (render_markdown(comparison).replace("\\", ""), render_terminal(comparison, width=400)):
        assert found.ours in text and found.theirs in text and "not reproduced" in text
        assert f"AWS, base -> sd on {CASE}: no conditions; not compared: sonnets (a tutorial)." in text
    for width in (80, 120, 200):
        screen = render_terminal(comparison, brief=True, width=width)
        assert f"{found.what}  not reproduced" in screen and in_short([found]) in " ".join(screen.split())
    assert beside(MEASURED) == [], "nothing is laid beside a run of which nobody published"


def test_only_a_change_is_shown_as_one() -> None:
    ratio = measured("sd", "ttft", "p50") / measured("base", "ttft", "p50")
    document = {"by": "AWS", "base": "base", "variant": "sd", "source": "x", "relative": True,
                "figures": {CASE: {"ttft": {"p50": [1.0, ratio * 1.05]}}}}  # fmt: skip
    tested = experiment().model_copy(update={"published": (Published.model_validate(document),)})
    (found,) = beside(MEASURED.model_copy(update={"experiment": tested}))
    assert found.judged is Judged.REPRODUCED and "->" not in found.theirs


def test_what_the_run_cannot_know_is_not_compared_and_said() -> None:
    comparison = laid("ttft", "p50", input_tokens=9)
    load = comparison.experiment.workload
    texts = tuple(case.model_copy(update={"kind": PromptKind.TEXT}) for case in load.cases)
    changed = comparison.experiment.model_copy(update={"workload": load.model_copy(update={"cases": texts})})
    (found,) = beside(comparison.model_copy(update={"experiment": changed}))
    assert (found.judged, found.why) == (Judged.REPRODUCED, "not known here, so not compared: input tokens")


def test_unpinned_workers_are_a_possible_reason() -> None:
    slow = laid("ttft", "p50", sd=0.5)
    versions = {WORKERS: "not pinned (a variable)"}
    (found,) = beside(slow.model_copy(update={"context": context().model_copy(update={"versions": versions})}))
    assert "CPUs of the workers: not pinned (a variable)" in found.why


def test_the_shipped_figures_are_of_their_presets() -> None:
    """But for what a preset does otherwise on purpose, with its comment."""
    assert set(get_args(Figure)) <= BY_NAME.keys()
    shipped = {name: load_preset(name) for name in preset_names()}
    with_figures = {name for name, tested in shipped.items() if tested.published}
    assert with_figures == {"gpt-oss-120b-eagle3", "llama-3.1-405b", "llama-3.1-8b-dflash", "llama-3.1-8b-eagle3",
                            "qwen3-32b", "qwen3-32b-latency", "qwen3-32b-tuning"}  # fmt: skip
    for name in with_figures:
        tested = shipped[name]
        arms, cases = ({each.name for each in tested.variants}, {case.name for case in tested.workload.cases})
        for item in tested.published:
            assert {item.base, item.variant} <= arms and item.figures.keys() <= cases, (name, item)
        empty = compare(experiment=tested, records=[], context=context())
        reasons = {each.why for each in beside(empty)}
        other = "engine inference_demo and a vLLM of 2024 there, 0.9.1-sdk2.26.1 here; "
        assert reasons == {(other if name == "llama-3.1-405b" else "") + "not measured here"}, name
