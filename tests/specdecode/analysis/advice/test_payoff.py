"""What a forecast says of an experiment: the forecast wins over the guess, and its range is honest."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from specdecode.analysis import compare
from specdecode.analysis.advice.learned import rows_of
from specdecode.analysis.advice.payoff import payoff, payoff_line, percent
from specdecode.analysis.advice.sweep import advise_sweep, candidates, next_step, prior_of
from specdecode.analysis.report import render_terminal
from specdecode.analysis.results.numbers import times
from specdecode.experiment.files import load, load_engine
from specdecode.experiment.model import Experiment, Sweep
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.shapes import HOME
from specdecode.experiment.told import Forecasted
from specdecode.speculation.belief import Candidate, tokens_at

from tests.specdecode.analysis.simulate import context, experiment, run

TUNING = load("qwen3-32b-tuning")
SMALL, LARGE = "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"
KS = range(5, 16)
BENCHMARKS = Path(__file__).resolve().parents[4] / "benchmarks"


STRUCTURED = tuple(case.name for case in TUNING.workload.cases if case.structured)
OPEN = tuple(case.name for case in TUNING.workload.cases if not case.structured)


def told(small: float, large: float, cases: tuple[str, ...] = STRUCTURED + OPEN) -> Experiment:
    """A forecast in which a step yields so many tokens at every k."""
    each = [
        Forecasted(draft=draft, case=case, prompts=8, at=tuple((k, tokens, 0.01) for k in KS))
        for draft, tokens in ((SMALL, small), (LARGE, large))
        for case in cases
    ]
    return TUNING.model_copy(update={"forecast": tuple(each)})


def test_the_forecast_wins_over_the_guess_and_decides_what_is_compiled_first() -> None:
    found = payoff(told(small=5.0, large=1.2))
    assert found.whole.forecast and found.worth_a_compile == ("sd-qwen3-0.6b-k5",), "more k cost more and yield nothing"
    tokens = found.whole.best.tokens_per_step
    assert (tokens.value, tokens.high / tokens.low) == (pytest.approx(5.0), pytest.approx(1.0, abs=0.07))
    first = advise_sweep(told(small=5.0, large=1.2)).together.compile_next
    assert first == Candidate(SMALL, 5)


def test_no_arm_is_worth_a_compile_where_steps_yield_no_more_than_they_cost() -> None:
    found = payoff(told(small=1.1, large=1.3))
    assert found.worth_a_compile == () and found.whole.best.chance < 0.2
    assert all(one.speedup.low < one.speedup.value < one.speedup.high for one in found.whole.at)


def test_all_prompts_are_the_mean_of_the_cases_and_a_group_has_its_own() -> None:
    mixed = told(2.0, 6.0, STRUCTURED).forecast + told(2.0, 1.5, OPEN).forecast
    both = TUNING.model_copy(update={"forecast": mixed})
    of = {group: prior_of(both, group).tokens[Candidate(LARGE, 7)][0] for group in ("structured", "open-ended", "all")}
    assert of == {
        "structured": pytest.approx(6.0),
        "open-ended": pytest.approx(1.5),
        "all": pytest.approx(3.0),
    }
    assert payoff(both).whole.prompts == "all"
    line = payoff_line(payoff(both))
    assert "on structured" in line and "on open-ended" in line and "chance" in line


def test_a_few_k_are_no_sweep_unless_the_experiment_says_so() -> None:
    ks = (3, 4, 5)
    for given, wanted in ((ks, ks), (ks[1:], tuple(range(1, 16)))):
        assert tuple(each.k for each in candidates(experiment(ks=given))) == wanted
    adaptive = experiment(ks=ks[1:]).model_copy(update={"sweep": Sweep.ADAPTIVE})
    assert tuple(each.k for each in candidates(adaptive)) == ks[1:]


def test_a_head_that_takes_no_other_k_is_advised_with_its_own_alone() -> None:
    dflash = load("llama-3.1-8b-dflash")
    assert [each.k for each in candidates(dflash)] == [9] and len(candidates(load("llama-3.1-8b-eagle3"))) > 9


def test_what_is_not_known_is_said_where_it_matters() -> None:
    warm = TUNING.workload.model_copy(update={"temperature": 0.7, "concurrency": (1, 4)})
    cold, both = (payoff(each).unknown for each in (TUNING, TUNING.model_copy(update={"workload": warm})))
    for words in ("other loads than the first", "what probabilistic verification accepts"):
        assert not any(each.startswith(words) for each in cold) and any(each.startswith(words) for each in both)


def test_dollars_are_those_of_the_arms_share_of_the_node() -> None:
    at = payoff(TUNING).whole.best
    assert at.dollars_per_million is not None
    low, high = at.dollars_per_million
    price, estimates = TUNING.shape.price_in(HOME), load_engine(TUNING.engine).estimates
    assert price is not None
    plain = [price.usd * 8 / 16 / 3600 * 1e6 / 4 * seconds for seconds in estimates.seconds_per_output_token]
    assert [low * at.speedup.high, high * at.speedup.low] == pytest.approx(plain), "8 of 16 devices, 4 at a time"
    half = TUNING.model_copy(update={"serving": TUNING.serving.model_copy(update={"devices": 16})})
    assert payoff(half).whole.best.dollars_per_million == pytest.approx((2 * low, 2 * high))


def test_a_finished_run_adds_rows_without_text_that_narrow_the_next_forecast() -> None:
    tested = experiment(ks=(3, 7))
    rows = rows_of(compare(experiment=tested, records=run(tested), context=context()))
    assert {row.k for row in rows} == {3, 7} and all(row.tokens_per_step and row.engine for row in rows)
    words = {word for row in rows for word in row.model_dump_json().split('"')}
    assert not any(record.output and record.output in word for record in run(tested) for word in words)
    width = [
        math.log(each.whole.best.speedup.high / each.whole.best.speedup.low)
        for each in (payoff(tested), payoff(tested, rows))
    ]
    assert width[1] < width[0]


def test_an_experiment_without_speculation_has_nothing_to_forecast() -> None:
    with pytest.raises(ValueError, match="nothing to forecast"):
        payoff(TUNING.model_copy(update={"variants": TUNING.variants[:1]}))


def test_a_head_is_guessed_from_its_evidence_and_no_forecast_of_it_is_promised() -> None:
    tested = load("llama-3.1-8b-eagle3")
    found = payoff(tested)
    at = {one.k: one.tokens_per_step.value for one in found.whole.at}
    assert at[3] == pytest.approx(3.22) and all(at[k] < at[k + 1] < k + 2 for k in range(1, 8))
    assert any("with k=3" in each and "3.22" in each and "Neuron doc" in each for each in found.found_elsewhere)
    (said,) = [each for each in found.unknown if each.startswith("tokens per step")]
    assert "guessed from what was found elsewhere" in said and "hidden states" in said
    base, head, *_ = tested.variants
    new = head.speculation.draft.model_copy(update={"id": "mine/eagle3"})
    other = head.model_copy(update={"speculation": head.speculation.model_copy(update={"draft": new})})
    alone = payoff(tested.model_copy(update={"variants": (base, other)}))
    assert any("mine/eagle3, a wide guess" in each for each in alone.unknown) and not alone.found_elsewhere


def test_one_type_of_prompts_is_no_forecast_of_the_others() -> None:
    """A type without a forecast keeps its guess, with the guess's spread; and what is guessed is said."""
    guess, found = payoff(TUNING), {each: payoff(told(3.0, 3.0, (each,))) for each in STRUCTURED + OPEN}
    for case, own in found.items():
        flags = {on.prompts: on.forecast for on in own.on}
        assert flags == {case: True, "structured": False, "open-ended": False, "all": False}
        (left,) = [said for said in own.unknown if "0.6B on " in said]
        assert case not in left and all(each in left for each in STRUCTURED + OPEN if each != case)
        wide, most = ({one.name: one.tokens_per_step for one in each.whole.at} for each in (own, guess))
        for arm, one in wide.items():
            assert 1.2 < one.high / one.low < most[arm].high / most[arm].low
    assert [on.at for on in found["meaning-of-life"].on if on.prompts == "structured"] == [guess.on[0].at]
    half = {on.prompts: on.forecast for on in payoff(told(4.0, 4.0, OPEN)).on if on.prompts not in OPEN}
    assert half == {"structured": False, "open-ended": True, "all": False}
    assert not any("guessed" in said for said in payoff(told(4.0, 4.0)).unknown)


