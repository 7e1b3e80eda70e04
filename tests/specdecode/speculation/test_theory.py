"""Leviathan's formulas against published and measured calibration points."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from specdecode.experiment.most_tokens import MostTokens
from specdecode.speculation.theory import acceptance_from_positions, acceptance_from_tokens, expected_tokens, speedup

RATES = st.floats(0.0, 1.0)
KS = st.integers(1, 20)


def simulated_tokens(a: float, k: int, steps: int, seed: int) -> float:
    """Tokens per step of a process that accepts each draft token with chance a until the first rejection."""
    rng = random.Random(seed)
    total = 0
    for _ in range(steps):
        accepted = 0
        while accepted < k and rng.random() < a:
            accepted += 1
        total += 1 + accepted
    return total / steps


@pytest.mark.parametrize(("a", "k"), [(0.2, 3), (0.6, 7), (0.9, 15)])
def test_expected_tokens_is_what_the_process_yields(a: float, k: int) -> None:
    assert simulated_tokens(a, k, 40_000, seed=7) == pytest.approx(expected_tokens(a, k), rel=0.02)


def test_limits() -> None:
    assert expected_tokens(0.0, 7) == 1.0
    assert expected_tokens(1.0, 7) == 8.0
    assert expected_tokens(0.5, 0) == 1.0
    for most in MostTokens:
        assert speedup(0.9, 0, 0.3, 0.2, most=most) == 1.0, "without drafting there is nothing to verify"


def test_an_engine_that_verifies_one_draft_less_yields_less_and_pays_for_all_k() -> None:
    """NxD Inference at k=7: 6 drafts verified, 7 tokens at most; the draft still runs 7 times."""
    assert MostTokens.K.verified(7) == 6 and MostTokens.K_PLUS_1.verified(7) == 7
    assert [most.verified(0) for most in MostTokens] == [0, 0] and MostTokens.K.verified(1) == 0
    assert speedup(1.0, 7, 0.1, 0.3, most=MostTokens.K) == pytest.approx(7 / 2.0)
    assert speedup(1.0, 7, 0.1, 0.3, most=MostTokens.K_PLUS_1) == pytest.approx(8 / 2.0)
    assert speedup(1.0, 1, 0.1, most=MostTokens.K) == pytest.approx(1 / 1.1), "nothing is verified, and a draft is paid"


def test_the_best_k_is_another_one_on_an_engine_that_verifies_one_draft_less() -> None:
    """a=0.9, c=0.05, v=0.1."""

    def best(most: MostTokens) -> int:
        return max(range(1, 33), key=lambda k: speedup(0.9, k, 0.05, 0.1, most=most))

    assert (best(MostTokens.K_PLUS_1), best(MostTokens.K)) == (14, 15)


@given(RATES, KS)
def test_acceptance_from_tokens_inverts_expected_tokens(a: float, k: int) -> None:
    assert expected_tokens(acceptance_from_tokens(expected_tokens(a, k), k), k) == pytest.approx(expected_tokens(a, k))


# trn2.48xlarge, `vllm bench serve`, Neuron SDK tutorials: (k, accepted length E, TPOT without, with)
GPT_OSS = (1, 1.68, 7.00, 5.82)
EAGLE3 = (3, 3.22, 10.52, 6.41)


@pytest.mark.parametrize(("point", "step"), [(GPT_OSS, 1.40), (EAGLE3, 1.96)])
def test_step_cost_at_the_measured_points(point: tuple[int, float, float, float], step: float) -> None:
    _, tokens, before, after = point
    assert tokens / (before / after) == pytest.approx(step, abs=0.005)


def test_eagle3_point_gives_both_acceptance_rates() -> None:
    k, tokens, before, after = EAGLE3
    a = acceptance_from_tokens(tokens, k)
    assert a == pytest.approx(0.857, abs=0.001)
    assert (tokens - 1) / k == pytest.approx(0.74, abs=0.001), "accepted / drafted, another rate than a"
    per_draft_token = (tokens / (before / after) - 1) / k
    assert per_draft_token == pytest.approx(0.32, abs=0.002)
    assert speedup(a, k, per_draft_token, most=MostTokens.K_PLUS_1) == pytest.approx(before / after)


def test_eagle3_rates_per_position() -> None:
    """86/72/63% of the drafts reached positions 1, 2, 3: E = 1 + 0.86 + 0.72 + 0.63."""
    conditional = acceptance_from_positions((860, 720, 630), 1000)
    assert conditional == pytest.approx((0.86, 0.72 / 0.86, 0.63 / 0.72))


@pytest.mark.parametrize(
    ("gain", "k", "c", "a"),
    [
        (1.348, 7, 0.02, 0.35),
        (1.348, 7, 0.10, 0.57),
        (3.0, 7, 0.02, 0.73),
        (3.0, 7, 0.10, 0.87),
        (3.0, 15, 0.02, 0.75),
        (3.0, 15, 0.10, 0.89),
    ],
)
def test_what_the_published_speedups_imply(gain: float, k: int, c: float, a: float) -> None:
    assert acceptance_from_tokens(gain * (1 + k * c), k) == pytest.approx(a, abs=0.006)


def test_the_405b_gain_exceeds_what_speculation_alone_can_give() -> None:
    bound = speedup(1.0, 7, 0.1, most=MostTokens.K_PLUS_1)
    assert bound == pytest.approx(8 / 1.7)
    assert bound < 5.45, "so quantization is in the published figure"


def test_positions_that_were_never_reached_are_left_out() -> None:
    assert acceptance_from_positions((5, 0, 0), 10) == (0.5, 0.0)
    assert acceptance_from_positions((), 10) == ()


@pytest.mark.parametrize(
    "call", [lambda: expected_tokens(1.2, 3), lambda: expected_tokens(0.5, -1), lambda: acceptance_from_tokens(2.0, 0)]
)
def test_impossible_arguments_are_refused(call: object) -> None:
    with pytest.raises(ValueError, match=r"acceptance|verified drafts must"):
        call()
