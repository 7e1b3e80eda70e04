"""The curve over the load: its figures are those that were put in, and a crossover is said where there is one."""

from __future__ import annotations

import csv
import io
import math
import random
import re
from dataclasses import replace
from statistics import mean, variance

import pytest
from specdecode.analysis import Comparison, compare, measure
from specdecode.analysis.loads.crossing import AtLoad, _draw, crossings, sign
from specdecode.analysis.loads.curve import within_batch
from specdecode.analysis.report import render_csv, render_html, render_markdown, render_terminal
from specdecode.analysis.results.over_load import Curve
from specdecode.analysis.results.pairs import ArmFinding, Verdict
from specdecode.analysis.statistics.verdict import verdict_of
from specdecode.analysis.texts.by_load import advice_by_load, rounded
from specdecode.analysis.texts.decide import OF_VERDICT
from specdecode.experiment.workload import Level, Slo
from specdecode.measures.drafted import COUNTERS, ESTIMATED
from specdecode.measures.student import LogMean
from specdecode.records import EngineCounters, ErrorKind, RequestError, RequestRecord

from tests.specdecode.analysis.simulate import context, experiment
from tests.specdecode.analysis.simulate import run as run_one_load
from tests.specdecode.analysis.simulate_load import TOKENS, Server, compared, loads, run, true_crossover, true_gain

BASE = Server()
ARM = Server(base_s=0.026, per_sequence_s=0.0016, k=5, acceptance=0.55)
SERVERS = {"base": BASE, "sd": ARM}
LEVELS = (1, 2, 4, 8, 16, 32)


def advice(curve: Curve) -> str:
    """The words of a curve, if the decision at each load is that of its interval."""
    told = {
        each.level.name: Verdict.CANNOT_TELL if each.doubtful else verdict_of(each.speedup) for each in curve.points
    }
    arms = {"variant": curve.variant, "baseline": curve.baseline, "group": "all", "speedup": None}
    found = {at: ArmFinding(load=at, verdict=own, action=OF_VERDICT[own], **arms) for at, own in told.items()}
    return advice_by_load(curve, (), found)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compared(loads((8, 1, 2, 4, 32, 16), slo=Slo(tpot_s=0.021, share=0.7)), SERVERS, seed=3)


def test_every_level_has_the_speedup_of_that_load(comparison: Comparison) -> None:
    curve = comparison.curve[0]
    assert (curve.variant, curve.baseline, curve.group, curve.cases) == ("sd", "base", "all", ("sonnet",))
    assert [point.level.concurrency for point in curve.points] == list(LEVELS), "the smallest load first"
    for point in curve.points:
        assert point.speedup.ratio == pytest.approx(true_gain(BASE, ARM, point.under_way), rel=0.12)
        assert point.speedup.low is not None and point.speedup.low < point.speedup.ratio
        assert 0.9 * point.level.value < point.under_way <= point.level.value


def test_a_point_has_what_a_user_and_the_server_see(comparison: Comparison) -> None:
    point = comparison.curve[0].points[3]
    step_s = BASE.step_s(8)
    assert point.base.tpot_p50 == pytest.approx(step_s, rel=0.03)
    assert point.base.user_speed == pytest.approx(1 / step_s, rel=0.03)
    assert point.base.output_throughput == pytest.approx(8 / step_s, rel=0.05)
    assert point.base.ttft_p50 is not None and point.base.ttft_p95 is not None
    assert point.base.ttft_p50 <= point.base.ttft_p95
    assert point.base.cost_per_million == pytest.approx(18 / 3600 / point.base.output_throughput * 1e6)


def test_a_request_that_takes_no_step_of_its_clock_is_no_part_of_the_load() -> None:
    def change(record: RequestRecord) -> RequestRecord:
        return record.model_copy(update={"sent_s": 1e10, "end_s": 1e-7} if record.index == 1 else {})

    found = compared(loads((1, 8)), SERVERS, change=change).curve[0]
    assert [round(point.under_way) for point in found.points] == [1, 7]


