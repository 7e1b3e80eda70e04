"""Noise that requests of the same minutes share: what drift does to an interval, with known truth."""

import random
from collections.abc import Sequence

import pytest
from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.analysis.statistics.pairing import balanced
from specdecode.analysis.statistics.shared_noise import Rounds, Seen, shared_noise
from specdecode.measures.student import LogMean


def case(rounds: Sequence[Sequence[Sequence[float]]]) -> Rounds:
    """From rounds of portions of values."""
    found: dict[int, dict[object, Seen]] = {}
    for number, portions in enumerate(rounds):
        values = [Seen(at, value) for at, portion in enumerate(portions) for value in portion]
        found[number] = dict(enumerate(values))
    return found


def drawn(rng: random.Random, *, rounds: int, portions: int, each: int, shared: float, noise: float) -> Rounds:
    def portion() -> list[float]:
        centre = rng.gauss(0.0, shared)
        return [centre + rng.gauss(0.0, noise) for _ in range(each)]

    return case([[portion() for _ in range(portions)] for _ in range(rounds)])


@pytest.mark.parametrize(("rounds", "portions", "each"), [(1, 8, 2), (2, 4, 2), (2, 2, 4), (2, 1, 8), (3, 4, 4)])
def test_the_variance_of_a_mean_is_what_portions_share(rounds: int, portions: int, each: int) -> None:
    rng, cases = random.Random(7), 400
    given = {
        str(at): drawn(rng, rounds=rounds, portions=portions, each=each, shared=0.05, noise=0.03) for at in range(cases)
    }
    found = shared_noise(given)["0"]
    assert found.mean == 0.0
    assert found.variance == pytest.approx(0.05**2 / (rounds * portions), rel=0.15)
    assert found.df > cases / 5


def test_nothing_is_added_where_nothing_is_shared_or_nothing_can_show_it() -> None:
    rng = random.Random(3)
    calm = {str(at): drawn(rng, rounds=2, portions=4, each=2, shared=0.0, noise=0.03) for at in range(400)}
    assert shared_noise(calm)["0"].variance < 0.35 * 0.03**2 / 16
    assert shared_noise({"one": case([[[0.1, 0.2, 0.3]]])})["one"].variance == 0.0, "one portion, one round"
    assert shared_noise({"same": case([[[0.1], [0.1]], [[0.1], [0.1]]])})["same"].variance == 0.0
    assert shared_noise({"none": {}}) == {"none": LogMean(0.0, 0.0, 1.0, 0)}


def test_what_a_round_does_to_all_cases_cancels_only_where_the_arms_swapped_devices() -> None:
    rng = random.Random(5)

    def moved() -> Rounds:
        first, second = ([[move + rng.gauss(0.0, 0.01) for _ in range(8)]] for move in (0.05, -0.05))
        return case([first, second])

    cases = {name: moved() for name in "abcde"}
    assert shared_noise(cases, swapped=True)["a"].variance < 1e-5
    assert shared_noise(cases, swapped=False)["a"].variance == pytest.approx(0.05**2, rel=0.2)


def test_a_case_whose_prompts_differ_widely_says_little_of_the_others() -> None:
    rng = random.Random(11)
    calm = {str(at): drawn(rng, rounds=1, portions=4, each=2, shared=0.0, noise=0.01) for at in range(8)}
    wild = drawn(rng, rounds=1, portions=4, each=2, shared=0.0, noise=0.6)
    alone, beside = shared_noise(calm)["0"].variance, shared_noise(calm | {"wild": wild})["0"].variance
    assert beside < alone + 0.02**2


def test_each_way_of_holding_the_devices_counts_the_same() -> None:
    held = [
        DeviceGroup(variant=arm, round=number, devices=(str((number + at) % 2),))
        for number in range(3)
        for at, arm in enumerate(("base", "sd"))
    ]
    assert balanced("base", "sd", range(3), held) == ({0: 0.5, 1: 1.0, 2: 0.5}, True)
    assert balanced("base", "sd", range(3), []) == ({0: 1 / 3, 1: 1 / 3, 2: 1 / 3}, False)
