"""The decision: the fastest arm that is to be used, by one measure for all arms, and nothing that says otherwise."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from specdecode.analysis import Comparison, compare, lm_eval_scores
from specdecode.analysis.datums import metric_data
from specdecode.analysis.report import render_html, render_markdown, render_terminal, write_report
from specdecode.analysis.results.pairs import HEADLINE, Action, Verdict
from specdecode.analysis.results.run_context import Accuracy
from specdecode.analysis.statistics.verdict import estimate
from specdecode.analysis.texts.decide import decided, fastest, of_all
from specdecode.analysis.texts.recommend import doubts, headline
from specdecode.experiment.workload import PromptKind, TestCase
from specdecode.measures.student import LogMean
from specdecode.records import ErrorKind, RequestError, RequestRecord

from benchmarks.recommendation import pairs
from tests.specdecode.analysis.simulate import context, experiment, request, write_raw
from tests.specdecode.cli.calling import call

NOTHING = "makes no relevant difference"


def none(_: RequestRecord) -> bool:
    return False


def report(
    speeds: dict[str, float],
    *,
    levels: tuple[int, ...] = (4,),
    types: int = 2,
    scores: dict[str, float] | None = None,
    folder: Path | None = None,
    faster: Mapping[str, float] | None = None,
    slower_from: int = 1000,
    ks: tuple[int, ...] = (5,),
    two_roots: bool = False,
    lacks: Callable[[RequestRecord], bool] = none,
    fails: Callable[[RequestRecord], bool] = none,
) -> Comparison:
    """Arms of such speeds: `sd` is compared with `base`, `sd8` with `base8`, and that with `base`, if it is no root.
    From the load `slower_from` on, arms with a draft have half of their speed; from the load 4 on arms in `faster` the
    speed there. `scores`: of gsm8k, each with an error
    of 0.01. `lacks`, `fails`: requests that are not there, and those that fail.
    """
    cases = tuple(
        TestCase(name=f"t{n}", label=f"t{n}", kind=PromptKind.LINE, text=f"{n}", structured=not n % 2)
        for n in range(types)
    )
    tested = experiment(ks=ks, requests=8, cases=cases)
    base, sd, *more = tested.variants
    root = None if two_roots else "base"
    base8 = base.model_copy(update={"name": "base8", "label": "B8", "compare_to": root, "quantization": "fp8"})
    sd8 = sd.model_copy(update={"name": "sd8", "label": "SD8", "compare_to": "base8", "quantization": "fp8"})
    arms = tuple(each for each in (base, sd, *more, base8, sd8) if each.name in speeds)
    workload = tested.workload.model_copy(update={"concurrency": levels, "output_tokens": 40})
    tested, rng = tested.model_copy(update={"workload": workload, "variants": arms}), random.Random(1)
    records, clock, late = [], 0.0, {**speeds, **(faster or {})}
    for case in cases:
        for level in workload.levels:
            for arm in arms:
                half = 2.0 if arm.speculation and level.value >= slower_from else 1.0
                slow = half / (late if level.value >= 4 else speeds)[arm.name]
                for index in range(workload.requests_of(case, level)):
                    made = request(variant=arm.name, case=case.name, index=index, rng=rng, sent_s=clock, tokens=40,
                                   noise=0.02, slow=slow)  # fmt: skip
                    clock += made.end_s
                    records.append(made.model_copy(update={"level": level.name}))
    broken = RequestError(kind=ErrorKind.RESET, message="reset")
    records = [
        each.model_copy(update={"error": broken, "completion_tokens": None}) if fails(each) else each
        for each in records
        if not lacks(each)
    ]
    known = tuple(
        Accuracy(variant=name, task="gsm8k", metric="exact_match", value=value, stderr=0.01)
        for name, value in (scores or {}).items()
    )
    found = compare(experiment=tested, records=records, context=context(accuracy=known))
    if folder:
        write_report(found, folder)
        write_raw(folder, records)
    return found


@pytest.mark.parametrize(
    ("speeds", "serves", "action"),
    [
        ({"base8": 0.6, "sd8": 0.95, "sd": 1.3}, "sd", Action.USE),
        ({"base8": 0.6, "sd8": 1.2, "sd": 1.8}, "sd", Action.USE),
        ({"base8": 1.3, "sd8": 2.2, "sd": 1.8}, "sd8", Action.USE),
        ({"base8": 2.0, "sd8": 1.8, "sd": 1.3}, "base8", Action.USE),
        ({"base8": 0.6, "sd8": 0.9}, "base", Action.KEEP),
        ({"base8": 0.8, "sd8": 0.7}, "base", Action.KEEP),
    ],
)
def test_the_fastest_arm_over_the_first_baseline_is_served(
    speeds: dict[str, float], serves: str, action: Action
) -> None:
    """An arm's gain over a slow baseline of its own is none to serve; what fails there does not hide what pays."""
    found = report({"base": 1.0, **speeds})
    assert (decided(found).action, decided(found).serve) == (action, serves)
    said = found.recommendation or ""
    assert said.startswith(f"Use {serves}" if action is Action.USE else f"Keep {serves}: sd8 ("), said


