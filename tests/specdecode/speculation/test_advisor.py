"""The advisor on simulated sweeps, and its arithmetic on sweeps that a reader can check by hand."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.workload import Level
from specdecode.speculation.advisor import MOST_MEASUREMENTS, advise, advise_over_loads, next_arm
from specdecode.speculation.belief import NOISE, USUAL_A, Candidate, Observation, believe, calibrate, curves, merged
from specdecode.speculation.step_cost import posterior
from specdecode.speculation.theory import expected_tokens, speedup

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
CANDIDATES = [Candidate(draft, k) for draft in ("small", "large") for k in range(5, 16)]


PLUS = MostTokens.K_PLUS_1


def measured(draft: str, k: int, *, a: float, c: float, v: float = 0.1, most: MostTokens = PLUS) -> Observation:
    return Observation(draft, k, speedup(a, k, c, v, most=most), expected_tokens(a, most.verified(k)))


@pytest.mark.parametrize("most", MostTokens)
def test_it_finds_the_best_of_a_sweep_that_obeys_the_model(most: MostTokens) -> None:
    truth = {"small": (0.7, 0.03), "large": (0.9, 0.06)}
    best = max(CANDIDATES, key=lambda one: speedup(truth[one.draft][0], one.k, truth[one.draft][1], 0.1, most=most))
    seen: list[Observation] = []
    while (advice := advise(CANDIDATES, seen, most=most)).compile_next is not None:
        draft, k = advice.compile_next
        seen.append(measured(draft, k, a=truth[draft][0], c=truth[draft][1], most=most))
    found = advice.best
    assert found is not None
    assert found.draft == best.draft
    assert abs(found.k - best.k) <= 1
    assert len(seen) <= 8, "of 22"
    assert "Stop" in advice.reason


def test_it_tries_every_draft_unless_the_first_leaves_no_doubt() -> None:
    first = advise(CANDIDATES, [], most=PLUS).compile_next
    assert first is not None
    second = advise(CANDIDATES, [measured(*first, a=0.6, c=0.05)], most=PLUS).compile_next
    assert second is not None
    assert second.draft != first.draft


def test_no_arm_is_recommended_where_all_are_slower_than_plain_decoding() -> None:
    seen = [measured(one.draft, one.k, a=0.1, c=0.3) for one in CANDIDATES]
    advice = advise(CANDIDATES, seen, most=PLUS)
    assert (advice.best, advice.best_speedup, advice.compile_next) == (None, 1.0, None)
    assert advice.measure_again == ()


def test_arms_that_cannot_be_told_apart_are_measured_again_a_few_times() -> None:
    seen = [measured(one.draft, one.k, a=0.9, c=0.05) for one in CANDIDATES]
    again = advise(CANDIDATES, seen, most=PLUS).measure_again
    assert len(again) > 1
    often = advise(CANDIDATES, [item for item in seen for _ in range(MOST_MEASUREMENTS)], most=PLUS)
    assert often.measure_again == ()


def test_the_remaining_gain_shrinks_as_arms_are_measured() -> None:
    few = [measured("large", 9, a=0.8, c=0.05)]
    many = [measured(draft, k, a=0.8, c=0.05) for draft in ("small", "large") for k in (5, 7, 9, 12, 15)]
    assert advise(CANDIDATES, few, most=PLUS).remaining_gain > 3 * advise(CANDIDATES, many, most=PLUS).remaining_gain
    assert advise(CANDIDATES, [measured(*one, a=0.8, c=0.05) for one in CANDIDATES], most=PLUS).remaining_gain == 0.0


@pytest.mark.parametrize(("loads", "reach"), [(1, 2.6383), (2, 2.8653)])
def test_the_remaining_gain_holds_for_all_arms_and_loads_together(loads: int, reach: float) -> None:
    """Bonferroni: the quantiles of the normal at 1 - 5%/12 and 1 - 5%/24; the best arm is not known exactly either."""
    draft, seen = [one for one in CANDIDATES if one.draft == "large"], [measured("large", 9, a=0.8, c=0.05)]
    few = [one for one in CANDIDATES if one.k in (5, 6)] + draft[2:]
    found = advise(few, seen, most=PLUS, loads=loads)
    believed = believe("large", range(5, 16), seen, most=PLUS) | believe("small", (5, 6), seen, most=PLUS)
    over, own = believed[Candidate("large", 9)]
    gains = [believed[one][0] - over + reach * math.hypot(believed[one][1], own) for one in few if one.k != 9]
    assert len(gains) == 12 and found.remaining_gain == pytest.approx(math.exp(max(gains)) - 1.0, rel=1e-3)


def test_over_several_loads_everything_is_the_mean_of_the_loads() -> None:
    seen = {Level(concurrency=load): [measured("large", 9, a=0.8, c=cost)] for load, cost in ((1, 0.05), (8, 0.2))}
    together, each = advise_over_loads(CANDIDATES, seen, most=PLUS)
    gains, left = ([getattr(at, name) for _, at in each] for name in ("best_speedup", "remaining_gain"))
    assert len(set(gains)) == len(set(left)) == 2
    assert together.best_speedup == pytest.approx(math.sqrt(gains[0] * gains[1]))
    assert 1 + together.remaining_gain == pytest.approx(math.sqrt((1 + left[0]) * (1 + left[1])))
    first, *others = (next(b for b in at.beliefs if b.candidate == Candidate("small", 5)) for _, at in each)
    belief = next(b for b in together.beliefs if b.candidate == Candidate("small", 5))
    assert belief.improvement == pytest.approx((first.improvement + others[0].improvement) / 2)
    assert belief.high == pytest.approx(math.sqrt(first.high * others[0].high))


@pytest.mark.parametrize("most", MostTokens)
def test_calibration_recovers_what_two_points_tell(most: MostTokens) -> None:
    a, c, v = calibrate([measured("large", k, a=0.85, c=0.08, v=0.2, most=most) for k in (5, 15)], most=most)
    assert a == pytest.approx(0.85, abs=1e-6)
    assert c == pytest.approx(0.08, abs=0.01)
    assert v == pytest.approx(0.2, abs=0.1)


def test_no_cost_is_below_nothing() -> None:
    """Steps that get shorter with k are noise: a draft token that pays for itself does not exist."""
    a, c, v = calibrate([Observation("large", 5, 6.0, 5.0), Observation("large", 15, 40.0, 10.0)], most=PLUS)
    assert 0 < a < 1 and 0.0 <= c < 0.001 and v >= 0.0


def test_the_gaussian_process_is_the_textbook_one() -> None:
    """Two points, by hand: mean k'(K + n2)^-1 y for one observation is k y / (k + n2)."""

    def covariance(x: int, y: int) -> float:
        return math.exp(-abs(x - y))

    (found,) = posterior(covariance, at=[0, 2], seen=[0], values=[1.0], noise=[0.5])
    assert found.mean == pytest.approx((1 / 1.25, math.exp(-2) / 1.25))
    assert found.covariance[0][0] == pytest.approx(1 - 1 / 1.25)
    assert found.covariance[0][1] == pytest.approx(math.exp(-2) - math.exp(-2) / 1.25)
    assert posterior(covariance, at=[3], seen=[], values=[], noise=[]) == [((0.0,), ((1.0,),), 0.0)]