def test_a_forecast_of_all_prompts_alone_says_nothing_of_their_kinds() -> None:
    found = payoff(told(2.3, 1.5, ("all",)))
    assert [(on.prompts, on.forecast) for on in found.on] == [("all", True)]
    assert " on all prompts; " in payoff_line(found) and not any("guessed" in said for said in found.unknown)
    logged = payoff(told(2.3, 1.5, ("chat", "code")))
    assert [on.prompts for on in logged.on] == ["chat", "code", "all"] and " on all prompts; " in payoff_line(logged)


def test_a_forecast_of_a_few_k_holds_between_and_beyond_them() -> None:
    """Else the sweep compiles a k that no forecast has, by a guess which the forecast rules out."""
    ats = {SMALL: ((1, 1.0), (3, 1.95), (5, 2.29), (7, 2.41)), LARGE: ((3, 1.476), (5, 1.534), (7, 1.54))}
    few = [
        Forecasted(draft=draft, case="all", prompts=40, at=tuple((k, tokens, 0.005) for k, tokens in at))
        for draft, at in ats.items()
    ]
    tested = TUNING.model_copy(update={"forecast": tuple(few)})
    found = payoff(tested)
    for draft, at in ats.items():
        curve = {one.k: one.tokens_per_step for one in found.whole.at if one.draft == draft}
        values = [curve[k].value for k in sorted(curve)]
        assert list(curve) == list(KS) and values == sorted(values) and values[-1] < 1.03 * at[-1][1]
        assert [curve[k].value for k in (5, 7)] == pytest.approx([tokens for _, tokens in at[-2:]])
        assert curve[6].high / curve[6].low > curve[5].high / curve[5].low
    first = advise_sweep(tested).together.compile_next
    assert found.worth_a_compile == ("sd-qwen3-0.6b-k5",) and first == Candidate(SMALL, 5)
    assert next_step(tested, ()).arm == "sd-qwen3-0.6b-k5" and "100%" not in payoff_line(found)
    assert list(map(percent, (0.009, 0.01, 0.99, 0.991))) == ["below 1%", "1%", "99%", "over 99%"]
    nothing = Forecasted(draft=SMALL, case="all", prompts=8, at=((1, 1.0, 0.01),))
    assert not payoff(TUNING.model_copy(update={"forecast": (nothing,)})).whole.forecast, "k=1 verifies no draft here"
    steep = [tokens_at({3: 3.44, 9: 3.5}, k, MostTokens.K_PLUS_1)[0] for k in range(3, 10)]
    assert steep == sorted(steep) and max(steep) == 3.5, "acceptance alone says more at 6 than at 9"


