"""CloudWatch metric data of a comparison, in the form that `specdecode.measures.publish.Publisher` sends."""

from collections.abc import Iterator, Mapping

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.texts.decide import decided, first_load
from specdecode.measures.publish import Datum


def metric_data(comparison: Comparison, *, previous: Comparison | None = None) -> list[Datum]:
    """Speedup, OutputsIdentical and CostPerMillionOutputTokens of every arm and case, with both sets of dimensions.

    An experiment with a service-level objective has LargestLoadKept of every arm too. One with several loads has
    Speedup at each load.

    `previous`: the last good run of the same experiment; with it also SpeedupOverLastRun, the ratio of both speed-ups
    (an alarm watches it). A case that could not be judged gives no Speedup: its sample is not fair.
    """
    labels = {item.name: item.label for item in comparison.experiment.variants}
    cases = {item.name: item.label for item in comparison.experiment.workload.cases}
    about = {"Experiment": comparison.experiment.name}
    found = []
    for name, value, variant, case in _values(comparison, previous):
        arm = {"Variant": labels[variant], "TestCase": cases[case]}
        found += [_datum(comparison, name, value, places) for places in (arm, about | arm)]
    for each in comparison.objective:  # 0: not even the smallest load is kept
        unit = "Count/Second" if each.loads[0].level.rate is not None else "Count"
        places = about | {"Variant": labels[each.variant]}
        found.append(_datum(comparison, "LargestLoadKept", each.keeps.value if each.keeps else 0.0, places, unit))
    levels = {level.name: level for level in comparison.experiment.workload.levels}
    for over in decided(comparison).findings if len(levels) > 1 else ():
        if over.group == "all" and over.speedup:
            places = about | {"Variant": labels[over.variant], "Load": levels[over.load].sorted_name}
            found.append(_datum(comparison, "Speedup", over.speedup.ratio, places))
    return found


def _values(comparison: Comparison, previous: Comparison | None) -> Iterator[tuple[str, float, str, str]]:
    for arm in comparison.arms:
        if arm.cost_per_million is not None:
            yield "CostPerMillionOutputTokens", arm.cost_per_million, arm.variant, arm.case
    before = _speedups(previous) if previous else {}
    for (variant, case), ratio in _speedups(comparison).items():
        yield "Speedup", ratio, variant, case
        if (variant, case) in before:
            yield "SpeedupOverLastRun", ratio / before[variant, case], variant, case
    for pair in comparison.pairs:
        for result in pair.cases:
            if result.equality.compared and result.equality.expected:
                share = result.equality.identical / result.equality.compared
                yield "OutputsIdentical", share, pair.variant, result.case


def _speedups(comparison: Comparison) -> dict[tuple[str, str], float]:
    """Arm and case -> speed-up at the first load, where the decision has one with an interval."""
    return {
        (found.variant, found.case): found.speedup.ratio
        for found in decided(comparison).findings
        if found.case and found.load == first_load(comparison) and found.speedup and found.speedup.low is not None
    }


def _datum(comparison: Comparison, name: str, value: float, places: Mapping[str, str], unit: str = "None") -> Datum:
    return {
        "MetricName": name,
        "Dimensions": [{"Name": key, "Value": label} for key, label in places.items()],
        "Timestamp": comparison.context.finished_at.timestamp(),
        "Unit": unit,
        "Values": [value],
        "Counts": [1.0],
    }