def test_a_shape_of_unknown_size_is_what_the_same_prior_says_as_a_covariance() -> None:
    """A multiple with mean m and deviation s is a mean m u(x) and a covariance s^2 u(x) u(y) more; its evidence is the
    ratio of the two densities of the values.
    """

    def covariance(x: int, y: int) -> float:
        return math.exp(-abs(x - y))

    def shape(x: int) -> float:
        return float(x >= 1)

    at, seen, values, noise = [0, 1, 4], [0, 2], [0.3, 1.1], [0.2, 0.1]
    _, found = posterior(covariance, at=at, seen=seen, values=values, noise=noise, shapes=[shape], size=(0.4, 0.3))
    (same,) = posterior(
        lambda x, y: covariance(x, y) + 0.3**2 * shape(x) * shape(y),
        at=at,
        seen=seen,
        values=[value - 0.4 * shape(x) for x, value in zip(seen, values, strict=True)],
        noise=noise,
    )
    assert found.mean == pytest.approx([own + 0.4 * shape(x) for x, own in zip(at, same.mean, strict=True)])
    assert [*found.covariance[2]] == pytest.approx([*same.covariance[2]])

    def density(far: float, more: float) -> float:
        a, b, c = 1.0 + 0.2**2, math.exp(-2), 1.0 + 0.1**2 + more
        square = (c * 0.3**2 - 2 * b * 0.3 * far + a * far**2) / (a * c - b * b)
        return -(square + math.log(a * c - b * b)) / 2

    assert found.evidence == pytest.approx(density(1.1 - 0.4, 0.3**2) - density(1.1, 0.0))


