"""What is guessed before a forecast or a run agrees with what the article found for its own pair, and cites it."""

import pytest
from specdecode.analysis.advice.sweep import advise_sweep, candidates, kind, prior_of
from specdecode.cli.report_view import advice_document, advice_text
from specdecode.experiment.files import load
from specdecode.speculation.belief import Candidate, believe
from specdecode.speculation.guess import finding, known

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
