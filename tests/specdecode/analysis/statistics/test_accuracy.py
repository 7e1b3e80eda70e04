"""Accuracy against the baseline, where lm-eval was run."""

import json
import math
import random

import pytest
from specdecode.analysis import compare, lm_eval_scores
from specdecode.analysis.report import render_html, render_markdown
from specdecode.analysis.results.run_context import Accuracy

from tests.specdecode.analysis.simulate import context, experiment, run


def score(variant: str, value: float, stderr: float | None = 0.05, task: str = "gsm8k") -> Accuracy:
    return Accuracy(variant=variant, task=task, metric="exact_match", value=value, stderr=stderr, samples=50)


def compared(*scores: Accuracy):
    tested = experiment()
    return compare(experiment=tested, records=run(tested), context=context(accuracy=scores))


def test_a_difference_within_the_noise_is_not_shown() -> None:
    (change,) = compared(score("base", 0.80), score("sd", 0.74)).accuracy
    reach = 1.959964 * math.hypot(0.05, 0.05)
    assert (change.low, change.change, change.high) == pytest.approx((-0.06 - reach, -0.06, -0.06 + reach))
    assert not change.shown


def test_of_many_scores_of_equal_arms_none_is_shown_to_be_worse_by_chance() -> None:
    """57 scores; of 56 equal ones the largest difference is 2.4 errors. A large loss in one of them is shown."""
    drawn, error = random.Random(3), math.hypot(0.05, 0.05)
    values = [0.7 + drawn.gauss(0.0, error) for _ in range(56)]
    pairs = [(score("base", 0.7, task=f"t{n}"), score("sd", value, task=f"t{n}")) for n, value in enumerate(values)]
    assert min(values) < 0.7 - 1.96 * error
    found = compared(*(each for pair in pairs for each in pair), score("base", 0.8), score("sd", 0.4)).accuracy
    assert [each.task for each in found if each.shown] == ["gsm8k"]


def test_a_loss_beyond_the_noise_is_shown_in_every_form() -> None:
    comparison = compared(score("base", 0.80), score("sd", 0.40))
    assert comparison.accuracy[0].shown
    page = render_html(comparison)
    assert "-0.400 (-0.539 to -0.261)" in page
    assert "worse" in page
    assert "-0.400 (-0.539 to -0.261)" in render_markdown(comparison)


def test_without_standard_errors_there_is_a_change_but_no_verdict() -> None:
    (change,) = compared(score("base", 0.80, None), score("sd", 0.40)).accuracy
    assert (change.low, change.high, change.shown) == (None, None, False)


def test_scores_of_one_arm_only_are_compared_with_nothing() -> None:
    assert compared(score("sd", 0.4), score("base", 0.5, task="mmlu")).accuracy == ()


def test_lm_evals_result_file_is_read() -> None:
    document = {
        "results": {
            "gsm8k": {
                "alias": "gsm8k",
                "exact_match,strict-match": 0.62,
                "exact_match_stderr,strict-match": 0.0693,
                "exact_match,flexible-extract": 0.70,
                "exact_match_stderr,flexible-extract": "N/A",
            },
            "hellaswag": {"acc,none": 0.5},
        },
        "n-samples": {"gsm8k": {"original": 1319, "effective": 50}},
    }
    strict, flexible, other = lm_eval_scores("sd", json.dumps(document).encode())
    assert (strict.task, strict.metric, strict.value, strict.stderr, strict.samples) == (
        "gsm8k",
        "exact_match (strict-match)",
        0.62,
        0.0693,
        50,
    )
    assert (flexible.metric, flexible.stderr) == ("exact_match (flexible-extract)", None)
    assert (other.task, other.metric, other.samples) == ("hellaswag", "acc", None)
    assert lm_eval_scores("sd", b"{}") == []
