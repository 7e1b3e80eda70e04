"""What each arm carries at the service-level objective: the same in every output, and failed requests are not good."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from pydantic import ValidationError
from specdecode.analysis import Comparison, compare
from specdecode.analysis.datums import metric_data
from specdecode.analysis.loads.objective import carried, limits
from specdecode.analysis.report import render_csv, render_html, render_markdown, render_terminal
from specdecode.analysis.results.over_load import GoodAtLoad, Objective
from specdecode.analysis.several_runs.alike import not_learnable
from specdecode.analysis.several_runs.difference import Repeated, RunDifference, difference
from specdecode.analysis.texts.by_load import shares_differ
from specdecode.cli.report_view import difference_text
from specdecode.experiment.workload import Level, Slo
from specdecode.measures.publish import problems
from specdecode.records import ErrorKind, RequestError, RequestRecord

from tests.specdecode.analysis.simulate import context
from tests.specdecode.analysis.simulate_load import Server, compared, loads, run

BASE = Server()
ARM = Server(base_s=0.026, per_sequence_s=0.0016, k=5, acceptance=0.55)
LEVELS = (8, 1, 2, 4, 32, 16)
SLO = Slo(tpot_s=0.021, share=0.7)


SERVERS = {"base": BASE, "sd": ARM}


def at_slo(slo: Slo = SLO, levels: tuple[int, ...] = LEVELS, *, fails: str = "", late: str = "") -> Comparison:
    """`fails`: the level at which half of the arm's requests fail; `late`: that at which the client falls behind."""

    def change(record: RequestRecord) -> RequestRecord:
        if record.level == late:
            return record.model_copy(update={"time_doubt_s": 0.02})
        if (record.variant, record.level) != ("sd", fails) or record.index % 2:
            return record
        error = RequestError(kind=ErrorKind.TIMEOUT, message="late")
        return record.model_copy(update={"error": error, "chunks": (), "completion_tokens": None})

    return compared(loads(levels, slo=slo), SERVERS, seed=3, change=change)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return at_slo()


def test_each_arm_carries_the_largest_load_up_to_which_it_keeps_the_objective(comparison: Comparison) -> None:
    carries = {}
    for found in comparison.objective:
        assert [each.level.concurrency for each in found.loads] == [1, 2, 4, 8, 16, 32]
        kept = next(number for number, each in enumerate(found.loads) if each.share < 0.7)
        assert kept > 0 and found.keeps == found.loads[kept - 1].level
        carries[found.variant] = found.keeps
    assert carries["sd"].value > carries["base"].value
    said = f"At your SLO sd carries {carries['sd']} and base {carries['base']}, of the loads measured."
    assert said in comparison.answer


def test_a_load_at_which_requests_failed_is_not_kept_whatever_the_larger_ones_do() -> None:
    """Failed requests are in no speed-up, so that the curve has no point there; they are in the objective."""
    found = at_slo(Slo(tpot_s=10.0), fails="c4")
    sd = next(each for each in found.objective if each.variant == "sd")
    assert [each.share for each in sd.loads] == [1, 1, 0.5, 1, 1, 1] and sd.keeps == Level(concurrency=2)
    assert "c4" not in {point.level.name for point in found.curve[0].points}
    assert "At your SLO sd carries 2 at a time and base 32 at a time, of the loads measured." in found.answer
    assert "4 at a time has no speed-up" in found.answer
    assert any("sd" in failure.message and "at 4 at a time" in failure.message for failure in found.context.failures)


def test_arms_are_held_to_the_objective_over_the_cases_that_all_of_them_have() -> None:
    """An arm that was not asked for the long answers does not carry more than one that was."""
    tested = loads((1, 4), slo=Slo(tpot_s=0.04, share=0.9), cases=2)
    slow = [each.model_copy(update={"end_s": 9 * each.end_s,
                                    "chunks": tuple(replace(chunk, at_s=9 * chunk.at_s) for chunk in each.chunks)})
            if each.case == "sonnet" else each for each in run(tested, SERVERS, seed=3)]  # fmt: skip
    whole, part = (
        compare(experiment=tested, records=records, context=context())
        for records in (slow, [each for each in slow if (each.variant, each.case) != ("sd", "sonnet")])
    )
    assert [each.keeps for each in whole.objective] == [None, None]
    assert [each.keeps for each in part.objective] == [Level(concurrency=4)] * 2
    said = "What each arm carries is without sonnet at 4 at a time, as not every arm has it."
    assert said in part.notes and not any("carries is without" in each for each in whole.notes)


