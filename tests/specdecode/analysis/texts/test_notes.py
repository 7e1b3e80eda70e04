"""Others' figures beside the measured ones, and which comparison is which."""

from __future__ import annotations

import pytest
from specdecode.analysis import compare
from specdecode.analysis.texts.decide import decided
from specdecode.analysis.texts.notes import published_notes, which_comparison
from specdecode.analysis.texts.recommend import recommendation
from specdecode.experiment import load_preset, preset_names
from specdecode.experiment.told import Published

from tests.specdecode.analysis.simulate import context, experiment, run

THEIRS = {"by": "AWS", "base": "base", "variant": "sd", "base_tokens_per_second": 184.44, "tokens_per_second": 288.63}


def notes(**figures: str) -> list[str]:
    tested = experiment()
    item = Published.model_validate(
        {**THEIRS, "case": tested.workload.cases[0].name, "source": "a tutorial", **figures}
    )
    tested = tested.model_copy(update={"published": (item,)})
    return published_notes(compare(experiment=tested, records=run(tested), context=context()))


def test_a_published_figure_is_laid_beside_the_measured_one() -> None:
    tested = experiment()
    comparison = compare(experiment=tested, records=run(tested), context=context())
    case = tested.workload.cases[0].name
    base, sd = (next(a for a in comparison.arms if (a.variant, a.case) == (name, case)) for name in ("base", "sd"))
    assert base.output_throughput and sd.output_throughput
    ours = f"{base.output_throughput:.1f} -> {sd.output_throughput:.1f} tok/s"
    said = notes(conditions="concurrency 2")[0]
    assert said.startswith(
        "AWS published 184.4 -> 288.6 tok/s (1.56×) for base -> sd, concurrency 2; you measured " + ours
    )
    assert said.endswith(f"on {case} (a tutorial).")
    assert "Your shape" not in said
    assert published_notes(comparison) == [], "nothing is laid beside a run of which nobody published"


def test_a_published_run_s_shape_is_said_and_where_this_one_is_another() -> None:
    """The simulated run is Qwen3-32B at TP 32 with 4 requests at a time."""
    same = notes(model="Qwen/Qwen3-32B", tensor_parallel_size="32", concurrency="4", conditions="sonnets")[0]
    assert "for base -> sd, Qwen/Qwen3-32B, TP 32, concurrency 4, sonnets; you measured" in same
    assert same.endswith("(a tutorial).")
    other = notes(model="openai/gpt-oss-120b", tensor_parallel_size="16", concurrency="1")[0]
    assert "openai/gpt-oss-120b, TP 16, concurrency 1; you measured" in other
    assert other.endswith("Your shape is another one: Qwen/Qwen3-32B, TP 32, 4 at a time.")
    assert notes(concurrency="1")[0].endswith("Your shape is another one: 4 at a time.")


def test_the_shipped_figures_are_of_their_presets_shape() -> None:
    for name in preset_names():
        tested = load_preset(name)
        for note in published_notes(compare(experiment=tested, records=[], context=context())):
            assert "TP " in note and "concurrency" in note and "Your shape" not in note, note


def test_the_first_sentence_names_its_baseline_and_the_second_the_one_as_deployed() -> None:
    """Or "pays" would be read as against what one serves without speculation."""
    tested = load_preset("llama-3.1-8b-eagle3")
    comparison = compare(experiment=tested, records=run(tested), context=context())
    first, second = comparison.answer.split(" Against base-async, as one would serve it without speculation, it ")
    assert first.startswith("Speculative decoding (sd) against base ") and second.startswith("pays on ")
    alone = compare(experiment=experiment(), records=run(experiment()), context=context()).answer
    assert alone.startswith("Speculative decoding pays on "), "one baseline needs no name"


def test_an_arm_without_a_figure_is_not_compared_with_a_published_one() -> None:
    assert "; not measured here (a tutorial)" in notes(variant="other")[0]


@pytest.mark.parametrize("preset", ["llama-3.1-8b-eagle3", "gpt-oss-120b-eagle3", "llama-3.1-8b-dflash"])
def test_two_baselines_are_told_apart(preset: str) -> None:
    (said,) = which_comparison(load_preset(preset))
    assert "sd against base differs in speculation;" in said
    assert "base against base-async differs in --async-scheduling: off against on" in said
    assert "sd against base-async differs in speculation and --async-scheduling: off against on" in said


def test_one_baseline_that_is_alike_needs_no_word() -> None:
    assert which_comparison(load_preset("qwen3-32b")) == []
    assert which_comparison(load_preset("rehearsal").model_copy(update={"engine": "gone"})) == []


def test_what_pays_against_a_baseline_that_is_alike_is_not_recommended_over_a_faster_one_as_deployed() -> None:
    """`base-async` is what one serves without speculation: a report that says "use sd" has to be of it too."""
    tested = load_preset("llama-3.1-8b-eagle3")
    slow = {(name, number): 1.5 for name in ("base", "sd") for number in (0, 1)}
    comparison = compare(experiment=tested, records=run(tested, slow=slow), context=context())
    said = recommendation(comparison) or ""
    assert decided(comparison).serve == "base-async"
    assert said.startswith("Keep base-async: sd (draft ") and ", but 0.8" in said, said


def test_a_recommended_arm_is_told_against_the_baseline_as_deployed_too() -> None:
    tested = load_preset("llama-3.1-8b-eagle3")
    comparison = compare(experiment=tested, records=run(tested), context=context())
    assert decided(comparison).serve == "sd"
    assert "; against base-async 1.2" in (recommendation(comparison) or "")