def test_the_break_even_length_is_the_ratio_of_the_two_step_times(comparison: Comparison) -> None:
    for point in comparison.curve[0].points:
        assert point.break_even == pytest.approx(ARM.step_s(point.under_way) / BASE.step_s(point.under_way), rel=0.06)
        assert point.acceptance_length == pytest.approx(TOKENS / ARM.mean_steps(), rel=0.15)
    below = [point.acceptance_length < point.break_even for point in comparison.curve[0].points]
    assert below[0] is False and below[-1] is True


def test_the_crossover_is_found_and_said_everywhere(comparison: Comparison) -> None:
    (found,) = comparison.curve[0].crossovers
    truth = true_crossover(BASE, ARM)
    assert found.direction == "stops" and found.load == pytest.approx(truth, rel=0.2)
    measured = [point.under_way for point in comparison.curve[0].points]
    assert found.low < truth < found.high
    assert all(min(abs(end - each) for each in measured) < 0.1 * end for end in (found.low, found.high))
    said = (
        f"Speculate below {found.load:.0f} requests at a time (95% CI {rounded(found.low)} to {found.high:.0f}, which "
        "were measured), not above."
    )
    assert comparison.answer.startswith(said), "it stands first"
    assert "At the first load, 8 at a time: sd against base pays" in comparison.answer
    assert (comparison.recommendation or "").startswith("At the first load, 8 at a time: ")
    assert render_terminal(comparison, width=1000).startswith(said)
    assert render_markdown(comparison).splitlines()[2].replace("\\", "").startswith(f"**{said}")
    (title,) = re.findall(r'<h1 id="answer-h">(.*?)</h1>', render_html(comparison))
    words = re.sub(r"<[^>]+>", "", title)
    assert words.startswith(said) and "At the first load" not in words
    assert '<p class="use">At the first load, 8 at a time: ' in render_html(comparison)
    forms = render_terminal(comparison, width=1000), render_markdown(comparison), render_html(comparison)
    for text, title in zip(forms, ("sd over", "### sd over", "<caption>sd over"), strict=True):
        assert said in text.replace("\\", "") and "32 at a time" in text and "break-even" in text
        assert f"{title} the load" in text


def test_the_table_has_a_row_for_each_level_and_the_crossover(comparison: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(comparison))))
    points = [row for row in rows if row["kind"] == "curve" and row["case"] == "all"]
    assert [row["load"] for row in points] == ["c1", "c2", "c4", "c8", "c16", "c32"]
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in points)
    (crossing,) = [row for row in rows if row["kind"] == "crossover" and row["case"] == "all"]
    assert crossing["metric"] == "stops" and float(crossing["value"]) == comparison.curve[0].crossovers[0].load


def test_of_arms_of_which_no_k_is_known_the_words_name_the_arms(comparison: Comparison) -> None:
    """Two servers that already ran: which of them speculates is not known."""
    named = comparison.curve[0].model_copy(update={"of_speculation": False})
    assert advice(named).startswith("sd is faster than base below ")
    ahead = named.model_copy(update={"crossovers": (), "points": named.points[:3]})
    assert advice(ahead) == (
        "sd is faster than base at every load measured, and no crossover is there up to 4 at a time."
    )
    behind = named.model_copy(update={"crossovers": (), "points": named.points[-1:]})
    assert advice(behind) == "sd is slower than base at every load measured, up to 32 at a time."
    mixed = advice(named.model_copy(update={"crossovers": ()}))
    assert mixed.startswith("sd is faster at 1, 2, 4")
    again = named.crossovers[0].model_copy(update={"load": 40.0, "direction": "starts"})
    twice = advice(named.model_copy(update={"crossovers": (*named.crossovers, again)}))
    assert twice.startswith("Whether sd is faster than base changes with the load more than once: it stops paying at ")