def test_two_k_of_one_draft_are_compared_closer_than_either_is_known() -> None:
    seen = [measured("large", 9, a=0.8, c=0.05)]
    found = curves("large", range(5, 16), seen, most=PLUS)
    believed = found.believed("large")
    apart = found.improvement(11, over=9)
    assert 0.0 < apart < found.improvement(11, over=believed[Candidate("large", 9)])


def test_what_was_compiled_is_known_well_before_the_next_compile() -> None:
    """Three measurements of 3% each are one of 1.7%."""
    seen = [measured("large", 9, a=0.8, c=0.05)]
    for times in (1, 2, 3):
        advice = advise(CANDIDATES, seen, most=PLUS)
        assert advice.compile_next is not None
        assert next_arm(advice, seen) == (Candidate("large", 9) if times < 3 else advice.compile_next)
        seen.append(seen[0])
    (one,) = merged(seen[:3])
    assert one.error == pytest.approx(NOISE / math.sqrt(3)) and one.speedup == pytest.approx(seen[0].speedup)


@pytest.mark.parametrize(("k", "most"), [(0, MostTokens.K_PLUS_1), (1, MostTokens.K)])
def test_what_verifies_no_draft_is_no_candidate(k: int, most: MostTokens) -> None:
    with pytest.raises(ValueError, match="verify a draft or more"):
        advise([Candidate("small", k)], [], most=most)


def test_an_arm_that_verifies_no_draft_says_nothing_of_acceptance() -> None:
    """NxD Inference at k=1: one token a step whatever the draft is worth."""
    useless, good = Observation("large", 1, 0.9, 1.0), measured("large", 7, a=0.8, c=0.05, most=MostTokens.K)
    assert calibrate([useless, good], most=MostTokens.K)[0] == pytest.approx(0.8)
    assert calibrate([useless], most=MostTokens.K)[0] == USUAL_A


@pytest.mark.slow
@pytest.mark.parametrize("most", MostTokens)
def test_over_simulated_sweeps_it_beats_the_alternatives_and_the_committed_figures_are_reproduced(
    most: MostTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("advisor", "advisor_sweeps"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import advisor
    import advisor_sweeps

    committed = json.loads((BENCHMARKS / "results" / "advisor.json").read_text())
    assert committed["sweeps"] == 300
    sweeps = [advisor_sweeps.sweep(committed["first"] + number, most) for number in range(300)]
    found, known = advisor.judge(advisor.strategies(most)["advisor"], sweeps), committed["results"][most]
    assert found == pytest.approx(known["advisor"])
    grid, chance = known["full grid"], known["random, 6 compiles"]
    assert found["within_3_percent"] >= grid["within_3_percent"] > chance["within_3_percent"]
    assert found["mean_compiles"] <= 7
    for name in ("advisor", "advisor, with a forecast"):
        assert min(known[name]["at_most"], known[name]["at_most_each_step"]) >= 0.95
