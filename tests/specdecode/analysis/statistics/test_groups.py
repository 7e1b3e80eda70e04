"""A kind of prompts: its interval holds what varies between its prompt types, or it speaks of the measured ones."""

import math
import random
import re
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest
from specdecode.analysis import Comparison, Verdict, compare
from specdecode.experiment.workload import TestCase
from specdecode.records import RequestRecord

from tests.specdecode.analysis.simulate import context, experiment, request, run

BASE = experiment().workload.cases[0]


def cases(count: int, *, structured: bool = True) -> tuple[TestCase, ...]:
    return tuple(
        BASE.model_copy(update={"name": f"t{n}", "label": f"t{n}", "structured": structured}) for n in range(count)
    )


def asked(
    arms: Iterable[str],
    how: Callable[[str, str, int], dict[str, Any]],
    *,
    each: int = 8,
    types: Iterable[str] = ("repeat", "sonnet"),
) -> list[RequestRecord]:
    """Requests of every arm and type of prompts; `how`: arm, type and number -> what is special about one."""
    rng = random.Random(1)
    every = product(types, arms, range(each))
    return [request(variant=v, case=c, index=i, rng=rng, **how(v, c, i)) for c, v, i in every]


def measured(gains: list[float]) -> Comparison:
    """The second arm is `gains[n]` times as fast on prompt type n."""
    tested = experiment(cases=cases(len(gains)), requests=8)

    def how(variant: str, case: str, index: int) -> dict[str, Any]:
        return {"tokens": 20, "noise": 0.003, "slow": 1 / gains[int(case[1:])] if variant == "sd" else 1.0}

    records = asked(("base", "sd"), how, types=[f"t{n}" for n in range(len(gains))])
    return compare(experiment=tested, records=records, context=context())


def test_two_types_that_differ_have_a_range_and_no_interval_that_holds_neither() -> None:
    """Timing within a type is steady to a part of a per cent; a mean of both with such an interval would be a lie."""
    comparison = measured([3.03, 2.00])
    found = comparison.pairs[0].group("structured")
    assert found is not None and found.headline is not None and found.range is not None
    assert (found.headline.low, found.headline.high, found.next) == (None, None, None)
    assert (found.range.low, found.range.high) == pytest.approx((2.00, 3.03), rel=0.01)
    assert found.verdict is Verdict.PAYS
    assert "pays on all 2 structured prompt types measured: 2.00× to 3.03×" in comparison.answer


def test_five_types_say_what_to_expect_of_the_next() -> None:
    gains = [1.5, 1.8, 2.1, 1.6, 2.4]
    comparison = measured(gains)
    found = comparison.pairs[0].group("structured")
    assert found is not None and found.headline is not None and found.next is not None
    assert found.headline.ratio == pytest.approx(math.exp(sum(map(math.log, gains)) / 5), rel=0.01)
    assert found.headline.low is not None and found.headline.low < 1.6 and found.headline.high is not None
    assert found.next[0] < found.headline.low and found.next[1] > found.headline.high
    assert "over 5 prompt types, 1.50× to 2.39×; a further type probably" in comparison.answer


def test_types_that_contradict_each_other_are_mixed_however_many_they_are() -> None:
    comparison = measured([0.8, 2.0, 2.1, 1.9, 2.2])
    found = comparison.pairs[0].group("structured")
    assert found is not None and found.verdict is Verdict.MIXED
    assert "differs between the 5 structured prompt types measured: costs on t0 (0.80×)" in comparison.answer


def test_a_kind_whose_cases_all_failed_stays_and_says_so() -> None:
    tested = experiment(requests=4)
    records = asked(("base", "sd"), lambda v, c, i: {"failed": (v, c) == ("sd", "sonnet")}, each=4)
    comparison = compare(experiment=tested, records=records, context=context())
    found = comparison.pairs[0].group("open-ended")
    assert found is not None and found.verdict is Verdict.CANNOT_TELL and found.judged == ()
    assert (
        "cannot be judged on the open-ended prompts measured (sonnet): 4 of 4 requests of sd failed"
        in comparison.answer
    )
    assert "Not in this answer: 4 of 4 requests of sd failed in sonnet." in comparison.answer
    assert [failure.case for failure in comparison.context.failures] == ["sonnet"]


def test_an_arm_that_was_not_measured_is_in_the_headline() -> None:
    tested = experiment(ks=(3, 7))
    records = asked(("base", "sd-k3"), lambda v, c, i: {"k": 3 if v != "base" else 0, "acceptance": 0.9})
    answer = compare(experiment=tested, records=records, context=context()).answer
    assert answer.endswith("Not in this answer: sd-k7 was not measured.")


