"""The comparison's own metrics for CloudWatch."""

import pytest
from specdecode.analysis.datums import metric_data
from specdecode.measures.publish import problems

from tests.specdecode.analysis.simulate import context, experiment, simulated


def values(data: list[dict[str, object]], name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(item["Value"] for item in datum["Dimensions"]): datum["Values"][0]
        for datum in data
        if datum["MetricName"] == name
    }


def test_every_arm_and_case_is_published_with_both_sets_of_dimensions() -> None:
    comparison = simulated()
    data = metric_data(comparison)
    assert [problem for datum in data for problem in problems(datum)] == []
    gains = values(data, "Speedup")
    repeat = comparison.pairs[0].cases[0].headline
    assert repeat is not None
    assert gains[("SD", "repeat")] == gains[("simulated", "SD", "repeat")] == repeat.ratio
    assert set(gains) == {(*p, "SD", c) for p in ((), ("simulated",)) for c in ("repeat", "__SHAKESPEARE__")}
    costs = values(data, "CostPerMillionOutputTokens")
    assert {key[-2] for key in costs} == {"Base", "SD"}
    assert values(data, "OutputsIdentical")[("SD", "repeat")] == 1.0
    assert values(data, "SpeedupOverLastRun") == {}


def test_the_change_against_the_last_good_run_is_published() -> None:
    before, after = simulated(), simulated(draft_cost=0.3)
    change = values(metric_data(after, previous=before), "SpeedupOverLastRun")
    assert change[("SD", "repeat")] == pytest.approx((1 + 7 * 0.12 + 0.1) / (1 + 7 * 0.3 + 0.1), rel=0.12)


def test_what_could_not_be_judged_is_not_published_as_a_speedup() -> None:
    tested = experiment(requests=1)
    comparison = simulated(tested=tested, around=context(price_per_node_hour=None))
    data = metric_data(comparison)
    assert values(data, "Speedup") == {}
    assert values(data, "CostPerMillionOutputTokens") == {}
    assert values(data, "OutputsIdentical") != {}