def test_what_is_carried_at_a_load_where_the_client_fell_behind_is_doubtful(comparison: Comparison) -> None:
    """Not if only a load beyond the first that is not kept is."""
    base, _ = comparison.objective
    assert base.keeps and base.keeps.concurrency
    own = f"c{base.keeps.concurrency}"
    found = at_slo(late=own)
    assert [each.level.name for each in found.objective[0].loads if each.doubtful] == [own]
    assert f"of the loads measured (the load generator was late in some requests at {base.keeps})." in found.answer
    assert f"; the load generator was late in some of its requests at {base.keeps}" in carried(found.objective[0])
    assert "late" not in carried(at_slo(late="c32").objective[0])


def test_every_form_says_what_each_arm_carries(comparison: Comparison) -> None:
    base, sd = comparison.objective
    at = next(each for each in base.loads if each.level == base.keeps)
    said = (
        f"SLO: TPOT at most 21 ms, for 70% of the requests: base carries {base.keeps} ({100 * at.share:.0f}% good, "
        f"{at.goodput:.3g} good a second); sd carries {sd.keeps} ("
    )
    assert said in render_terminal(comparison, width=1000)
    for form in (render_markdown(comparison), render_html(comparison)):
        assert f"base carries {base.keeps}" in form.replace("\\", "") and "SLO" in form
    rows = [row for row in csv.DictReader(io.StringIO(render_csv(comparison))) if row["kind"] == "objective"]
    kept = {row["variant"]: float(row["value"]) for row in rows if row["metric"] == "largest_load_kept"}
    assert kept == {"base": base.keeps and base.keeps.value, "sd": sd.keeps and sd.keeps.value}
    goodput = [float(row["value"]) for row in rows if (row["metric"], row["variant"]) == ("goodput", "sd")]
    assert goodput == [each.goodput for each in sd.loads]


def test_a_run_of_one_load_says_it_too() -> None:
    found = at_slo(Slo(ttft_s=0.5, tpot_s=0.0205), (4,))
    assert not found.curve
    text = render_terminal(found, width=1000)
    assert "SLO: TTFT at most 500 ms, TPOT at most 20.5 ms, for 95% of the requests: base does not keep it at 4" in text
    assert "sd carries 4 at a time (" in text and "of the loads measured" not in text


def test_a_point_of_the_curve_has_the_share_of_good_requests_of_its_load(comparison: Comparison) -> None:
    good = {(each.variant, at.level): (at.share, at.goodput) for each in comparison.objective for at in each.loads}
    for point in comparison.curve[0].points:
        for name, at in (("base", point.base), ("sd", point.other)):
            assert (at.good_share, at.goodput) == pytest.approx(good[name, point.level])
    none = GoodAtLoad(level=Level(concurrency=1), requests=4, good=0, goodput=0.0)
    assert carried(Objective(variant="sd", loads=(none,), keeps=None)) == "sd does not keep it at 1 at a time (0% good)"


def test_without_an_objective_nothing_is_said_of_one() -> None:
    found = at_slo(Slo())
    assert found.objective == () and "SLO:" not in render_terminal(found) + found.answer
    assert {datum["MetricName"] for datum in metric_data(found)}.isdisjoint({"LargestLoadKept"})


def test_the_largest_load_of_each_arm_goes_to_cloudwatch(comparison: Comparison) -> None:
    data = [datum for datum in metric_data(comparison) if datum["MetricName"] == "LargestLoadKept"]
    assert [problem for datum in data for problem in problems(datum)] == []
    sent = {tuple(item["Value"] for item in datum["Dimensions"]): datum["Values"] for datum in data}
    base, sd = (each.keeps.value if each.keeps else 0 for each in comparison.objective)
    assert sent == {("simulated", "Base"): [base], ("simulated", "SD"): [sd]}
    none = at_slo(Slo(ttft_s=1e-6))
    kept = [datum["Values"] for datum in metric_data(none) if datum["MetricName"] == "LargestLoadKept"]
    assert kept == [[0.0], [0.0]], "an arm that keeps it nowhere is no gap in a chart"


def test_a_report_that_keeps_a_load_without_figures_is_refused() -> None:
    one = GoodAtLoad(level=Level(concurrency=1), requests=4, good=4, goodput=1.0)
    with pytest.raises(ValidationError, match="keeps a load that it has no figures of: 8 at a time"):
        Objective(variant="sd", loads=(one,), keeps=Level(concurrency=8))