def test_over_the_load_a_chain_is_held_against_its_first_baseline() -> None:
    """sd8 is 1.5 times as fast as base8 at every load, and slower than what one would serve without it."""
    found = report({"base": 1.0, "base8": 0.6, "sd8": 0.9}, levels=(1, 4))
    assert headline(found) == "sd8 is slower than base at every load measured, up to 4 at a time."
    assert decided(found).serve == "base"
    own = {(each.baseline, each.load): each.action for each in decided(found).findings
           if (each.variant, each.group) == ("sd8", "all")}  # fmt: skip
    assert own == {("base8", "c1"): Action.USE, ("base8", "c4"): Action.USE,
                   ("base", "c1"): Action.KEEP, ("base", "c4"): Action.KEEP}  # fmt: skip
    page = render_markdown(found)
    assert "### sd8 over the load" in page and "### sd8 against base over the load" in page
    data = [str(each["Dimensions"]) for each in metric_data(found) if each["MetricName"] == "Speedup"]
    over = [each for each in data if "'Load'" in each]
    assert len(over) == 4 == len({*over}), "of an arm at a load: over its own baseline"


def test_of_two_first_baselines_the_arms_of_the_faster_one_are_decided_about() -> None:
    """No figure of one run links them but their tokens a second."""
    found = report({"base": 1.0, "sd": 1.5, "base8": 0.5, "sd8": 0.9}, two_roots=True)
    assert decided(found).serve == "sd"
    assert decided(report({"base": 0.5, "sd": 0.9, "base8": 1.0, "sd8": 0.9}, two_roots=True)).serve == "base8"


def test_an_arm_whose_first_baseline_was_not_measured_is_not_used() -> None:
    """sd8 is 1.5 times as fast as base8, which may be slower than what one would serve."""
    speeds = {"base": 1.0, "sd": 1.3, "base8": 0.6, "sd8": 0.9}
    found = report(speeds, lacks=lambda each: each.variant == "base")
    assert (decided(found).action, decided(found).serve) == (Action.MEASURE, None)
    assert (found.recommendation or "").startswith(
        "Keep base for now, and measure more: nothing is known of sd8 against"
    )
    assert (
        "base was not measured" in found.answer and "sd was not compared, since base was not measured" in found.answer
    )
    between = report({**speeds, "sd8": 2.0}, lacks=lambda each: each.variant == "base8")
    assert decided(between).serve == "sd"
    assert "sd8 was not compared, since base8 was not measured" in between.answer


@pytest.mark.parametrize("types", [2, 3, 6])
def test_what_lies_within_5_percent_is_no_reason_to_speculate(types: int) -> None:
    """Whether or not the interval contains 1, at any number of prompt types and at any load."""
    found = report({"base": 1.0, "sd": 1.025}, levels=(1, 2, 4), types=types)
    over = [each for each in decided(found).findings if each.group == "all"]
    assert len(over) == 3 and all(each.speedup and each.speedup.low and each.speedup.low > 1 for each in over[:1])
    for each in over:
        within = each.speedup and each.speedup.low and each.speedup.high and each.speedup.high < 1.05
        assert (each.verdict is Verdict.NO_DIFFERENCE) == bool(within), each
    assert decided(found).serve == "base" and NOTHING in (found.recommendation or "")
    assert NOTHING in headline(found) and "Speculate at" not in found.answer


def test_a_loss_within_5_percent_is_none() -> None:
    found = report({"base": 1.0, "sd": 0.975}, types=3)
    assert decided(found).findings[0].verdict is Verdict.NO_DIFFERENCE
    assert NOTHING in (found.recommendation or "") and "slower" not in (found.recommendation or "")


def test_types_that_contradict_each_other_are_mixed_and_not_alike() -> None:
    (mixed,) = pairs([[LogMean(0.2, 0.01**2, 19.0, 20), LogMean(-0.18, 0.01**2, 19.0, 20)]])
    assert of_all(mixed) == (Verdict.MIXED, "")
    (alike,) = pairs([[LogMean(0.03, 0.012**2, 19.0, 20), LogMean(0.02, 0.012**2, 19.0, 20)]])
    assert alike.among and alike.among.faster and of_all(alike) == (Verdict.NO_DIFFERENCE, "")