@pytest.mark.parametrize("cases", [("repeat",), ("repeat", "sonnet")])
def test_the_report_lays_the_forecast_beside_what_was_measured_and_says_how_far_off_it_was(
    cases: tuple[str, ...],
) -> None:
    tested, tokens = experiment(ks=(3, 7)), {"sd-k3": 2.0, "sd-k7": 4.0}
    draft, at = tested.variants[1].speculation.draft.id, ((3, 2.0, 0.01), (7, 4.0, 0.01))
    given = tuple(Forecasted(draft=draft, case=case, prompts=8, at=at) for case in cases)
    forecast = tested.model_copy(update={"forecast": given})
    found = compare(experiment=forecast, records=run(tested), context=context())
    notes = [note for note in found.notes if note.startswith("Forecast of ")]
    for note, pair in zip(notes, found.pairs, strict=True):
        arms = [arm for arm in found.arms if arm.variant == pair.variant and arm.case in cases]
        measured = {arm.case: sum(one.tokens * one.share for one in arm.steps) for arm in arms}
        told = tokens[pair.variant]
        off, worst = max((abs(told / value - 1.0), case) for case, value in measured.items())
        types = "2 types" if len(cases) == 2 else "1 type"
        assert note.startswith(
            f"Forecast of {pair.variant}: tokens per step at most {off:.1%} off, over {types} of prompts (most in "
            f"{worst}: {told:.2f}, measured {measured[worst]:.2f})."
        )
        (decoding,) = [one.ratio for one in pair.group("all").speedups if one.metric == "time_per_output_token"]
        gain = next(one.speedup for one in payoff(forecast).whole.at if one.variant == pair.variant)
        fits = "within" if gain.low <= decoding <= gain.high else "outside"
        assert note.endswith(f"measured {times(decoding)}: {fits} the range.")
        assert f"{measured[worst]:.2f} at k={pair.variant[-1]} ({off:.1%} off)" in render_terminal(found)
    assert not any("Forecast" in n for n in compare(experiment=tested, records=run(tested), context=context()).notes)


def test_rehearsals_that_were_recorded_are_forecast_from_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every type of prompts of each, from the steps of the others: nine in ten ranges hold, and none is idle."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import forecast_rehearsals

    committed = json.loads(forecast_rehearsals.RESULTS.read_text())
    found = forecast_rehearsals.tries(committed["rehearsals"])
    assert found == committed["forecasts"] and len(found) >= 30
    assert sum(one["holds"] for one in found) >= 0.9 * len(found)
    assert max(one["width"] for one in found) < 1.5