def test_only_a_pair_that_differs_in_speculation_is_told_to_speculate() -> None:
    tested = loads((1, 4), ks=(2, 6))
    first, second, third = tested.variants
    chained = tested.model_copy(update={"variants": (first, second, third.model_copy(update={"compare_to": "sd-k2"}))})
    found = compared(chained, {"base": BASE, "sd-k2": ARM, "sd-k6": ARM})
    assert {curve.variant: curve.of_speculation for curve in found.curve} == {"sd-k2": True, "sd-k6": False}


def test_the_load_in_words_says_that_large_loads_had_more_requests(comparison: Comparison) -> None:
    """Two for each request at a time: at 32 there were 64, not the 16 that were asked for."""
    assert "16 requests (up to 64 at large loads) per prompt type and arm" in render_terminal(comparison, width=1000)
    shown = compared(loads((1, 8)), SERVERS, seed=3)
    assert "16 requests per prompt type and arm" in render_terminal(shown, width=1000)
    assert "At the first load, 1 at a time: " in render_terminal(shown, width=1000)


def test_a_run_of_one_load_has_no_curve() -> None:
    tested = experiment()
    found = compare(experiment=tested, records=run_one_load(tested), context=context())
    assert found.curve == () and "load" not in found.answer + (found.recommendation or "")
    assert "over the load" not in render_markdown(found)


