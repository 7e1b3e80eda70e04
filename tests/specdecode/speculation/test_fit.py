"""The fit finds the truth it was given, says how sure it is, and does not claim what one point cannot tell."""

from __future__ import annotations

import random

import pytest
from specdecode.speculation import StepPoint, expected_tokens, fit, speedup


def point(a: float, c: float, v: float, k: int, **errors: float) -> StepPoint:
    return StepPoint(k, expected_tokens(a, k), 1 + k * c + v, **errors)


def test_two_points_separate_drafting_from_verification() -> None:
    found = fit([point(0.8, 0.1, 0.25, k) for k in (3, 9)])
    assert (found.a, found.c, found.v) == pytest.approx((0.8, 0.1, 0.25), abs=1e-6)
    assert found.separated
    assert found.predict(6).speedup == pytest.approx(speedup(0.8, 6, 0.1, 0.25))


def test_one_point_reproduces_itself_and_brackets_the_truth_elsewhere() -> None:
    truth = (0.8, 0.1, 0.25)
    found = fit([point(*truth, 7)], weight_ratio=0.05)
    assert not found.separated
    assert found.predict(7).speedup == pytest.approx(speedup(truth[0], 7, *truth[1:]))
    for k in range(1, 17):
        predicted = found.predict(k)
        assert predicted.low - 1e-9 <= speedup(truth[0], k, *truth[1:]) <= predicted.high + 1e-9, k


def test_costs_are_never_negative() -> None:
    falling = fit([StepPoint(3, 2.0, 1.5), StepPoint(9, 3.0, 1.2)])
    assert falling.c == 0.0
    assert falling.v >= 0.0
    steep = fit([StepPoint(3, 2.0, 1.1), StepPoint(9, 3.0, 2.5)])
    assert steep.v == 0.0
    assert steep.c > 0.0


def test_the_range_covers_the_truth_under_measurement_noise() -> None:
    rng = random.Random(5)
    truth, covered, runs = (0.75, 0.12, 0.2), 0, 40
    for _ in range(runs):
        noisy = [
            StepPoint(
                k,
                exact.tokens_per_step * (1 + rng.gauss(0, 0.02)),
                exact.step_ratio * (1 + rng.gauss(0, 0.02)),
                0.02,
                0.02,
            )
            for k in (3, 7, 11)
            for exact in (point(*truth, k),)
        ]
        predicted = fit(noisy).predict(5)
        covered += predicted.low <= speedup(truth[0], 5, *truth[1:]) <= predicted.high
    assert covered >= 0.88 * runs


def test_best_k_of_a_hopeless_draft_is_none() -> None:
    assert fit([point(0.1, 0.3, 0.2, 5)]).best() == (0, 1.0)


def test_a_fit_needs_a_speculative_point() -> None:
    with pytest.raises(ValueError, match="k >= 1"):
        fit([])
    with pytest.raises(ValueError, match="k >= 1"):
        fit([StepPoint(0, 1.0, 1.0)])
