"""Which comparison is which."""

import pytest
from specdecode.analysis.texts.decide import decided
from specdecode.analysis.texts.notes import which_comparison
from specdecode.analysis.texts.recommend import recommendation
from specdecode.experiment import load_preset

from tests.specdecode.analysis.simulate import simulated


def test_the_first_sentence_names_its_baseline_and_the_second_the_one_as_deployed() -> None:
    """Or "pays" would be read as against what one serves without speculation."""
    tested = load_preset("llama-3.1-8b-eagle3")
    first, second = simulated(tested=tested).answer.split(" sd against base-async ")
    assert first.startswith("sd against base pays on ") and second.startswith("pays on ")


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
    slow = {(name, number): 1.5 for name in ("base", "sd") for number in (0, 1)}
    comparison = simulated(tested=load_preset("llama-3.1-8b-eagle3"), slow=slow)
    said = recommendation(comparison) or ""
    assert decided(comparison).serve == "base-async"
    assert said.startswith("Keep base-async: sd (draft ") and ", but 0.8" in said, said


def test_a_recommended_arm_is_told_against_the_baseline_as_deployed_too() -> None:
    comparison = simulated(tested=load_preset("llama-3.1-8b-eagle3"))
    assert decided(comparison).serve == "sd"
    assert "; against base-async 1.2" in (recommendation(comparison) or "")