def test_answers_that_differ_from_the_first_token_on_qualify_the_verdict() -> None:
    tested = experiment(requests=8)

    def told(output: str) -> Comparison:
        def how(variant: str, case: str, index: int) -> dict[str, Any]:
            speculates = variant == "sd"
            begins = output if speculates else "The same text."
            return {"slow": 1 / 1.86 if speculates else 1.0, "output": begins + " and so on" * 20}

        return compare(experiment=tested, records=asked(("base", "sd"), how), context=context())

    apart = told("Another text.")
    said = "the answers differ from the first token on in 16 of 16 pairs: the arms do not do the same work"
    assert said in apart.answer and "do not trust" in (apart.recommendation or "").lower()
    assert "differ from the first" not in told("The same words.").answer


THEN = dict.fromkeys(range(8), "<think>\nThen this.")


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (THEN, "But the answers differ in 16 of 16 pairs: rounding can do that"),
        ({i: THEN[i] for i in range(5)}, "But the answers differ in 10 of 16 pairs: rounding"),
        ({i: THEN[i] for i in range(4)}, None),
        (THEN | {0: "Other"}, "in 16 of 16 pairs, in 2 of them from the first"),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_answers_that_begin_alike_and_differ_qualify_the_verdict_too(
    other: dict[int, str], says: str | None, temperature: float
) -> None:
    """Every answer of a thinking model begins with <think>; more than half of the pairs must differ."""
    tested = experiment(requests=8)
    workload = tested.workload.model_copy(update={"temperature": temperature})
    first = "<think>\nFirst this."

    def how(variant: str, case: str, index: int) -> dict[str, Any]:
        speculates = variant == "sd"
        begins = other.get(index, first) if speculates else first
        return {"slow": 1 / 1.86 if speculates else 1.0, "output": begins + " Then" * 40}

    records = asked(("base", "sd"), how)
    found = compare(experiment=tested.model_copy(update={"workload": workload}), records=records, context=context())
    for text in (found.answer, found.recommendation or ""):
        assert ("answers differ" in text) == (says is not None and temperature == 0)
    if says and temperature == 0:
        assert says in found.answer


def test_one_recommendation_names_arm_gain_and_cost() -> None:
    tested = experiment(ks=(3, 7))
    step = {"base": 0.02, "sd-k3": 0.012, "sd-k7": 0.009}
    records = asked(
        step, lambda v, c, i: {"step_s": step[v], "sent_s": i * (9.0 if v == "sd-k7" else 3.0), "noise": 0.01}
    )
    found = compare(experiment=tested, records=records, context=context()).recommendation
    assert found is not None
    assert found.startswith("Use sd-k7 (draft Qwen/Qwen3-1.7B, k=7): 2.")
    assert "per million output tokens of all their requests against $" in found
    assert "sd-k3" not in found, "each arm's cost has a table: none is praised for it that may not be one to use"
    same = measured([1.0]).recommendation
    assert same is not None
    assert same.startswith(
        "Keep base: sd (draft Qwen/Qwen3-1.7B, k=7) makes no relevant difference (1.00× over the one prompt type"
    )


def test_what_is_kept_says_what_is_known_and_what_would_settle_the_rest() -> None:
    """A noisy run: nothing is claimed of the arm that the run did not show, and each open case has its way out."""
    tested = experiment()
    noisy = run(tested, acceptance={"repeat": 0.5, "sonnet": 0.55}, noise=0.5)
    found = compare(experiment=tested, records=noisy, context=context()).recommendation
    assert found is not None
    assert found.startswith(
        "Keep base for now, and measure more: this run cannot tell whether sd (draft Qwen/Qwen3-1.7B, k=7) is faster"
    )
    assert re.search(r"Not known on: repeat \(0\.\d+×, 0\.\d+–1\.\d+\), settled by about \d+ requests", found)
    mixed = run(tested, acceptance={"repeat": 0.9, "sonnet": 0.45})
    used = compare(experiment=tested, records=mixed, context=context()).recommendation
    assert used is not None and used.startswith("Use sd") and "It costs on sonnet (0.9" in used


def test_types_that_pay_are_not_kept_back_by_others_that_cannot_be_told() -> None:
    """The spread over types is too wide for a verdict on the next type; of the measured ones the answer is known."""
    found = measured([4.0, 3.0, 1.2, 1.0, 1.0])
    total = found.pairs[0].group("all")
    assert total is not None and total.headline and total.headline.low and total.headline.low < 1
    assert total.verdict is Verdict.PAYS
    assert found.recommendation is not None and found.recommendation.startswith("Use sd")