def test_counters_belong_to_the_load_that_they_were_read_at() -> None:
    tested = loads((1, 4))
    records = list(run(tested, SERVERS, seed=1))
    tokens = sum(r.completion_tokens or 0 for r in records if (r.variant, r.level) == ("sd", "c4"))
    counts = {"drafts": tokens // 2, "draft_tokens": 5 * (tokens // 2), "accepted_tokens": tokens // 2}
    counters = tuple(
        EngineCounters(variant=name, case="sonnet", level=level, **counts)
        for name, level in (("sd", "c4"), ("base", "c1"))
    )
    levels = measure(experiment=tested, records=records, context=context(counters=counters))
    assert [at.arms["sd", "sonnet"].arm.acceptance_source for at in levels] == [ESTIMATED, COUNTERS]


def test_a_run_whose_other_loads_are_lost_says_so() -> None:
    tested = loads((1, 4, 16))
    records = [each for each in run(tested, SERVERS, seed=1) if each.level == "c1"]
    found = compare(experiment=tested, records=records, context=context())
    assert found.answer.startswith("Nothing is known over the load: at fewer than two of 1, 4, 16 at a time there is ")
    assert "At the first load, 1 at a time: " in found.answer


def test_a_level_where_the_client_fell_behind_is_doubtful_and_one_beyond_the_batch_queues() -> None:
    def late(record: RequestRecord) -> RequestRecord:
        return record.model_copy(update={"time_doubt_s": 0.02 if record.level == "c4" and record.index % 4 else 0.0})

    found = compared(loads((1, 4, 80)), SERVERS, change=late)
    assert [point.doubtful for point in found.curve[0].points] == [False, True, False]
    assert [point.queueing for point in found.curve[0].points] == [False, False, True]
    assert "The load generator fell behind at 4 at a time: doubtful." in found.answer
    assert "requests queue" in render_markdown(found)


def test_a_case_that_is_missing_at_one_load_is_in_no_point() -> None:
    """Or a level of the other cases alone would look like an effect of load."""
    tested = loads((1, 4))
    other = tested.workload.cases[0].model_copy(update={"name": "extra"})
    cases = (*tested.workload.cases, other)
    tested = tested.model_copy(update={"workload": tested.workload.model_copy(update={"cases": cases})})
    records = [r for r in run(tested, SERVERS, seed=1) if (r.case, r.level) != ("extra", "c4")]
    curve = compare(experiment=tested, records=records, context=context()).curve[0]
    assert curve.cases == ("sonnet",) and curve.left_out == ("extra",)


def at(load: float, gain: float, error: float, base_s: float = 0.02) -> AtLoad:
    return AtLoad(load=load, base_load=load, base_s=base_s, gain=LogMean(gain, error**2, 15.0, 16))


def test_gains_that_cross_and_times_that_do_not_are_no_crossover_and_no_error() -> None:
    """A fast arm that met far fewer requests than its baseline: at equal load it is the slower one at both ends."""
    few = AtLoad(load=1.0, base_load=4.0, base_s=0.04, gain=LogMean(0.3, 0.0001, 15.0, 16))
    many = AtLoad(load=2.0, base_load=8.0, base_s=0.08, gain=LogMean(-0.3, 0.0001, 15.0, 16))
    assert crossings([few, many]) == []


@pytest.mark.parametrize(
    ("gain", "found"),
    [
        (LogMean(0.3, 0.01, 0.0, 1), 0),
        (LogMean(0.0, 0.0, 15.0, 16), 0),
        (LogMean(0.3, 0.0, 15.0, 16), 1),
        (LogMean(-0.3, 0.0, 15.0, 16), -1),
        (LogMean(0.2249, 0.1**2, 15.0, 16), 1),
        (LogMean(0.2248, 0.1**2, 15.0, 16), 0),
        (LogMean(-0.2249, 0.1**2, 15.0, 16), -1),
        (LogMean(-0.2248, 0.1**2, 15.0, 16), 0),
    ],
)
def test_a_sign_is_shown_from_98_percent_on(gain: LogMean, found: int) -> None:
    """t of 15 degrees of freedom: 2.2485 (tables)."""
    assert sign(gain) == found


@pytest.mark.parametrize(("t", "ends"), [(2.5, (4, 8)), (1.8, (2, 8)), (0.0, (2, 8)), (-1.8, (2, 8)), (-2.5, (2, 4))])
def test_a_level_between_ends_the_interval_where_95_percent_of_the_crossings_lie_beyond_it(
    t: float, ends: tuple[int, int]
) -> None:
    """Student's t of 15: 2.13 is the 97.5% quantile. Noise of the level between alone can move the crossing past it."""
    between = at(4, 0.02 * t, 0.02)
    (found,) = crossings([at(2, 0.3, 1e-4), between, at(8, -0.3, 1e-4)])
    assert (found.low, found.high) == ends


def test_what_is_drawn_for_an_interval_is_students_t() -> None:
    """Of 10 degrees of freedom: the variance of t is 10 / 8."""
    rng = random.Random(1)
    drawn = [_draw(LogMean(0.5, 0.1**2, 10.0, 11), rng) for _ in range(20_000)]
    assert mean(drawn) == pytest.approx(0.5, abs=0.003)
    assert variance(drawn) == pytest.approx(0.1**2 * 10 / 8, rel=0.05)
    assert {_draw(known, rng) for known in (LogMean(0.5, 0.0, 10.0, 11), LogMean(0.5, 0.1, 0.0, 1))} == {0.5}


def test_no_crossover_is_said_where_a_side_is_not_shown() -> None:
    assert crossings([at(1, 0.3, 0.02), at(8, -0.02, 0.02)]) == []
    assert crossings([at(1, 0.01, 0.02), at(8, -0.3, 0.02)]) == []
    (found,) = crossings([at(1, 0.3, 0.02), at(4, -0.01, 0.05), at(8, -0.3, 0.02)])
    assert found.direction == "stops" and (found.low, found.high) == (1, 8), "4 may be on either side"
    (found,) = crossings([at(1, 0.3, 0.02), at(4, 0.2, 0.02), at(8, -0.3, 0.02)])
    assert (found.low, found.high) == (4, 8), "nothing was measured between them"
    (found,) = crossings([at(2, 0.3, 0.0), at(4, 0.0, 0.0), at(8, -0.3, 0.0)])
    assert (found.low, found.load, found.high) == (4, 4, 4), "equal at a measured load"
    one_value = replace(at(1, 0.3, 0.0), gain=LogMean(0.3, 0.0, 0.0, 1))
    assert crossings([one_value, at(8, -0.3, 0.02)]) == [], "one prompt has no error that is known"


def test_the_crossing_is_exact_where_both_step_times_are_affine() -> None:
    """Base 20 ms + 0.2 ms a sequence; the arm 13 ms + 0.7 ms a sequence and token: equal at 14."""

    def exact(load: float) -> AtLoad:
        base, other = 0.020 + 0.0002 * load, 0.013 + 0.0007 * load
        return at(load, math.log(base / other), 1e-6, base)

    (found,) = crossings([exact(load) for load in LEVELS])
    assert found.load == pytest.approx(14.0, rel=1e-6)
    assert (found.low, found.high) == (8, 16)


def test_speculation_that_stops_and_starts_again_has_two_crossovers() -> None:
    first, second = crossings([at(1, 0.3, 0.02), at(2, -0.1, 0.02), at(32, 0.15, 0.02)])
    assert (first.direction, second.direction) == ("stops", "starts") and first.load < 2 < second.load


def test_loads_beside_the_crossover_that_show_nothing_are_named(comparison: Comparison) -> None:
    """Above it speculation costs where that is shown, and not wherever it was measured."""
    curve = comparison.curve[0]
    assert "neither arm is shown" not in advice(curve)

    def said(signs: str) -> str:
        ends = {sign: {"low": at - 0.1, "high": at + 0.1} for sign, at in (("+", 1.2), ("0", 1.0), ("-", 0.8))}
        ends["="] = {"low": 0.99, "high": 1.02}
        points = [
            point.model_copy(update={"speedup": point.speedup.model_copy(update=ends[each])})
            for point, each in zip(curve.points, signs, strict=True)
        ]
        return advice(curve.model_copy(update={"points": tuple(points)}))

    assert said("++0-00").endswith(", not above; at 16, 32 at a time neither arm is shown to be faster."), (
        "4 lies between two that do"
    )
    assert said("0+-+0-").endswith(", not above; at 1 at a time neither arm is shown to be faster.")
    assert said("++++--").endswith(", not above.")
    assert said("++=--0").endswith(
        "; at 4 at a time it makes no relevant difference; at 32 at a time neither arm is shown to be faster."
    )
    assert said("===--0") == (
        "Speculation is slower at 8, 16 at a time and makes no relevant difference at 1, 2, 4 at a time; at 32 at a "
        "time that is not known."
    ), "it passes 1, and speculation is advised nowhere"


def test_loads_where_the_server_does_not_gain_as_a_request_does_are_named(comparison: Comparison) -> None:
    """A few slow requests hold up the whole server: what a user sees and what it writes in all are two figures."""
    curve = comparison.curve[0]
    assert "the server as a whole" not in advice(curve), "here they agree at every load"

    def said(ratios: dict[int, float]) -> str:
        points = [
            point.model_copy(
                update={"other": point.other.model_copy(update={"output_throughput": ratio and before * ratio})}
            )
            if (ratio := ratios.get(int(point.level.value), -1.0)) >= 0 and (before := point.base.output_throughput)
            else point
            for point in curve.points
        ]
        return advice(curve.model_copy(update={"points": tuple(points)}))

    lost = "At {} a request is faster, but the server as a whole writes fewer tokens a second with sd ({})."
    assert lost.format("1, 4 at a time", "0.80×, 0.70×") in said({1: 0.8, 4: 0.7})
    assert "the server as a whole" not in said({1: 0.99}), "no more than what is not sure"
    assert "the server as a whole" not in said({1: 0.0}), "nothing is known of it"
    won = "At 32 at a time a request is slower, but the server as a whole writes more tokens a second with sd (1.40×)."
    assert won in said({32: 1.4})
    assert won in said({1: 0.8, 32: 1.4}) and lost.format("1 at a time", "0.80×") in said({1: 0.8, 32: 1.4})
    slow = curve.points[0].other.model_copy(update={"output_throughput": 1.0})
    points = (curve.points[0].model_copy(update={"other": slow}), *curve.points[1:])
    told = comparison.model_copy(update={"curve": (curve.model_copy(update={"points": points}),)})
    assert all("the server as a whole writes fewer" in render(told) for render in (render_markdown, render_html))


@pytest.mark.parametrize("shared", [0.0, 0.03])
def test_the_same_arm_twice_has_no_crossover(shared: float) -> None:
    """Nor where each level has noise that all its requests share: their spread does not show it."""
    tested = loads(LEVELS, requests=8)
    for seed in range(5):
        found = compared(tested, {"base": BASE, "sd": BASE}, seed=seed, shared=shared)
        assert found.curve[0].crossovers == ()
        assert "Speculate at every load" not in found.answer and "Do not speculate" not in found.answer


def test_a_doubtful_level_settles_no_side() -> None:
    """Its times are the load generator's own doing: the last one alone would say that speculation stops."""

    def at_the_end(record: RequestRecord) -> RequestRecord:
        return record.model_copy(update={"time_doubt_s": 0.02 if record.level == "c32" else 0.0})

    tested = loads((1, 4, 32))
    assert compared(tested, SERVERS).curve[0].crossovers
    found = compared(tested, SERVERS, change=at_the_end)
    assert found.curve[0].crossovers == () and found.curve[0].points[-1].speedup.ratio < 0.8
    assert "Speculation is faster at 1, 4 at a time; at" in found.answer


@pytest.mark.parametrize("lost", ["failed", "doubtful"])
def test_a_crossover_across_a_lost_load_is_known_no_better_than_the_loads_beside_it(lost: str) -> None:
    def at_16(record: RequestRecord) -> RequestRecord:
        if record.level != "c16":
            return record
        if lost == "doubtful":
            return record.model_copy(update={"time_doubt_s": 0.02})
        error = RequestError(kind=ErrorKind.TIMEOUT, message="late")
        return record.model_copy(update={"error": error, "chunks": (), "completion_tokens": None})

    tested = loads((1, 4, 8, 16, 32))
    whole, curve = compared(tested, SERVERS).curve[0], compared(tested, SERVERS, change=at_16).curve[0]
    (narrow,), (wide,) = whole.crossovers, curve.crossovers
    beside = {point.level.name: point.under_way for point in curve.points}
    assert wide.low < beside["c8"] * 1.1 and wide.high > beside["c32"] * 0.9
    assert wide.low <= narrow.low * 1.1 and narrow.high < wide.high * 1.1


@pytest.mark.parametrize(("batch", "levels"), [(32, (1, 8, 128)), (24, (1, 2, 4, 8, 256)), (32, (1, 4, 16, 64, 128))])
def test_a_load_that_queues_does_not_move_the_crossover(batch: int, levels: tuple[int, ...]) -> None:
    """Beyond the batch a request's time grows with the queue, not with the step: the crossover is one of batches."""
    tested = loads(levels, requests=32, batch=batch, rounds=2)
    arm = Server(base_s=0.027, per_sequence_s=0.0030, k=6, acceptance=0.8)
    (curve, *_) = compared(tested, {"base": BASE, "sd": arm}, queues=True).curve
    assert curve.points[-1].queueing and curve.points[-1].under_way > 1.5 * batch
    at = (Level(concurrency=levels[0]), Level(concurrency=levels[-1]), Level(rate=2.0))
    assert [within_batch(tested, level, "sd") for level in at] == [1.0, batch / levels[-1], 1.0]
    (found,) = curve.crossovers
    assert found.load == pytest.approx(true_crossover(BASE, arm), rel=0.15)
    assert found.high < batch
