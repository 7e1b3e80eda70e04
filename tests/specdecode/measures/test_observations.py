"""Looking at an interval again and again: its error rate, and when it ends a measurement."""

import math
import random
from itertools import pairwise

import pytest
from specdecode.measures.observations import RELEVANT, Asked, difference, differences, interim_counts, settled
from specdecode.measures.student import EARLY, LogMean, anytime_errors, log_mean, t_quantile


def test_the_factor_is_the_marginal_likelihood_ratio_of_the_t_test() -> None:
    """The edge of the interval is where the factor, integrated over the prior by brute force, reaches 1 / EARLY."""
    n, df = 12, 11.0
    edge = anytime_errors(n, df)

    def density(t: float, effect: float) -> float:
        """Of t with noncentrality effect * sqrt(n), up to what does not depend on the effect; by integrating over s."""
        steps, top = 400, 4.0
        shift = effect * math.sqrt(n)
        total = 0.0
        for step in range(1, steps):
            s = top * step / steps  # s: sample over true standard deviation
            total += s**df * math.exp(-df * s * s / 2 - (t * s - shift) ** 2 / 2) * top / steps
        return total

    effects = [at / 50 for at in range(-300, 301)]
    prior = [math.exp(-e * e / 2) / math.sqrt(2 * math.pi) / 50 for e in effects]
    factor = sum(weight * density(edge, e) for weight, e in zip(prior, effects, strict=True)) / density(edge, 0.0)
    assert factor == pytest.approx(1 / EARLY, rel=0.01)


def test_it_misses_the_truth_at_any_of_two_hundred_looks_as_seldom_as_it_says() -> None:
    rng, missed = random.Random(5), 0
    for _ in range(400):
        values, wrong = [], False
        for _ in range(200):
            values.append(rng.gauss(0.3, 0.2))
            if len(values) >= 4 and not wrong:
                found = log_mean(values)._replace(early=True).interval()
                wrong = found is not None and not found[0] <= math.exp(0.3) <= found[1]
        missed += wrong
    assert missed / 400 <= 2 * EARLY
    assert anytime_errors(200, 199.0) > t_quantile(1 - EARLY / 2, 199.0), "wider than for one test"
    assert anytime_errors(2, 1.0) == math.inf, "two values say nothing"


@pytest.mark.parametrize(
    ("mean", "error", "n", "why"),
    [
        (0.4, 0.05, 20, "its whole interval is above 1"), (0.4, 0.05, 8, None),
        (-0.4, 0.05, 40, "its whole interval is below 1"), (-0.4, 0.05, 20, None),
        (0.0, 0.005, 400, "its whole interval is within 5% of 1"), (0.0, 0.005, 40, None), (0.1, 0.05, 20, None),
        (0.1, 0.03, 20, None),
    ],
)  # fmt: skip
def test_a_case_ends_when_its_verdict_cannot_change(mean: float, error: float, n: int, why: str | None) -> None:
    """Not while prompts that gain eight times as much, or cost twice, may be missing and would change it."""
    assert settled(LogMean(mean, error**2, 19.0, n, early=True), precision=0.02) == why


def test_prompts_of_which_few_copy_do_not_end_as_a_loss() -> None:
    """One prompt in ten gains 3x, the others lose 8%: speculation pays (1.03x). Before: a loss in 27% of the runs."""
    rng, lost = random.Random(2), 0
    for _ in range(300):
        gains = [math.log(3.0 if rng.random() < 0.1 else 0.92) + rng.gauss(0.0, 0.03) for _ in range(50)]
        for count in interim_counts(8, 50, 8):
            seen = {Asked(index, 0): gain for index, gain in enumerate(gains[:count])}
            found = difference(dict.fromkeys(seen, 0.0), seen)
            if found is not None and settled(found, 0.03) and count < 50:
                lost += found.mean < 0.0
                break
    assert lost / 300 <= 0.01


def test_a_case_ends_when_its_interval_is_short_enough_and_not_before_it_has_one() -> None:
    undecided = LogMean(math.log(RELEVANT), 0.01**2, 19.0, 20, early=True)
    low, high = undecided.interval() or (0.0, 0.0)
    assert low < RELEVANT < high
    reach = math.sqrt(high / low) - 1
    why = settled(LogMean(0.03, 0.01**2, 19.0, 20, early=True), precision=reach * 1.01)
    assert why == f"its interval reaches no further than {reach * 1.01:.1%} to either side"
    assert not settled(LogMean(0.03, 0.01**2, 19.0, 20, early=True), precision=reach * 0.99)
    assert not settled(None, 1.0) and not settled(log_mean([0.1]), 1.0)
    assert difference({Asked(0, 0): 1.0}, {Asked(1, 0): 2.0}) is None
    base, other = (
        {Asked(0, 0): 1.0, Asked(1, 0): 2.0, Asked(2, 0): 9.0},
        {Asked(0, 0): 2.0, Asked(1, 0): 3.0, Asked(5, 0): 0.0},
    )
    assert difference(base, other) == LogMean(1.0, 0.0, 1.0, 2, True)


def test_a_conversation_is_one_observation_however_many_turns_it_has() -> None:
    base = {Asked(0, turn): 0.0 for turn in range(3)} | {Asked(3, 0): 0.0}
    other = {Asked(0, 0): 1.0, Asked(0, 1): 2.0, Asked(3, 0): 0.5}  # its third turn failed
    assert list(differences(base, other).values()) == [1.5, 0.5]
    # As `bench --prompts FILE --requests 16` does it with a file of four prompts.
    base = {Asked(at, 0, f"p{at % 4}"): 0.0 for at in range(16)}
    assert list(differences(base, {key: float(key.conversation % 4) for key in base}).values()) == [0.0, 1.0, 2.0, 3.0]
    alone = {Asked(at, 0, "p0"): 0.0 for at in range(3)}  # one prompt only: an interval of timing noise, which is said
    assert list(differences(alone, alone).values()) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("fewest", "most", "step"), [(8, 50, 4), (4, 5, 4), (50, 50, 4), (60, 50, 4), (8, 1000, 64)])
def test_looks_begin_with_the_fewest_end_with_the_most_and_are_apart(fewest: int, most: int, step: int) -> None:
    found = list(interim_counts(fewest, most, step))
    assert found[0] == min(fewest, most) and found[-1] == most
    assert all(after - before >= step for before, after in pairwise(found[:-1]))
    assert len(found) == len(set(found))
