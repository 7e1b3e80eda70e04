"""The gate on simulated runs whose truth is known."""

from __future__ import annotations

import math
import operator
import random
import xml.etree.ElementTree as Xml
from collections.abc import Callable, Mapping
from functools import cache
from statistics import variance
from typing import Any

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.report.gate import gate_junit, gate_markdown, gate_text
from specdecode.analysis.results.pairs import HEADLINE
from specdecode.analysis.several_runs.gate import Gate, GateCheck, GateOutcome, Unfit, _judged, gate
from specdecode.analysis.several_runs.gate_questions import ALL, MOST_RATE, Question, Thresholds, questions, throughputs
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.workload import PromptKind, TestCase
from specdecode.measures.distribution import Summary
from specdecode.measures.student import LogMean, log_mean, moderated, welch_log_ratio
from specdecode.records import ErrorKind, RequestError, RequestRecord

from tests.specdecode.analysis.generated import generated
from tests.specdecode.analysis.simulate import context, experiment, run


@cache
def simulated(seed: int, *, slow: float = 1.0, between: float = 0.002, requests: int = 24) -> Comparison:
    """A run whose every time is longer by `slow`, and by its own part of what runs differ by."""
    tested = experiment(requests=requests)
    own = slow * random.Random(seed).lognormvariate(0.0, between)
    records = run(tested, seed=seed, slow={(name, 0): own for name in ("base", "sd")}, noise=0.01)
    return compare(experiment=tested, records=records, context=context(run_id=f"run-{seed}-{slow:g}"))


def compared(before: list[Comparison], after: list[Comparison], **limits: Any) -> Gate:
    return gate(after, Thresholds(max_regression=0.03, **limits), against=before)


def outcomes(found: Gate) -> dict[tuple[str, str], GateOutcome]:
    return {(check.arm, check.about): check.outcome for check in found.checks}


def test_equal_runs_pass_and_a_twentieth_slower_fails_in_both_arms() -> None:
    same = compared([simulated(1)], [simulated(2)])
    assert outcomes(same) == {("base", ALL): GateOutcome.PASSED, ("sd", ALL): GateOutcome.PASSED}
    slower = compared([simulated(1), simulated(2), simulated(3)], [simulated(n, slow=1.06) for n in (4, 5, 6)])
    assert slower.outcome is GateOutcome.FAILED
    assert {check.ratio for check in slower.checks if check.ratio} and all(
        check.ratio == pytest.approx(1 / 1.06, abs=0.01) for check in slower.checks
    )


def test_arms_that_are_slower_alike_are_a_regression_although_the_speedup_stays() -> None:
    before, after = simulated(1), simulated(2, slow=1.2)
    assert compared([before], [after]).outcome is GateOutcome.FAILED
    assert gate([after], Thresholds(min_speedup=1.2)).outcome is GateOutcome.PASSED


def test_no_arm_is_shown_to_be_faster_that_the_run_itself_cannot_tell() -> None:
    """The interval of the gate is narrower than that of the verdict: 1.01 to 1.12 beside 0.992 to 1.132."""
    run, _ = generated(12872)
    assert run.pairs[0].cases[0].verdict.value == "cannot tell"
    (check,) = gate([run], Thresholds(min_speedup=1.0)).checks
    assert check.outcome is GateOutcome.CANNOT_TELL and "run-1 itself cannot tell" in check.reason
    assert check.low and check.low > 1
    assert gate([run], Thresholds(min_speedup=0.99)).outcome is GateOutcome.PASSED
    assert gate([run], Thresholds(min_speedup=1.5)).outcome is GateOutcome.FAILED


def on_a_node_of_its_own(run: Comparison) -> Comparison:
    return run.model_copy(update={"context": run.context.model_copy(update={"node": "trn2.48xlarge"})})


