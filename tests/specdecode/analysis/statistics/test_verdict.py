"""Verdicts at the edges of their rules, and what a verdict that is missing would need."""

import math

import pytest
from specdecode.analysis.results.pairs import Estimate, Verdict
from specdecode.analysis.statistics.verdict import estimate, judge, judge_loss, log_stat, too_many_failed
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.student import LogMean

T_7, T_19 = 2.516752, 2.204701
"""98% quantiles of Student's t with 7 and 19 degrees of freedom (tables): the level of an interval is 96%."""


def given(low: float | None, high: float | None, ratio: float = 1.01, n: int = 8) -> Estimate:
    return Estimate(metric="m", ratio=ratio, low=low, high=high, n=n, method="")


@pytest.mark.parametrize(
    ("found", "verdict", "says", "settle"),
    [
        (None, Verdict.CANNOT_TELL, "no prompt was completed by both arms", ""),
        (given(None, 1.2), Verdict.CANNOT_TELL, "1.01× from too few values for an interval", "8 requests or more"),
        (given(0.9, None), Verdict.CANNOT_TELL, "1.01× from too few values for an interval", "8 requests or more"),
        (given(0.96, 1.04), Verdict.NO_DIFFERENCE, "the whole interval lies within ±5%", ""),
        (given(1.01, 1.04), Verdict.NO_DIFFERENCE, "the whole interval lies within ±5%", ""),
        (given(1.01, 1.05), Verdict.PAYS, "the whole interval lies above 1", ""),
        (given(1.0, 1.2), Verdict.CANNOT_TELL, "reaches to both sides of 1 and beyond ±5%", "about"),
        (given(1.0 / 1.05, 0.99), Verdict.COSTS, "the whole interval lies below 1", ""),
        (given(0.8, 1.0), Verdict.CANNOT_TELL, "reaches to both sides of 1 and beyond ±5%", "about"),
        (
            given(0.1, 10.0, 1.0),
            Verdict.CANNOT_TELL,
            "both sides of 1",
            "more than 10,000 requests, or a steadier machine",
        ),
    ],
)
def test_a_verdict_follows_from_the_interval(found: Estimate | None, verdict: Verdict, says: str, settle: str) -> None:
    said = judge(found)
    assert said.verdict is verdict and says in said.reason
    assert said.settle.startswith(settle) and bool(said.settle) == bool(settle)


@pytest.mark.parametrize(
    ("ratio", "n", "high", "verdict"),
    [
        (0.92, 50, 1.0434, Verdict.CANNOT_TELL),
        (0.85, 50, 0.9684, Verdict.COSTS),
        (0.92, 60, 1.0222, Verdict.CANNOT_TELL),
    ],
)
def test_a_loss_reaches_to_where_prompts_that_gain_eight_times_as_much_may_move_it(
    ratio: float, n: int, high: float, verdict: Verdict
) -> None:
    """A share of 1 - 5%^(1/n) of them is missing with 5%: 5.8% of 50, 4.9% of 60."""
    found, said = judge_loss(given(ratio - 0.01, ratio + 0.01, ratio, n))
    assert found.high == pytest.approx(high, abs=1e-4) and (found.low, said.verdict) == (ratio - 0.01, verdict)
    lost = verdict is Verdict.CANNOT_TELL
    assert said.settle == ("more prompts" if lost else "") and lost == said.reason.endswith("those that gain much")
    wide = given(0.5, 0.99, 0.7, 1000)
    assert judge_loss(wide)[0] == wide, "never shorter"


@pytest.mark.parametrize(
    ("centre", "error", "unit"), [(0.04, 0.03, "requests"), (0.0, 0.03, "prompt types"), (0.03, 0.1, "requests")]
)
def test_the_number_that_would_settle_it_is_the_least_of_the_steps_that_does(
    centre: float, error: float, unit: str
) -> None:
    """In steps of a twentieth, the interval of so many reaches neither 1 nor 5%, whichever is farther away."""
    said = judge(estimate("m", LogMean(centre, error**2, 7.0, 8), method=""), unit=unit).settle
    count = int(said.split()[1].replace(",", ""))
    assert said == f"about {count:,} {unit} (8 were compared)" and count > 8
    reach = max(centre, math.log(1.05) - centre)
    deviation = error * math.sqrt(8)
    shorter, longer = (2.054 * deviation / math.sqrt(n) for n in (count, count * 0.9))
    assert shorter < reach < longer * (1 + 2.0 / count), "the quantile of many is 2.054, of few a little more"


def test_an_estimate_has_the_interval_and_log_stat_turns_it_back() -> None:
    stat = LogMean(0.2, 0.01**2, 7.0, 8)
    found = estimate("m", stat, method="t")
    assert (found.ratio, found.n, found.method) == (math.exp(0.2), 8, "t")
    assert (found.low, found.high) == pytest.approx((math.exp(0.2 - T_7 * 0.01), math.exp(0.2 + T_7 * 0.01)))
    assert log_stat(found) == pytest.approx(stat)
    wider = estimate("m", stat, method="t", confidence=0.99)
    assert wider.high is not None and found.high is not None and wider.high > found.high
    assert log_stat(wider, 0.99) == pytest.approx(stat)
    two = estimate("m", LogMean(0.1, 0.02, 1.0, 2), method="")
    assert log_stat(two).df == 1.0 and log_stat(two).variance == pytest.approx(0.02)
    for lacking in (given(None, 1.1), given(0.9, None), given(0.9, 1.1, n=1)):
        assert log_stat(lacking) == LogMean(math.log(1.01), 0.0, 0.0, lacking.n)


def arm(requests: int, failed: int, *, variant: str = "sd") -> ArmCase:
    errors = {"reset": failed - 1, "timeout": 1} if failed > 1 else {"reset": failed}
    return ArmCase.model_construct(
        variant=variant, requests=requests, failed=failed, completed=requests - failed, errors=errors
    )


@pytest.mark.parametrize(
    ("arms", "why"),
    [
        ((arm(0, 0), arm(20, 1)), None),
        ((arm(20, 1), arm(19, 1)), "1 of 19 requests of sd failed (1 reset): the rest is no fair sample"),
        ((arm(4, 4), arm(19, 1)), "4 of 4 requests of sd failed (3 reset, 1 timeout): nothing is left to compare"),
    ],
)
def test_more_than_one_failure_in_twenty_is_too_many(arms: tuple[ArmCase, ...], why: str | None) -> None:
    assert too_many_failed(*arms) == why
