"""CloudWatch metric data of a comparison, in the form that `specdecode.measures.publish.Publisher` sends."""

from collections.abc import Iterator, Mapping

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.texts.decide import decided, first_load
from specdecode.measures.publish import Datum, Dimensions


def metric_data(comparison: Comparison, *, previous: Comparison | None = None) -> list[Datum]:
    """Speedup, OutputsIdentical and CostPerMillionOutputTokens of every arm and case, with both sets of dimensions.

    An experiment with a service-level objective has LargestLoadKept of every arm too. One with several loads has
    Speedup at each load.

    `previous`: the last good run of the same experiment; with it also SpeedupOverLastRun, the ratio of both speed-ups
    (an alarm watches it). A case that could not be judged gives no Speedup: its sample is not fair.
    """
    labels = {item.name: item.label for item in comparison.experiment.variants}
    cases = {item.name: item.label for item in comparison.experiment.workload.cases}
    return [
        *(
            datum
            for name, value, variant, case in _values(comparison, previous)
            for datum in _with_dimensions(comparison, name, value, variant=labels[variant], case=cases[case])
        ),
        *_largest_loads(comparison, labels),
        *_by_load(comparison, labels),
    ]


def _by_load(comparison: Comparison, labels: Mapping[str, str]) -> Iterator[Datum]:
    """The speed-up over all cases at each load of a run of several."""
    levels = {level.name: level for level in comparison.experiment.workload.levels}
    for found in decided(comparison).findings if len(levels) > 1 else ():
        if found.group == "all" and found.speedup:
            dimensions = [
                {"Name": "Experiment", "Value": comparison.experiment.name},
                {"Name": "Variant", "Value": labels[found.variant]},
                {"Name": "Load", "Value": levels[found.load].sorted_name},
            ]
            yield _datum(comparison, "Speedup", found.speedup.ratio, dimensions)


def _largest_loads(comparison: Comparison, labels: Mapping[str, str]) -> Iterator[Datum]:
    """The largest measured load that keeps the objective, over all cases of an arm; 0: not even the smallest."""
    for found in comparison.objective:
        dimensions = [
            {"Name": "Experiment", "Value": comparison.experiment.name},
            {"Name": "Variant", "Value": labels[found.variant]},
        ]
        unit = "Count/Second" if found.loads[0].level.rate is not None else "Count"
        yield _datum(comparison, "LargestLoadKept", found.keeps.value if found.keeps else 0.0, dimensions, unit)


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


def _with_dimensions(comparison: Comparison, name: str, value: float, *, variant: str, case: str) -> Iterator[Datum]:
    """The figure for `variant` and `case`, which are labels."""
    arm = [{"Name": "Variant", "Value": variant}, {"Name": "TestCase", "Value": case}]
    for dimensions in (arm, [{"Name": "Experiment", "Value": comparison.experiment.name}, *arm]):
        yield _datum(comparison, name, value, dimensions)


def _datum(comparison: Comparison, name: str, value: float, dimensions: Dimensions, unit: str = "None") -> Datum:
    return {
        "MetricName": name,
        "Dimensions": dimensions,
        "Timestamp": comparison.context.finished_at.timestamp(),
        "Unit": unit,
        "Values": [value],
        "Counts": [1.0],
    }