def test_speculate_is_said_where_the_decision_says_use() -> None:
    """At the first load nothing is shown of any type by itself; at the others the interval is all that is asked for."""
    found = report({"base": 1.0, "sd": 1.5}, levels=(1, 2, 4, 8), slower_from=4)
    assert headline(found).startswith("Speculate below ")
    unsure = tuple(
        each.model_copy(update={"verdict": Verdict.CANNOT_TELL, "action": Action.MEASURE})
        if (each.group, each.load) == ("all", "c1")
        else each
        for each in decided(found).findings
    )
    told = found.model_copy(update={"decision": decided(found).model_copy(update={"findings": unsure})})
    assert "; at 1 at a time neither arm is shown to be faster" in headline(told)


def test_an_arm_that_is_shown_to_answer_worse_is_not_served(tmp_path: Path) -> None:
    found = report({"base": 1.0, "sd": 3.0}, scores={"base": 0.9, "sd": 0.55}, folder=tmp_path)
    assert (decided(found).action, decided(found).serve) == (Action.KEEP, "base")
    assert {each.action for each in decided(found).findings} == {Action.KEEP}
    said = "is shown to answer worse than base in gsm8k"
    assert said in (found.recommendation or "") and said in headline(found) and "Use sd" not in found.json_document()
    worst = "Shown to answer worse: sd than base (gsm8k exact_match 0.900 to 0.550)."
    assert doubts(found)[0] == worst
    terminal, markdown, page = render_terminal(found, width=1000), render_markdown(found), render_html(found)
    assert said in terminal.splitlines()[0] and f"but: {worst}" in terminal
    assert worst in markdown.replace("\\", "") and said in markdown and worst in page
    assert said in call("winner", tmp_path, code=1).output


def test_another_arm_is_used_in_place_of_one_that_answers_worse() -> None:
    speeds = {"base": 1.0, "base8": 1.4, "sd8": 3.0, "sd": 2.0}
    found = report(speeds, scores={"base": 0.9, "base8": 0.6, "sd8": 0.6, "sd": 0.9})
    assert decided(found).serve == "sd", "sd8 answers as base8 does, and worse than what one would serve without it"
    assert doubts(found)[0].startswith("Shown to answer worse: base8 than base (")
    assert decided(report(speeds, scores={"base": 0.9, "sd8": 0.89, "sd": 0.9})).serve == "sd8"
    alone = report({"base": 1.0, "base8": 1.1, "sd8": 3.0}, scores={"base": 0.9, "base8": 0.6, "sd8": 0.6})
    assert (decided(alone).action, decided(alone).serve) == (Action.KEEP, "base")
    assert (alone.recommendation or "").startswith("Keep base: sd8 (")
    assert "of base, and is shown to answer worse than base in gsm8k." in (alone.recommendation or "")


@pytest.mark.parametrize("levels", [(4,), (1, 4)])
def test_an_arm_that_answers_worse_is_not_advised_at_any_load(levels: tuple[int, ...]) -> None:
    found = report({"base": 1.0, "sd": 3.0}, scores={"base": 0.9, "sd": 0.55}, levels=levels)
    assert "is shown to answer worse" in headline(found) and "Speculat" not in found.answer + headline(found)


def test_a_smaller_perplexity_is_no_loss() -> None:
    """lm-eval says of each metric whether a larger one is better (its evaluator: `higher_is_better`)."""
    document = b"""{"results": {"wikitext": {"word_perplexity,none": %s, "word_perplexity_stderr,none": 0.1}},
        "higher_is_better": {"wikitext": {"word_perplexity": false}, "gsm8k": {"exact_match": null}}}"""
    for after, lost in ((8.0, False), (12.0, True)):
        scores = [score for name, value in (("base", 10.0), ("sd", after))
                  for score in lm_eval_scores(name, document % str(value).encode())]  # fmt: skip
        tested = experiment()
        records = [request(variant=arm.name, case=case.name, index=n, rng=random.Random(n), slow=1 + n / 50)
                   for arm in tested.variants for case in tested.workload.cases for n in range(8)]  # fmt: skip
        found = compare(experiment=tested, records=records, context=context(accuracy=tuple(scores)))
        (change,) = found.accuracy
        assert (change.shown, change.worse) == (True, lost)
        assert (" worse |" in render_markdown(found)) == lost


