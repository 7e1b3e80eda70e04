"""The small statistics against published tables, and their behaviour on simulated runs."""

import json
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from specdecode.measures.distribution import mean, stddev
from specdecode.measures.student import (
    LogMean,
    combine,
    incomplete_beta,
    log_mean,
    over_prompts,
    t_cdf,
    t_quantile,
    welch_log_ratio,
    with_shared,
)

from tests.specdecode.analysis import recompute_intervals

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("p", "df", "expected"),
    [
        (0.975, 1, 12.70620474), (0.975, 2, 4.30265273), (0.975, 7, 2.36462425), (0.975, 49, 2.00957524),
        (0.995, 4, 4.60409487), (0.95, 30, 1.69726089), (0.975, 1e7, 1.95996421),
    ],
)  # fmt: skip
def test_t_quantiles_of_the_tables(p: float, df: float, expected: float) -> None:
    assert t_quantile(p, df) == pytest.approx(expected, rel=1e-7)


def paired(numerator: Sequence[float], denominator: Sequence[float]) -> LogMean:
    return over_prompts([math.log(a / b) for a, b in zip(numerator, denominator, strict=True)])


def test_t_cdf_inverts_its_quantile_and_is_symmetric() -> None:
    assert t_cdf(t_quantile(0.9, 3.7), 3.7) == pytest.approx(0.9)
    assert t_cdf(-1.3, 5) == pytest.approx(1 - t_cdf(1.3, 5))
    assert t_cdf(0.0, 5) == pytest.approx(0.5)
    assert incomplete_beta(1, 1, 0.3) == pytest.approx(0.3)
    assert incomplete_beta(2, 3, 0.4) == pytest.approx(0.5248)
    assert (incomplete_beta(2, 3, 0.0), incomplete_beta(2, 3, 1.0)) == (0.0, 1.0)
    assert stddev([2, 4, 4, 4, 5, 5, 7, 9]) == pytest.approx(math.sqrt(32 / 7))
    assert stddev([3]) == 0.0
    for call in (lambda: mean([]), lambda: log_mean([])):
        with pytest.raises(ValueError, match="no values"):
            call()


def test_the_paired_interval_is_the_textbook_one() -> None:
    found = log_mean([0.1, 0.2, 0.3, 0.4])
    half = 3.182446305 * math.sqrt((0.05 / 3) / 4)
    assert found.interval(0.95) == pytest.approx((math.exp(0.25 - half), math.exp(0.25 + half)))
    half = 3.481908760 * math.sqrt((0.05 / 3) / 4)
    assert found.interval() == pytest.approx((math.exp(0.25 - half), math.exp(0.25 + half))), "96%, called 95%"
    found = paired([4.0], [2.0])
    assert found.ratio == pytest.approx(2.0)
    assert found.interval() is None
    a, b = [1.0, 1.2, 1.1, 0.9], [2.0, 2.1, 2.4, 1.8]
    forward, backward = paired(a, b).interval(), paired(b, a).interval()
    assert forward is not None
    assert backward == pytest.approx((1 / forward[1], 1 / forward[0]))


def test_pairing_removes_what_the_prompts_differ_in() -> None:
    rng = random.Random(3)
    prompts = [rng.lognormvariate(0, 1.0) for _ in range(8)]
    base = [p * rng.lognormvariate(0, 0.01) for p in prompts]
    fast = [p / 2 * rng.lognormvariate(0, 0.01) for p in prompts]
    tight, loose = paired(base, fast).interval(), welch_log_ratio(base, fast).interval()
    assert tight is not None
    assert loose is not None
    assert tight[1] / tight[0] < 1.1 < loose[1] / loose[0]


def test_combining_equal_parts_adds_their_degrees_of_freedom() -> None:
    part = LogMean(0.5, 0.01, 7.0, 8)
    both = combine((part, part), (0.5, 0.5))
    assert (both.mean, both.variance, both.df, both.n) == pytest.approx((0.5, 0.005, 14.0, 16))
    assert combine((part, LogMean(0.1, 0.0, 0.0, 1)), (0.5, 0.5)).interval() is None


def test_the_documented_coverage_is_the_measured_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """simulations.md prints results/statistics_coverage.json, and that keeps what the verdicts promise."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import statistics_coverage

    results = json.loads((ROOT / "benchmarks" / "results" / "statistics_coverage.json").read_text())
    assert results["runs"] == 2000
    known = [row for row in results["types"] if row["shape"] != "one in five" or row["types"] >= 20]
    assert len(known) >= 28 and all(row["mean"] >= 0.94 and row["next"] >= 0.94 for row in known)
    for row in results["same_kinds"]:
        assert row["verdicts"].get("pays", 0) + row["verdicts"].get("costs", 0) <= 0.05
    assert statistics_coverage.tables(results) in (ROOT / "docs" / "reference" / "simulations.md").read_text()
    kinds = statistics_coverage.over_types(types=5, spread=0.3, shape="normal", centre=1.5, runs=100)
    assert kinds["next"] >= 0.85 and kinds["mean"] >= 0.85


def test_the_interval_over_prompts_reaches_further_where_few_prompts_gain_much():
    """On the side of the tail, never shorter than Student's t, and only from 12 prompts on."""
    few = [0.1, 0.12, 0.08, 0.11, 0.09, 0.1, 0.13, 0.07, 0.1, 0.12, 0.09, 1.6]
    plain, found = log_mean(few).interval(), over_prompts(few).interval()
    assert plain and found
    assert found[1] > plain[1] * 1.05 and found[0] == pytest.approx(plain[0])
    assert found == pytest.approx(recompute_intervals.over_prompts(few)[1:]), "Hall's transformation, by bisection"
    mirrored = over_prompts([-value for value in few]).interval()
    assert mirrored == pytest.approx((1 / found[1], 1 / found[0]))
    assert over_prompts(few[1:]).interval() == log_mean(few[1:]).interval()
    assert over_prompts([0.2] * 20).interval() == pytest.approx((math.exp(0.2),) * 2)


def test_so_few_values_that_could_end_early_have_no_interval_even_if_all_are_equal():
    for n, has in ((5, False), (6, True)):
        for values in ([0.5] * n, [0.5, *[0.6] * (n - 1)]):
            assert (log_mean(values)._replace(early=True).interval() is not None) == has


def test_the_skewness_is_the_adjusted_one_and_shared_noise_keeps_the_third_cumulant():
    """G1 of the moments (Joanes & Gill 1998); variance times four is the third power of two in the deviation."""
    few = [0.1, 0.12, 0.08, 0.11, 0.09, 0.1, 0.13, 0.07, 0.1, 0.12, 0.09, 1.6]
    found, n = over_prompts(few), 12
    second, third = (math.fsum((value - mean(few)) ** power for value in few) / n for power in (2, 3))
    assert found.skew == pytest.approx(math.sqrt(n * (n - 1)) / (n - 2) * third / second**1.5)
    wider = with_shared(found, LogMean(0.0, 3.0 * found.variance, 10.0, 0))
    assert (wider.variance, wider.skew) == pytest.approx((4.0 * found.variance, found.skew / 8.0))


def test_twenty_prompts_with_heavy_tailed_acceptance_hold_the_truth():
    """A few of the runs of benchmarks/statistics_coverage.py; Student's t alone holds less than 94% there."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.statistics_coverage import over_category

    for shape in ("Pareto 1.5, few gain", "beta (1, 3) of a draft token"):
        found = over_category(shape=shape, noise=0.03, prompts=20, runs=1000)
        assert found["interval"] >= 0.94 > found["t"], found