def test_runs_of_the_pipeline_are_on_different_nodes_and_are_judged_with_what_nodes_differ_by() -> None:
    """Simulated: nodes differ by 5%, the arms are equal. With the 0.5% of one server a quarter of the gates was red."""
    red = {True: 0, False: 0}
    for seed in range(40):
        before, after = (on_a_node_of_its_own(simulated(2 * seed + side, between=0.05, requests=8)) for side in (0, 1))
        red[True] += compared([before], [after]).outcome is GateOutcome.FAILED
        red[False] += compared([before], [after], between_runs=0.005).outcome is GateOutcome.FAILED
    assert red[True] <= 2 < 8 <= red[False], red
    said = gate_text(compared([before], [after]))
    assert "5.0% is assumed (--between-runs), since each run had a node of its own" in said
    assert compared([simulated(1)], [simulated(2)]).between_runs == 0.005


T = {(0.95, 10): 1.812461, (0.975, 10): 2.228139, (0.9, 10): 1.372184}
"""Quantiles of Student's t (tables). One check is judged at 90%, each of two at 95%."""


def judged(mean: float, error: float, *, least: float = 1.0, confidence: float = 0.9, **more: Any) -> GateCheck:
    found = LogMean(mean, error**2, 10.0, 2)
    about = {"arm": "sd", "about": ALL, "load": "c1", "limit": "a limit", "speedup": False, "runs_a_side": 3}
    return _judged(Question(**{**about, "least": least, "found": found, **more}), confidence)


@pytest.mark.parametrize(
    ("mean", "error", "outcome", "says"),
    [
        (0.0, 0.0, GateOutcome.PASSED, "the whole interval keeps the limit"),
        (0.0182, 0.01, GateOutcome.PASSED, "the whole interval keeps the limit"),
        (-0.0182, 0.01, GateOutcome.FAILED, "the whole interval lies beyond the limit"),
        (0.0180, 0.01, GateOutcome.CANNOT_TELL, "lies within the interval; about 2 times as many runs would tell"),
        (-0.010, 0.01, GateOutcome.CANNOT_TELL, "about 4 times as many runs would tell"),
        (0.00407, 0.01, GateOutcome.CANNOT_TELL, "about 20 times as many runs would tell"),
        (0.00404, 0.01, GateOutcome.CANNOT_TELL, "the limit lies within the interval"),
        (0.0, 0.01, GateOutcome.CANNOT_TELL, "the limit lies within the interval"),
    ],
)
def test_a_check_by_hand(mean: float, error: float, outcome: GateOutcome, says: str) -> None:
    check = judged(mean, error)
    assert check.outcome is outcome and check.reason.endswith(says)
    reach = T[0.95, 10] * error
    assert (check.low, check.high) == pytest.approx((math.exp(mean - reach), math.exp(mean + reach)))


def test_what_a_check_would_see_by_hand() -> None:
    """Its interval reaches t(95%), and nine of ten of its figures lie above the mean less t(90%), of 10 degrees."""
    check = judged(0.0, 0.01, least=0.97)
    reach = 0.01 * (T[0.95, 10] + T[0.9, 10])
    assert check.sees == pytest.approx(1 - 0.97 * math.exp(-reach))
    assert judged(0.0, 0.05, least=0.9).runs_for_limit == math.ceil(3 * (5 * reach / math.log(1 / 0.9)) ** 2) == 7
    assert judged(0.0, 0.0, least=0.97).runs_for_limit == 1, "at least one"
    assert judged(0.0, 0.01, least=0.4).runs_for_limit == 1 and judged(0.0, 0.01, least=1.0).runs_for_limit is None
    for more in ({"found": None}, {"speedup": True}, {"found": LogMean(0.0, 0.1, 0.0, 1)}):
        assert (judged(0.0, 0.01, **more).sees, judged(0.0, 0.01, **more).runs_for_limit) == (None, None)
    assert judged(0.0, 0.01, found=None).reason == "one request a run: nothing tells what varies"
    alone = Gate(runs=("a",), checks=(judged(0.0, 0.0, found=LogMean(0.1, 0.0, 0.0, 1)),), between_runs=0.005)
    assert "\n    one request a run: nothing" in gate_text(alone), "without an interval there is no figure"
    assert judged(0.1, 0.01, doubt="why").outcome is GateOutcome.CANNOT_TELL
    assert judged(0.1, 0.01, broken="why", doubt="other").reason == "why"