def test_runs_at_one_objective_are_compared_in_what_they_carry_and_runs_at_two_are_not(comparison: Comparison) -> None:
    """A speed-up does not depend on the objective: that is compared all the same."""
    again = comparison.model_copy(update={"run_id": "again"})
    same = difference([comparison, again])
    assert isinstance(same, Repeated)
    assert [(each.variant, len(each.before), each.after) for each in same.carried] == [("base", 2, ()), ("sd", 2, ())]
    base, sd = (each.keeps for each in comparison.objective)
    assert f"Largest load that keeps the objective, run by run:\n  base: {base}; {base}\n  sd: {sd}; {sd}\n" in (
        difference_text(same)
    )
    stricter = at_slo(Slo(tpot_s=0.0206, share=0.7)).model_copy(update={"run_id": "stricter"})
    other = difference([comparison, stricter])
    assert isinstance(other, RunDifference) and other.carried == () and other.incomparable == ()
    assert other.other_objective == ("workload.slo.tpot_s: 0.021 -> 0.0206",)
    text = difference_text(other)
    assert "These largest loads have different objectives and are not compared:\n  workload.slo.tpot_s: 0.021" in text
    assert "not comparable" not in text and "Largest load" not in text
    newer = again.model_copy(update={"context": again.context.model_copy(update={"versions": {"engine": "2"}})})
    assert f"  sd: {sd} -> {sd}\n" in difference_text(difference([comparison, newer]))
    assert not_learnable(comparison.experiment, stricter.experiment) == [], "the advisor learns from speed-ups"


def test_limits_in_words() -> None:
    asked = Slo(ttft_s=2, e2e_s=30, share=0.999)
    assert limits(asked) == "TTFT at most 2 s, end-to-end latency at most 30 s, for 99.9% of the requests"


def test_arms_that_carry_different_loads_by_chance_are_not_said_to_differ() -> None:
    """Two equal arms are told apart in half of the runs where the share asked for is that of a load."""
    arm, unlike = Server(base_s=0.026, per_sequence_s=0.0005, k=5, acceptance=0.55), 0
    for seed in range(8):
        tested = loads((1, 4, 8, 12), requests=32, slo=Slo(e2e_s=1.11, share=0.95))
        base, sd = tested.variants
        equal = base.model_copy(update={"speculation": sd.speculation})
        tested = tested.model_copy(update={"variants": (equal, sd)})
        found = compared(tested, {"base": arm, "sd": arm}, seed=seed)
        if len({each.keeps for each in found.objective}) > 1:
            unlike += 1
            assert "of the loads measured; that they differ is not shown (" in found.answer
    assert unlike, "or this shows nothing"


def test_shares_differ_where_chance_does_not_explain_it() -> None:
    assert not shares_differ(30, 32, 32, 32) and not shares_differ(0, 4, 0, 4) and not shares_differ(4, 4, 4, 4)
    assert shares_differ(20, 32, 32, 32) and shares_differ(32, 32, 20, 32) and shares_differ(900, 1000, 960, 1000)


def test_a_rate_at_which_all_is_sent_before_the_first_answer_ends_is_not_carried() -> None:
    """Sixteen requests at 64 a second are sent in a quarter of a second, however slow the server is."""
    tested = loads((0.05, 64.0), slo=Slo(ttft_s=60), requests=16, open_loop=True)
    found = compared(tested, SERVERS, seed=3)
    for each in found.objective:
        assert [(at.share, at.enough) for at in each.loads] == [(1, True), (1, False)]
        assert each.keeps == Level(rate=0.05)
    said = "not shown at 64 requests a second (too few requests to tell: answers came long after the last was sent)"
    assert all(said in carried(each) for each in found.objective)
    two = loads((0.05, 0.06), slo=Slo(ttft_s=60), requests=16, open_loop=True, cases=2)

    def long_after(record: RequestRecord) -> RequestRecord:
        return record.model_copy(update={"end_s": record.end_s + (1e4 if record.case == "sonnet" else 0.0)})

    slow = compared(two, SERVERS, seed=3, change=long_after).objective[0]
    assert not any(at.enough for at in slow.loads), "one case whose answers came long after is enough to doubt"
    hasty = found.objective[0].model_copy(update={"loads": found.objective[0].loads[1:], "keeps": None})
    assert carried(hasty).startswith("base is not shown to keep it at 64 requests a second")
