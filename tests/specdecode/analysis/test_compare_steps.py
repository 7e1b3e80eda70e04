"""What the comparison says of the tokens that a step yields, and what it assumes of the engine."""

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.advice.sweep import advise_sweep, candidates
from specdecode.experiment.model import EndpointExperiment
from specdecode.experiment.step import most_tokens
from specdecode.experiment.variants import EndpointVariant
from specdecode.records import EngineCounters
from specdecode.speculation.theory import speedup

from tests.specdecode.analysis.simulate import case, context, experiment, run, simulated

K_ENGINE = "0.9.1-sdk2.26.1"
"""NxD Inference: of k drafts k - 1 are verified."""


@pytest.mark.parametrize(("engine", "tokens"), [(K_ENGINE, 7.0), ("rehearsal-cpu", 8.0)])
def test_perfect_drafts_are_all_accepted_on_either_kind_of_engine(engine: str, tokens: float) -> None:
    tested = experiment(engine=engine)
    acceptance = {"repeat": 1.0, "sonnet": 0.6}
    comparison = simulated(tested=tested, acceptance=acceptance)
    arm = comparison.arm("sd", "repeat")
    assert arm is not None and not arm.impossible
    assert max(step.tokens for step in arm.steps) == tokens == arm.verified_drafts + 1
    assert arm.acceptance_rate == pytest.approx(1.0, abs=0.04), "the last chunk of an answer is cut"
    theory = {item.group: item for item in comparison.theory}
    assert theory["structured"].acceptance == pytest.approx(1.0, abs=0.02)
    assert theory["open-ended"].acceptance == pytest.approx(0.6, abs=0.03)
    tpot = {e.metric: e for e in case(comparison, "repeat").speedups}["time_per_output_token"]
    assert tpot.ratio == pytest.approx(tokens / (1 + 7 * 0.12 + 0.10), rel=0.02), "the draft runs k times on both"


def test_a_step_of_k_plus_one_is_impossible_where_k_less_one_are_verified() -> None:
    elsewhere = run(experiment(), acceptance={"repeat": 1.0, "sonnet": 0.6})
    comparison = compare(experiment=experiment(engine=K_ENGINE), records=elsewhere, context=context())
    arm = comparison.arm("sd", "repeat")
    assert arm is not None and arm.acceptance_rate is None and "tokens_per_step" not in arm.metrics
    assert any("verifies 6 of them gives 7 a step at most" in note for note in comparison.notes)


def test_counters_of_an_engine_that_verifies_one_draft_less_are_not_used() -> None:
    """The plugin of 0.16 counts what was accepted as drafted: its own rate is 1 whatever the draft is worth."""
    tested = experiment(engine=K_ENGINE)
    counters = EngineCounters(variant="sd", case="sonnet", drafts=800, draft_tokens=800, accepted_tokens=800)
    arm = compare(experiment=tested, records=run(tested), context=context(counters=(counters,))).arm("sd", "sonnet")
    assert arm is not None and arm.acceptance_source == "estimated from tokens per streamed chunk"
    assert arm.acceptance_rate is not None and arm.acceptance_rate < 0.5


def on_running_servers(**of_the_arm: object) -> EndpointExperiment:
    document = experiment().model_dump(mode="json", include=set(EndpointExperiment.model_fields))
    document["variants"][1]["speculation"].update(of_the_arm)
    document["variants"] = [
        {name: part for name, part in variant.items() if name in EndpointVariant.model_fields}
        | {"endpoint": f"https://{variant['name']}.example"}
        for variant in document["variants"]
    ]
    return EndpointExperiment.model_validate(document)


def test_only_an_engine_that_is_known_must_draft_in_each_step() -> None:
    """Of a server of somebody's, steps without drafts may be missing in the counters: vLLM's with n-grams."""
    counters = EngineCounters(variant="sd", case="sonnet", drafts=9, draft_tokens=63, accepted_tokens=0)
    for tested, doubted in ((experiment(), True), (on_running_servers(), False)):
        records = run(experiment())
        arm = compare(experiment=tested, records=records, context=context(counters=(counters,))).arm("sd", "sonnet")
        assert arm is not None and any("contradict" in why for why in arm.impossible) is doubted
        assert doubted or arm.acceptance_rate == 0.0


def said_of_the_step(engine: str, **of_the_arm: object) -> tuple[Comparison, list[str]]:
    tested = on_running_servers(**of_the_arm) if of_the_arm else experiment(engine=engine)
    comparison = compare(experiment=tested, records=run(experiment(engine=K_ENGINE)), context=context())
    return comparison, [note for note in comparison.notes if "yields at most" in note]


def test_what_is_assumed_of_an_engine_is_said() -> None:
    known, nothing = said_of_the_step(K_ENGINE)
    for unknown in (said_of_the_step("unknown"), said_of_the_step(K_ENGINE, most_tokens_per_step=None)):
        assumed, (note,) = unknown
        assert "not known how many tokens a step of sd yields at most. k+1 are assumed" in note
        assert "--most-tokens-per-step NAME=k" in note
        low, right = assumed.arm("sd", "repeat"), known.arm("sd", "repeat")
        assert low is not None and right is not None
        assert low.acceptance_rate == pytest.approx((right.acceptance_rate or 0) * 6 / 7)
    told, silence = said_of_the_step(K_ENGINE, most_tokens_per_step="k")
    assert (silence, nothing) == ([], [])
    assert [arm.acceptance_rate for arm in told.arms] == [arm.acceptance_rate for arm in known.arms]


def test_the_advisor_takes_the_engine_for_what_it_is() -> None:
    """At k=1 NxD Inference verifies nothing: no candidate; and one arm tells the same a on either kind."""
    for engine, first in ((K_ENGINE, 2), ("rehearsal-cpu", 1)):
        tested = experiment(engine=engine)
        assert min(candidate.k for candidate in candidates(tested)) == first
        measured = simulated(tested=tested, acceptance={"repeat": 0.8, "sonnet": 0.8})
        advice = advise_sweep(tested, [measured]).together
        truth = {k: speedup(0.8, k, 0.12, 0.10, most=most_tokens(tested, tested.variants[1])) for k in range(2, 16)}
        for belief in advice.beliefs:
            if 4 <= belief.candidate.k <= 10:
                assert belief.speedup == pytest.approx(truth[belief.candidate.k], rel=0.065)
                assert belief.low < truth[belief.candidate.k] < belief.high


def test_the_advisors_model_and_sentence_are_in_the_comparison() -> None:
    tested = experiment(ks=(3, 7, 13), requests=20)
    comparison = simulated(tested=tested, acceptance={"repeat": 0.8, "sonnet": 0.8})
    theory = next(item for item in comparison.theory if item.group == "structured")
    assert theory.acceptance == pytest.approx(0.8, abs=0.03)
    assert theory.draft_cost == pytest.approx(0.12, abs=0.03)
    best = max(theory.points, key=lambda point: point.speedup)
    assert 4 <= best.k <= 6, "the true best k is 5"
    assert all(point.low < point.speedup < point.high for point in theory.points)
    assert comparison.advice == advise_sweep(tested, [comparison]).together.reason


def test_a_hopeless_draft_is_advised_against() -> None:
    comparison = simulated(acceptance={"repeat": 0.05, "sonnet": 0.05}, draft_cost=0.3)
    assert comparison.advice is not None
    assert comparison.advice.startswith("Do not speculate")
