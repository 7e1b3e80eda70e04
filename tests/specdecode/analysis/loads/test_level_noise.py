"""What all requests of a load share is found where it can be, and is in every interval of a curve."""

import math
import random

import pytest
from specdecode.analysis.loads.crossing import ASSUMED, Gains, level_noise
from specdecode.measures.student import ASSUMED_DF, LogMean

LOADS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
GAIN = LogMean(0.1, 0.02**2, 15.0, 16)


def once(*gains: float) -> list[Gains]:
    return [Gains(load, [gain]) for load, gain in zip(LOADS, gains, strict=False)]


def test_what_rounds_vary_by_is_pooled_over_the_levels() -> None:
    found = level_noise([Gains(1, [0.10, 0.14]), Gains(4, [-0.1, -0.1]), Gains(16, [0.3])])
    assert found.source == "between rounds"
    assert found.one_round.variance == pytest.approx(0.02**2 * 2 / 2) and found.one_round.df == 2


def test_of_one_round_what_is_left_around_a_smooth_curve_counts() -> None:
    smooth = [-math.log(0.6 + 0.02 * load + 0.0001 * load**2) for load in LOADS]
    exact = level_noise(once(*smooth))
    assert exact.source == "around a smooth curve" and exact.one_round.df == 3
    assert exact.one_round.variance == pytest.approx(0, abs=1e-20)
    rng = random.Random(1)
    many = [level_noise(once(*[gain + rng.gauss(0, 0.03) for gain in smooth])).one_round.variance for _ in range(2000)]
    assert sum(many) / len(many) == pytest.approx(0.03**2, rel=0.1)


def test_loads_that_queue_stand_at_one_place_and_take_no_coefficient() -> None:
    found = level_noise([Gains(load, [gain]) for load, gain in zip((4, 8, 8, 8, 8), (0.3, 0.1, 0.1, 0.1, 0.1))])  # noqa: B905
    assert found.one_round.df == 3 and found.one_round.variance == pytest.approx(0, abs=1e-20)


def test_of_few_levels_and_one_round_it_is_assumed() -> None:
    found = level_noise(once(0.1, 0.2, 0.1, 0.3))
    assert found.source == "assumed"
    assert found.one_round.variance == pytest.approx(2 * ASSUMED**2) and found.one_round.df == ASSUMED_DF


def test_it_widens_the_interval_and_rounds_share_it_out() -> None:
    noise = level_noise(once(0.1, 0.2))
    one, four = noise.added(GAIN, 1), noise.added(GAIN, 4)
    assert one.mean == GAIN.mean and one.n == GAIN.n
    assert one.variance == pytest.approx(0.02**2 + 2 * ASSUMED**2)
    assert four.variance == pytest.approx(0.02**2 + 2 * ASSUMED**2 / 4)
    assert ASSUMED_DF < one.df < ASSUMED_DF + 15.0


def test_an_interval_of_a_measurement_that_ended_early_is_no_shorter_than_it_was() -> None:
    early = GAIN._replace(early=True)
    alone, wider = early.interval(), level_noise([Gains(1, [0.1, 0.1]), Gains(2, [0.1, 0.1])]).added(early, 2)
    assert alone is not None and wider.interval() == pytest.approx(alone)


def test_a_gain_without_an_interval_stays_without_one() -> None:
    alone = LogMean(0.1, 0.0, 0.0, 1)
    assert level_noise(once(0.1, 0.2)).added(alone, 1) == alone
