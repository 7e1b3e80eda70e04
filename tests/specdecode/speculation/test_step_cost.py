"""The card of step costs, and what is guessed before a forecast: read right, honest, cited, narrowed by own runs."""

import math

import pytest
from specdecode.analysis.advice.sweep import advise_sweep, candidates, kind, prior_of
from specdecode.cli.report_view import advice_document, advice_text
from specdecode.experiment.files import load
from specdecode.experiment.most_tokens import MostTokens
from specdecode.speculation.belief import Candidate, believe
from specdecode.speculation.guess import finding, known
from specdecode.speculation.step_cost import LEAST, Card, MeasuredStep, StepArm, arms, log_extra, of_rows, published

ROWS = published()


@pytest.mark.parametrize(
    ("target", "k", "concurrency", "ratio"),
    [
        ("Llama-3.1-8B", 3, 2, 1.962),
        ("gpt-oss-120b", 1, 1, 1.405),
        ("Llama-3.1-8B", 9, 4, 2.623),
        ("Qwen3-4B", 15, 4, 6.087),
    ],
)
def test_a_published_step_is_as_long_as_its_source_says(target: str, k: int, concurrency: int, ratio: float) -> None:
    row = next(row for row in ROWS if target in row.target and (row.k, row.concurrency) == (k, concurrency))
    assert 1.0 + math.exp(row.log_extra[0]) == pytest.approx(ratio, abs=0.002)


def test_the_width_is_honest_leaving_one_out() -> None:
    """Each row against what the others say of it: no more than one in ten beyond the 90% interval, none far beyond."""
    apart = []
    for at, row in enumerate(ROWS):
        value, error = row.log_extra
        ((mean, deviation),) = of_rows(ROWS[:at] + ROWS[at + 1 :]).predict([row.arm])
        apart.append(abs(value - mean) / math.hypot(deviation, error))
    assert len(apart) >= 13
    assert sum(each > 1.645 for each in apart) <= 0.25 * len(apart) and max(apart) < 2.5
    assert 0.5 < math.sqrt(math.fsum(each**2 for each in apart) / len(apart)) < 1.2


def test_a_row_without_tokens_per_step_only_bounds_the_cost() -> None:
    row = next(row for row in ROWS if row.draft == "Qwen/Qwen3-1.7B")
    assert (row.tokens_per_step, row.most_tokens_per_step) == (None, MostTokens.K)
    value, error = row.log_extra
    reach = error * math.sqrt(3.0)
    assert math.exp(value - reach) == pytest.approx(7 * 3.8 / 61.1), "reading the draft's weights k times"
    assert math.exp(value + reach) == pytest.approx(7 / 3.0 - 1.0), "7 tokens at most, 3 times as fast"


def test_it_knows_an_arm_the_less_the_less_alike_it_is_and_own_runs_narrow_it() -> None:
    arm = arms(load("qwen3-32b-tuning"))["Qwen/Qwen3-1.7B"]._replace(k=7)
    card = of_rows(ROWS)
    elsewhere = arm._replace(engine="other", target="x", draft="y")
    ((mean, known), (_, unknown), (nothing, widest)) = *card.predict([arm, elsewhere]), *Card().predict([arm])
    assert known < unknown < widest
    assert math.exp(nothing) == pytest.approx(0.4 * 7**0.6) and 0.5 < math.exp(mean) < 1.33
    own = Card((*card.rows, MeasuredStep(arm, *log_extra(5.0, 2.0, 0.03))))
    ((mean, narrow),) = own.predict([arm])
    assert math.exp(mean) == pytest.approx(1.5, rel=0.05) and narrow < known / 3


def test_a_step_that_costs_nothing_more_has_a_logarithm() -> None:
    assert log_extra(2.0, 2.1, 0.03) == (pytest.approx(math.log(LEAST)), pytest.approx(0.03 * 2.0 / 2.1 / LEAST))


def test_a_jump_that_many_precise_runs_show_is_certain() -> None:
    ks, arm = (1, 2, 3, 4, 5, 6), ROWS[0].arm
    rows = tuple(MeasuredStep(arm._replace(k=k), -4.0 if k < 4 else 3.0, error=0.001) for k in ks)
    chances = [chance for chance, _ in Card(rows).curves([arm._replace(k=k) for k in ks])]
    assert chances == pytest.approx([float(k == 4) for k in ks])


def test_the_arms_of_an_experiment_are_those_of_the_card() -> None:
    found = arms(load("llama-3.1-8b-eagle3"))
    (row,) = [row for row in ROWS if row.draft in found]
    assert found[row.draft] == row.arm._replace(concurrency=found[row.draft].concurrency)
    assert {arm.engine for arm in arms(load("qwen3-32b-tuning")).values()} == {"nxd-inference"}
    assert isinstance(next(iter(found.values())), StepArm)


TUNING = load("qwen3-32b-tuning")
SMALL, LARGE = "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"


def test_the_first_proposal_is_the_articles_best_arm_and_its_words_are_cited() -> None:
    document = advice_document(advise_sweep(TUNING), TUNING)
    assert (document["compile_next"]["draft"], document["compile_next"]["k"]) == (LARGE, 7)
    text = advice_text(document)
    assert "about 60 % less" in text and "AWS Machine Learning Blog" in text and "open-ended ones gain nothing" in text


@pytest.mark.parametrize(("group", "speedup"), [("structured", 3.0), ("open-ended", 1.0)])
def test_the_pair_is_expected_to_gain_what_the_article_measured(group: str, speedup: float) -> None:
    mean, deviation = believe(LARGE, [7], (), most=kind(TUNING), prior=prior_of(TUNING, group))[Candidate(LARGE, 7)]
    assert 2.718**mean == pytest.approx(speedup, rel=0.05)
    assert deviation > 0.15, "it is a guess"


def test_the_smaller_draft_accepts_so_much_less_and_all_prompts_lie_between_the_groups() -> None:
    of = {name: prior_of(TUNING, name).tokens for name in ("structured", "open-ended", "all")}
    accepted = {draft: of["structured"][Candidate(draft, 7)][0] - 1.0 for draft in (SMALL, LARGE)}
    assert accepted[SMALL] / accepted[LARGE] == pytest.approx(0.4, abs=0.01)
    for at in candidates(TUNING):
        assert of["open-ended"][at][0] < of["all"][at][0] < of["structured"][at][0]


def test_another_pair_gets_a_wide_guess_and_no_citation() -> None:
    other = load("gpt-oss-20b-eagle3-small")
    (tokens, spread) = next(iter(prior_of(other).tokens.values()))
    assert 1.0 < tokens < 2.0 and spread >= 0.3
    assert advice_document(advise_sweep(other), other)["found_elsewhere"] == []
    assert finding("Qwen/Qwen3-32B", "another/draft") is None and set(known().groups) == {"structured", "open-ended"}