def test_all_checks_together_are_wrong_in_5_percent() -> None:
    """Two checks share it, either way: each is judged at 95%, one alone at 90%."""
    limits = Thresholds(max_regression=0.03, between_runs=0.01)
    runs = [simulated(1)], [simulated(2)]
    asked = list(questions(*runs, limits))
    both, alone = compared(*runs, between_runs=0.01), compared(*runs, between_runs=0.01, arms=("sd",))
    assert [(each.low, each.high) for each in both.checks] == [
        each.found and each.found.interval(0.95) for each in asked
    ]
    assert [(each.low, each.high) for each in alone.checks] == [asked[1].found and asked[1].found.interval(0.9)]


@pytest.mark.parametrize("between", [0.02, 0.05])
def test_so_many_runs_tell_the_regression_that_was_asked_for_from_none(between: float) -> None:
    """Drawn: runs without a change pass, the interval of one of the limit's size lies below 1, twice as much fails."""
    rng = random.Random(f"{between}")

    def checked(runs: int, ratio: float) -> GateCheck:
        sides = [
            [LogMean(math.log(each) + rng.gauss(0.0, between), 0.001**2, 15.0, 16) for _ in range(runs)]
            for each in (1.0, ratio)
        ]
        return judged(0.0, 0.0, least=0.95, found=moderated(sides, assumed=between), runs_a_side=runs)

    runs = checked(1, 1.0).runs_for_limit
    assert runs is not None and runs > 3
    drawn = {ratio: [checked(runs, ratio) for _ in range(200)] for ratio in (1.0, 0.95, 0.9)}
    passed = sum(each.outcome is GateOutcome.PASSED for each in drawn[1.0])
    told = sum(each.high is not None and each.high < 1.0 for each in drawn[0.95])
    failed = sum(each.outcome is GateOutcome.FAILED for each in drawn[0.9])
    assert min(passed, told, failed) >= 180, (runs, passed, told, failed)
    few = [checked(runs // 2, 0.95) for _ in range(200)]
    assert sum(each.high is not None and each.high < 1.0 for each in few) < 180, "half of them do not"


def test_a_regression_says_which_one_it_would_see_and_how_many_runs_would_tell_the_limit_from_none() -> None:
    one = compared([simulated(1)], [simulated(2)]).checks[0]
    three = compared([simulated(n) for n in (1, 2, 3)], [simulated(n) for n in (4, 5, 6)]).checks[0]
    assert one.sees is not None and three.sees is not None
    assert 0.03 < three.sees < one.sees < 0.08
    assert one.runs_for_limit in (1, 2, 3)
    told = f"a regression of {one.sees:.1%} fails, and one of the limit's size is told from none with "
    assert f"{told}{one.runs_for_limit} run" in gate_text(compared([simulated(1)], [simulated(2)]))
    seen = sum(
        compared([simulated(n)], [simulated(n + 50, slow=1 / (1 - one.sees))]).checks[0].outcome is GateOutcome.FAILED
        for n in range(100, 120)
    )
    assert seen >= 15, "nine of ten"
    assert gate([simulated(1)], Thresholds(min_speedup=1.2)).checks[0].sees is None


@pytest.mark.parametrize(("limit", "outcome"), [(1.2, GateOutcome.PASSED), (9.0, GateOutcome.FAILED)])
def test_a_speedup_is_held_to_its_limit(limit: float, outcome: GateOutcome) -> None:
    (check,) = gate([simulated(1)], Thresholds(min_speedup=limit)).checks
    assert (check.arm, check.about, check.outcome) == ("sd", ALL, outcome)
    measured = simulated(1).pairs[0].group("all")
    assert measured and measured.headline and check.ratio == pytest.approx(measured.headline.ratio)


def test_a_passed_gate_repeats_what_the_report_says_of_a_load_generator_that_was_late_for_a_little() -> None:
    records = list(run(experiment(), noise=0.01))
    records[0] = records[0].model_copy(update={"time_doubt_s": 0.012, "doubtful_chunks": 1})
    found = gate([compare(experiment=experiment(), records=records, context=context())], Thresholds(min_speedup=0.5))
    assert {check.outcome for check in found.checks} == {GateOutcome.PASSED}
    assert f"1 of {len(records)} requests have doubtful times" in gate_text(found)


def test_each_case_is_held_by_itself_where_that_is_wanted() -> None:
    found = gate([simulated(1)], Thresholds(min_speedup=1.5, each_case=True))
    assert outcomes(found) == {
        ("sd", ALL): GateOutcome.PASSED,
        ("sd", "repeat"): GateOutcome.PASSED,
        ("sd", "sonnet"): GateOutcome.FAILED,
    }
    assert found.outcome is GateOutcome.FAILED
    assert [check.arm for check in compared([simulated(1)], [simulated(2)], arms=("base",)).checks] == ["base"]


def test_failing_requests_fail_the_gate_and_those_before_leave_it_open() -> None:
    fine = simulated(1)
    arms = tuple(arm.model_copy(update={"failed": 12, "errors": {"timeout": 12}}) for arm in fine.arms)
    broken = fine.model_copy(update={"run_id": "broken", "arms": arms})
    after = compared([fine], [broken])
    assert after.outcome is GateOutcome.FAILED
    assert "in repeat, sonnet: 24 of 48 requests of base failed (24 timeout)" in after.checks[0].reason
    assert compared([broken], [fine]).outcome is GateOutcome.CANNOT_TELL


def test_an_arm_that_vanished_is_not_passed() -> None:
    whole = simulated(1)
    kept = tuple(arm for arm in simulated(2).arms if (arm.variant, arm.case) != ("sd", "sonnet"))
    without = simulated(2).model_copy(update={"arms": kept, "pairs": (), "timeline": ()})
    without = Comparison.model_validate_json(without.json_document())
    found = compared([whole], [without])
    assert found.outcome is GateOutcome.CANNOT_TELL
    assert "run-2-1 has no throughput of sd in sonnet" in found.checks[1].reason


def without(dropped: Callable[[RequestRecord], bool], **around: object) -> Comparison:
    """A run of two arms whose records lack those that are dropped."""
    tested = experiment(ks=(3, 7), requests=8)
    kept = [record for record in run(tested, noise=0.01) if not dropped(record)]
    return compare(experiment=tested, records=kept, context=context(**around))


def test_an_arm_and_a_case_without_a_speedup_are_asked_about_all_the_same() -> None:
    lacks = without(lambda record: record.variant == "sd-k7" or (record.variant, record.case) == ("sd-k3", "sonnet"))
    found = gate([lacks], Thresholds(min_speedup=0.5, each_case=True))
    assert outcomes(found) == {
        ("sd-k3", ALL): GateOutcome.CANNOT_TELL,
        ("sd-k3", "repeat"): GateOutcome.PASSED,
        ("sd-k3", "sonnet"): GateOutcome.CANNOT_TELL,
        ("sd-k7", ALL): GateOutcome.CANNOT_TELL,
        ("sd-k7", "repeat"): GateOutcome.CANNOT_TELL,
        ("sd-k7", "sonnet"): GateOutcome.CANNOT_TELL,
    }
    assert found.checks[0].reason == "run-1, in sonnet: there is no comparison of sd-k3"
    alone = gate([lacks], Thresholds(min_speedup=0.5, arms=("sd-k7",)))
    assert alone.outcome is GateOutcome.CANNOT_TELL
    other = lacks.model_copy(update={"run_id": "other"})
    assert {each.arm: each.outcome for each in compared([other], [lacks]).checks} == {
        "base": GateOutcome.PASSED, "sd-k3": GateOutcome.CANNOT_TELL, "sd-k7": GateOutcome.CANNOT_TELL,
    }  # fmt: skip
    assert Gate(runs=("run-1",), checks=(), between_runs=0.005).outcome is GateOutcome.CANNOT_TELL


def test_an_arm_that_a_sweep_did_not_choose_is_asked_about_only_where_it_is_named() -> None:
    def asked(limits: Thresholds, **around: object) -> list[str]:
        steps = [{"arm": "sd-k3", "reason": "An arm."}, {"arm": None, "reason": "Nothing more to gain."}]
        swept = without(lambda record: record.variant == "sd-k7", sweep=steps, **around)
        return [check.arm for check in gate([swept], limits).checks]

    assert asked(Thresholds(min_speedup=0.5)) == ["sd-k3"]
    assert asked(Thresholds(min_speedup=0.5, arms=("sd-k7",))) == ["sd-k7"]
    failed = {"variant": "sd-k7", "stage": "compile", "message": "no memory"}
    assert asked(Thresholds(min_speedup=0.5), failures=[failed]) == ["sd-k3", "sd-k7"]


def failing(failed: Mapping[tuple[str, str], int], run_id: str = "run-f") -> Comparison:
    """A run of nine cases of eight requests, with so many failed ones of an arm in a case."""
    cases = tuple(
        TestCase(name=f"t{n}", label=f"t{n}", kind=PromptKind.LINE, text=f"{n}", structured=True) for n in range(9)
    )
    tested = experiment(cases=cases)
    error = RequestError(kind=ErrorKind.RESET, message="connection reset by peer")
    records = [
        record.model_copy(update={"error": error})
        if record.index < failed.get((record.variant, record.case), 0)
        else record
        for record in run(tested, acceptance={case.name: 0.9 for case in cases}, noise=0.01)
    ]
    return compare(experiment=tested, records=records, context=context(run_id=run_id))


def test_so_few_failed_requests_leave_their_case_out_as_the_report_does() -> None:
    """One of 72. The case by itself cannot be told: one of its eight."""
    few, fine = failing({("sd", "t3"): 1}), failing({}, "fine")
    told = "run-f, in t3: 1 of 8 requests of sd failed (1 reset): the rest is no fair sample"
    for found in (
        gate([few], Thresholds(min_speedup=1.2, each_case=True)),
        compared([fine], [few], each_case=True, arms=("sd",)),
        compared([few], [fine], each_case=True, arms=("sd",)),
    ):
        checks = {check.about: check for check in found.checks}
        assert {about for about, check in checks.items() if check.outcome is not GateOutcome.PASSED} == {"t3"}
        assert (checks["t3"].outcome, checks["t3"].reason) == (GateOutcome.CANNOT_TELL, told)
        assert checks[ALL].reason == f"the whole interval keeps the limit; left out: {told}"
    group = few.pairs[0].group("all")
    assert group and group.headline and "t3" not in group.judged
    assert gate([few], Thresholds(min_speedup=1.2)).checks[0].ratio == pytest.approx(group.headline.ratio)


@pytest.mark.parametrize(("arm", "outcome"), [("sd", GateOutcome.FAILED), ("base", GateOutcome.CANNOT_TELL)])
def test_more_than_a_twentieth_of_an_arms_requests_is_too_many(arm: str, outcome: GateOutcome) -> None:
    found = gate([failing({(arm, "t3"): 3, (arm, "t5"): 1})], Thresholds(min_speedup=1.2, each_case=True))
    checks = {check.about: check for check in found.checks}
    assert checks[ALL].outcome is outcome
    assert checks[ALL].reason.startswith(f"run-f, in t3, t5: 4 of 72 requests of {arm} failed (4 reset)")
    assert {about for about, check in checks.items() if check.outcome is GateOutcome.CANNOT_TELL} - {ALL} == {
        "t3",
        "t5",
    }
    assert checks["t0"].outcome is GateOutcome.PASSED


@pytest.mark.parametrize(
    "told",
    [{"n": 0}, {"mean": -1.0}, {"mean": 1.0, "stddev": 1e200}, {"mean": 5e-324, "stddev": 1.0}, {"stddev": -1.0}],
)
def test_a_report_of_somebody_whose_throughput_cannot_be_is_not_passed(told: dict[str, float]) -> None:
    other = simulated(2)
    arms = tuple(
        arm.model_copy(update={"samples": {}, "metrics": {HEADLINE: arm.metrics[HEADLINE].model_copy(update=told)}})
        for arm in other.arms
    )
    found = compared([simulated(1)], [other.model_copy(update={"arms": arms})])
    assert found.outcome is GateOutcome.CANNOT_TELL and "has no throughput of" in found.checks[0].reason


def unlike(**workload: object) -> Comparison:
    other = simulated(3)
    changed = other.experiment.model_copy(update={"workload": other.experiment.workload.model_copy(update=workload)})
    return other.model_copy(update={"experiment": ServedExperiment.model_validate(changed.model_dump())})


def test_unfit_runs_are_refused_with_every_problem_at_once() -> None:
    with pytest.raises(Unfit) as refused:
        gate([simulated(1), simulated(1)], Thresholds(arms=("nobody",)))
    told = str(refused.value)
    assert "no limit is given" in told
    assert "run-1-1 is given twice" in told
    assert "no run has an arm nobody: base, sd" in told
    with pytest.raises(Unfit, match="a regression is one from other runs"):
        gate([simulated(1)], Thresholds(max_regression=0.03))
    with pytest.raises(Unfit, match=r"measured different things: workload\.output_tokens: 200 -> 100"):
        compared([simulated(1)], [unlike(output_tokens=100)])
    with pytest.raises(Unfit, match=r"no repeats: workload\.temperature"):
        compared([simulated(1), unlike(temperature=1.0)], [simulated(2)])


def test_moderated_without_an_assumption_is_students_t_of_the_requests() -> None:
    rng = random.Random(5)
    a, b = ([rng.lognormvariate(0, 0.1) for _ in range(40)] for _ in range(2))
    sides = [[log_mean([math.log(value) for value in values])] for values in (a, b)]
    found, welch = moderated(sides, assumed=0.0), welch_log_ratio(b, a)
    assert found.mean == pytest.approx(welch.mean)
    assert found.variance == pytest.approx(welch.variance)


def test_what_runs_show_takes_the_place_of_what_was_assumed() -> None:
    def side(spread: float, runs: int) -> list[LogMean]:
        return [LogMean(spread * (-1) ** n, 1e-8, 50.0, 51) for n in range(runs)]

    assumed = moderated([side(0.0, 1), side(0.0, 1)], assumed=0.01)
    assert assumed.variance == pytest.approx(2 * 0.01**2, rel=1e-3)
    assert assumed.df == pytest.approx(10, rel=0.01)
    steady = moderated([side(0.0, 20), side(0.0, 20)], assumed=0.01)
    wild = moderated([side(0.05, 20), side(0.05, 20)], assumed=0.01)
    assert math.sqrt(steady.variance * 10) < 0.5 * 0.01
    assert math.sqrt(wild.variance * 10) == pytest.approx(0.05, rel=0.15)


def test_prompts_that_differ_are_no_noise_between_runs_of_the_same_prompts() -> None:
    """The cases' requests differ by a third; the interval of the change does not."""

    factors = [0.7 + 0.6 * n / 23 for n in range(24)]

    def spread(item: Comparison) -> Comparison:
        arms = []
        for arm in item.arms:
            varied = {tag: tuple(map(operator.mul, values, factors)) for tag, values in arm.samples.items()}
            arms.append(arm.model_copy(update={"samples": varied}))
        return item.model_copy(update={"arms": tuple(arms)})

    plain, varied = (compared([f(simulated(1))], [f(simulated(2))]).checks[0] for f in (lambda item: item, spread))
    assert (varied.low, varied.high) == (pytest.approx(plain.low), pytest.approx(plain.high))


def test_the_noise_of_a_runs_requests_is_what_their_difference_to_the_other_runs_has() -> None:
    """Of two runs: half of the variance of the differences, prompt by prompt, over the number of prompts."""
    first, second = [0.0, 0.1, 0.2, 0.5], [0.1, 0.0, 0.4, 0.2]
    arm, metrics = simulated(1).arms[0], {HEADLINE: Summary(n=4, mean=1.0)}
    samples = [{HEADLINE: tuple(map(math.exp, logs))} for logs in (first, second)]
    arms = [arm.model_copy(update={"samples": each, "metrics": metrics}) for each in samples]
    found = throughputs([("a", arms[0]), ("b", arms[1])], "base", "repeat", [])
    noise = variance([a - b for a, b in zip(first, second, strict=True)]) / 2.0 / 4.0
    assert [each.mean for each in found] == pytest.approx([0.2, 0.175]) and {each.df for each in found} == {3.0}
    assert [each.variance for each in found] == pytest.approx([noise, noise])
    alone = arms[1].model_copy(update={"metrics": {HEADLINE: Summary(n=5, mean=2.0, stddev=0.5)}})
    unlike = throughputs([("a", arms[0]), ("b", alone)], "base", "repeat", [])
    assert unlike == [LogMean(0.0, 0.0, 3.0, 4), LogMean(math.log(2.0), 0.25**2 / 5, 4.0, 5)], "of other prompts"


def test_the_texts_say_outcome_limit_figure_and_what_it_rests_on() -> None:
    found = compared([simulated(1)], [simulated(2, slow=1.2)])
    text = gate_text(found)
    assert "✗ failed: base, all prompts: throughput at most 3% lower" in text
    assert "-16." in text
    assert "One run on a side does not show what varies between runs: 0.5% is assumed" in text
    assert text.endswith("Gate: failed\n")
    assert "### specdecode gate: failed" in gate_markdown(found)


def test_junits_xml_counts_and_names_every_check() -> None:
    found = gate([simulated(1)], Thresholds(min_speedup=1.5, each_case=True))
    root = Xml.fromstring(gate_junit(found))
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("3", "1", "0")
    failed = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed == ["sd, sonnet: speed-up of at least 1.5×"]
    open_end = Xml.fromstring(gate_junit(compared([simulated(1)], [simulated(2, slow=1.031)])))
    assert [case.find("skipped") is not None for case in open_end.iter("testcase")].count(True) >= 1


@pytest.mark.parametrize(
    ("told", "is_used"),
    [
        ({"mean": MOST_RATE * 0.999}, True),
        ({"mean": MOST_RATE}, False),
        ({"mean": 1.001 / MOST_RATE}, True),
        ({"mean": 1 / MOST_RATE}, False),
        ({"stddev": MOST_RATE * 0.999}, True),
        ({"stddev": MOST_RATE}, False),
    ],
)
def test_a_throughput_that_no_server_can_have_is_none(told: dict[str, float], is_used: bool) -> None:
    arm = simulated(1).arm("base", "repeat")
    assert arm
    own = arm.metrics[HEADLINE].model_copy(update=told)
    given = arm.model_copy(update={"metrics": {HEADLINE: own}, "samples": {}})
    doubts: list[str] = []
    assert len(throughputs([("a", arm), ("b", given)], "base", "repeat", doubts)) == (2 if is_used else 0)
    assert doubts == ([] if is_used else ["b has no throughput of base in repeat"])