@pytest.mark.parametrize("how", ["lacks", "fails"])
def test_an_arm_that_is_not_known_on_a_prompt_type_is_not_used_for_its_gain_on_the_others(how: str) -> None:
    """Its mean is over other prompts than that of an arm which has them all, and a gate does not pass it."""

    def out(record: RequestRecord) -> bool:
        fast = record.variant in ("sd", "sd-k5")
        return fast and record.case != "t0" and (how == "lacks" or record.index % 2 == 0)

    speeds = {"base": 1.0, "sd-k3": 1.6, "sd-k5": 3.0}
    found = report(speeds, types=3, ks=(3, 5), levels=(1, 4), lacks=out if how == "lacks" else none,
                   fails=out if how == "fails" else none)  # fmt: skip
    assert (decided(found).action, decided(found).serve) == (Action.USE, "sd-k3")
    of_other = [each for each in decided(found).findings if (each.variant, each.group) == ("sd-k5", "all")]
    assert [each.action for each in of_other] == [Action.MEASURE] * 2
    assert all("sd-k5" in each.why and each.why.startswith("t1: ") for each in of_other)
    alone = report({"base": 1.0, "sd": 3.0}, types=3, lacks=out if how == "lacks" else none,
                   fails=out if how == "fails" else none)  # fmt: skip
    assert (decided(alone).action, decided(alone).serve) == (Action.MEASURE, None)
    assert (alone.recommendation or "").startswith("Keep base for now, and measure more: t1: ")


@pytest.mark.parametrize(
    ("speeds", "later", "said"),
    [
        ((0.8, 0.9), {"sd-k3": 1.4}, "sd-k5 is slower than base at every load measured, up to 8 at a time."),
        (
            (0.8, 1.02),
            {"sd-k3": 1.3, "sd-k5": 1.01},
            "sd-k5 makes no relevant difference at 1 at a time; at 4, 8 at a time that is not known.",
        ),
    ],
)
def test_an_arm_that_is_faster_at_a_later_load_is_in_the_headline(
    speeds: tuple[float, float], later: dict[str, float], said: str
) -> None:
    """The decision is about the fastest arm at the first load."""
    k3, k5 = speeds
    found = report({"base": 1.0, "sd-k3": k3, "sd-k5": k5}, ks=(3, 5), levels=(1, 4, 8), faster=later)
    assert decided(found).variant == "sd-k5"
    assert headline(found) == f"{said} But sd-k3 is faster at 4, 8 at a time."
    assert "peculat" not in headline(found) and "But sd-k3 is faster at 4, 8 at a time." in found.answer


def test_what_some_loads_lack_is_told() -> None:
    """An arm that lacks the first load, and a prompt type that one arm lacks at one load, are in no curve."""
    speeds = {"base": 1.0, "sd-k3": 1.4, "sd-k5": 0.9}
    late = report(speeds, ks=(3, 5), levels=(1, 4, 8), lacks=lambda each: (each.variant, each.level) == ("sd-k3", "c1"))
    assert headline(late) == "sd-k5 is slower than base at every load measured, up to 8 at a time."
    assert "The arm sd-k3 was not measured at 1 at a time: this report has no figure of it there." in late.notes
    part = report({"base": 1.0, "sd": 1.4}, levels=(1, 4, 8), types=3,
                  lacks=lambda each: (each.variant, each.level, each.case) == ("sd", "c4", "t1"))  # fmt: skip
    assert headline(part) == "Speculation is faster at 1, 8 at a time; at 4 at a time that is not known."
    assert "That is without t1, which could not be compared at every load." in part.answer


def test_arms_are_ranked_over_the_prompt_types_that_all_of_them_have() -> None:
    """A few failed requests leave their type out of an arm's figures: here the type on which both gain least."""
    found = report({"base": 1.0, "sd-k3": 1.6, "sd-k5": 1.5}, ks=(3, 5), types=3,
                   fails=lambda each: (each.variant, each.case, each.index) == ("sd-k5", "t1", 0))  # fmt: skip
    k3, k5 = found.pairs
    assert [case.comparable for case in k5.cases] == [True, False, True]
    whole = [each for each in decided(found).findings if each.group == "all"]
    assert [each.action for each in whole] == [Action.USE] * 2, "one of 24 failed"
    slow = k3.cases[1].model_copy(update={"headline": estimate(HEADLINE, LogMean(0.01, 0.0, 7.0, 8), method="m")})
    groups = tuple(each.model_copy(update={"speedups": (slow.headline,)}) for each in k3.groups)
    least = k3.model_copy(update={"cases": (k3.cases[0], slow, k3.cases[2]), "groups": groups})
    assert least.over_all < k5.over_all and fastest(found, [k5, least]) == least
