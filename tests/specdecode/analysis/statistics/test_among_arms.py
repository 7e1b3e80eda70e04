"""An arm is recommended at a level that holds for all arms of the run together."""

import math
import random

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.results.pairs import Action
from specdecode.analysis.statistics.groups import among_arms, confidence
from specdecode.analysis.texts.decide import decided
from specdecode.analysis.texts.recommend import headline, recommendation
from specdecode.measures.student import NOMINAL, LogMean, t_quantile

from benchmarks.recommendation import drawn, pairs, pays, pays_by_itself
from tests.specdecode.analysis.simulate import context, experiment, run
from tests.specdecode.analysis.simulate_load import Server, compared, loads

BARELY = LogMean(0.06, 0.026**2, 19.0, 20)
"""6% faster, 1.002 to 1.12 at the level of an arm by itself."""


def report(arms: int) -> Comparison:
    """The first arm barely pays, the others are as fast as the baseline."""
    tested = experiment(ks=tuple(range(1, arms + 1)))
    found = compare(experiment=tested, records=run(tested), context=context())
    same = LogMean(0.0, 0.03**2, 19.0, 20)
    return found.model_copy(
        update={"pairs": tuple(pairs([[BARELY], *[[same]] * (arms - 1)])), "chains": (), "decision": None}
    )


def test_the_level_of_an_arm_gives_the_run_5_percent() -> None:
    assert confidence(1) == confidence(2) == NOMINAL
    assert confidence(8) == pytest.approx(0.99)
    assert confidence(22) == pytest.approx(1 - 0.08 / 22)


def test_the_same_arm_is_recommended_alone_and_not_among_eight() -> None:
    alone, among = report(1), report(8)
    assert decided(alone).serve == "sd"
    first = among.pairs[0]
    assert pays_by_itself(first) and not pays(first)
    assert decided(among).action is Action.MEASURE and decided(among).serve is None
    said = recommendation(among) or ""
    assert said.startswith("Keep base for now, and measure more")
    assert "not shown to be faster as one of 8 arms" in said
    assert "Measure base and sd-k1 again, without the others." in said


def test_a_recommendation_among_arms_has_the_interval_that_holds_for_all() -> None:
    tested = experiment(ks=(3, 7, 11))
    found = compare(experiment=tested, records=run(tested), context=context())
    best = next(pair for pair in found.pairs if pair.variant == decided(found).serve)
    assert best.among and best.among.arms == 3 and best.among.faster
    assert best.among.speedup.low and best.among.speedup.high
    shown = f"({best.among.speedup.low:.2f}–{best.among.speedup.high:.2f} as one of 3 arms)"
    assert found.recommendation and shown in found.recommendation
    alone = compare(experiment=experiment(), records=run(experiment()), context=context())
    assert alone.recommendation and "as one of" not in alone.recommendation


def test_a_gain_that_one_node_may_have_by_itself_asks_for_another_node() -> None:
    """6% on one node may be nothing on the next; 30% is not, and servers of one's own have no other node."""
    asked = "on another node."
    barely, plain = report(1), experiment()
    assert barely.pairs[0].among and barely.pairs[0].among.faster and not barely.pairs[0].among.elsewhere
    said = recommendation(barely) or ""
    assert said.startswith("Use sd") and "shown for the measured node alone" in said
    assert "measure base and sd once more, on another node." in said
    served = barely.model_copy(update={"context": barely.context.model_copy(update={"capacity_type": "none"})})
    assert asked not in (recommendation(served) or "")
    clear = compare(experiment=plain, records=run(plain), context=context())
    assert clear.pairs[0].among and clear.pairs[0].among.elsewhere
    assert (recommendation(clear) or "").startswith("Use sd") and asked not in (recommendation(clear) or "")


def test_the_cases_have_equal_weight_and_another_nodes_noise_has_ten_measurements() -> None:
    """By hand: half the sum of the means, a quarter of the sum of the variances; 2.5% more for another node."""
    assert among_arms([], arms=3) is None
    parts = [LogMean(0.1, 0.02**2, 9.0, 10), LogMean(0.0, 0.01**2, 9.0, 10)]
    found = among_arms(parts, arms=1)
    assert found is not None and found.speedup.ratio == pytest.approx(math.exp(0.05))
    variance, df = (4e-4 + 1e-4) / 4, 9.0 * (4e-4 + 1e-4) ** 2 / (4e-4**2 + 1e-4**2)
    reach = t_quantile(0.98, df) * math.sqrt(variance)
    assert found.speedup.low == pytest.approx(math.exp(0.05 - reach)) and found.faster
    assert (found.elsewhere, reach < 0.05) == (False, True)
    whole = variance + 0.025**2
    apart = t_quantile(0.98, whole**2 / (variance**2 / df + 0.025**4 / 10)) * math.sqrt(whole)
    for mean, elsewhere in ((apart + 1e-6, True), (apart - 1e-6, False)):
        moved = [part._replace(mean=mean) for part in parts]
        again = among_arms(moved, arms=1)
        assert again is not None and again.elsewhere is elsewhere
    alone = among_arms(parts[:1], arms=1)
    assert alone is not None and alone.speedup.low == pytest.approx(math.exp(0.1 - t_quantile(0.98, 9.0) * 0.02))


def test_what_was_looked_at_early_is_wider_among_many_arms() -> None:
    early = LogMean(0.1, 0.02**2, 29.0, 30, early=True)
    own, many = early.interval(), early.interval(confidence(22))
    assert own and many and many[0] < own[0] and own[1] < many[1]
    assert early.interval(confidence(8)) == own, "a look before the last one is at 1% by itself"


def test_of_eight_equal_arms_few_runs_recommend_one() -> None:
    rng, counts = random.Random(7), {"by_itself": 0, "recommended": 0}
    for _ in range(120):
        equal = pairs(drawn(rng, arms=8, apart=0.0, types=4))
        counts["by_itself"] += any(map(pays_by_itself, equal))
        counts["recommended"] += any(map(pays, equal))
    assert counts["recommended"] <= 0.05 * 120
    assert counts["by_itself"] > 0.15 * 120, "the rule would not be needed"


@pytest.mark.parametrize("seed", [0, 9, 12])
def test_an_arm_that_is_faster_by_itself_at_a_later_load_is_not_advised_among_eight(seed: int) -> None:
    """All eight are as fast as the baseline: of sixteen such intervals one lies above 1 by chance."""
    tested = loads((1, 4, 16), ks=tuple(range(2, 10)), requests=8, rounds=2)
    servers = {arm.name: Server() for arm in tested.variants}
    found = compared(tested, servers, seed=seed, shared=0.02, noise=0.01)
    points = [point for curve in found.curve for point in curve.points[1:] if curve.group == "all"]
    assert any(point.speedup.low and point.speedup.low > 1.0 for point in points), "or the rule would not be needed"
    assert not [each for each in decided(found).findings if (each.group, each.action) == ("all", Action.USE)]
    assert "is faster at" not in headline(found)
