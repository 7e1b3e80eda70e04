"""What goes to others: CloudWatch's metric data of a comparison and of its requests, and LLMPerf's files."""

from collections.abc import Iterator, Mapping, Sequence

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.statistics.measured import AtLevel
from specdecode.analysis.texts.decide import decided, first_load
from specdecode.experiment.model import Experiment
from specdecode.experiment.workload import Workload
from specdecode.measures.accounting import Accounting
from specdecode.measures.llmperf_files import llmperf_run
from specdecode.measures.publish import Datum, Dimensions
from specdecode.measures.publish import metric_data as of_requests
from specdecode.records import ServerFacts


def llmperf_files(
    workload: Workload,
    levels: Sequence[AtLevel],
    *,
    served: Mapping[str, ServerFacts],
    model: str,
    accounting: Accounting,
) -> Iterator[tuple[str, str]]:
    """Path in a run's folder, and content, of LLMPerf's two files of each arm, case and level. `served`: what is known
    of the arms' servers; `model`: of one of which nothing is known. Each of several levels has a folder of its own.
    """
    for at in levels:
        own = f"/{at.level.name}" if len(workload.levels) > 1 else ""
        for (variant, case), measured in at.arms.items():
            known = served[variant].model if variant in served else model
            records = measured.block.records
            files = llmperf_run(workload, at.level, model=known, records=records, accounting=accounting)
            yield from ((f"llmperf/{variant}/{case}{own}/{name}", text) for name, text in files.items())


def request_data(experiment: Experiment, levels: Sequence[AtLevel], accounting: Accounting) -> Iterator[Datum]:
    """Data of the requests of each arm, case and level. The first set of dimensions is the public sample's; the second
    adds the experiment. If there are several levels, each also has a set with its own `Load`, and the first two are of
    the first level.
    """
    several = experiment.workload.levels[1:]
    for at in levels:
        for (variant, case), measured in at.arms.items():
            arm, own = _places(experiment, variant, case)
            places = [arm, own] if at.level == experiment.workload.levels[0] else []
            places += [own | {"Load": at.level.sorted_name}] if several else []
            yield from of_requests(measured, accounting=accounting, places=list(map(_dimensions, places)))


def metric_data(comparison: Comparison, *, previous: Comparison | None = None) -> list[Datum]:
    """Speedup, OutputsIdentical and CostPerMillionOutputTokens of every arm and case, with both sets of dimensions.

    An experiment with a service-level objective has LargestLoadKept of every arm too. One with several loads has
    Speedup at each load.

    `previous`: the last good run of the same experiment; with it also SpeedupOverLastRun, the ratio of both speed-ups
    (an alarm watches it). A case that could not be judged gives no Speedup: its sample is not fair.
    """
    experiment = comparison.experiment
    labels, about = {item.name: item.label for item in experiment.variants}, {"Experiment": experiment.name}
    found = []
    for name, value, variant, case in _values(comparison, previous):
        found += [_datum(comparison, name, value, place) for place in _places(experiment, variant, case)]
    for each in comparison.objective:  # 0: not even the smallest load is kept
        unit = "Count/Second" if each.loads[0].level.rate is not None else "Count"
        places = about | {"Variant": labels[each.variant]}
        found.append(_datum(comparison, "LargestLoadKept", each.keeps.value if each.keeps else 0.0, places, unit))
    levels = {level.name: level for level in experiment.workload.levels}
    for over in decided(comparison).findings if len(levels) > 1 else ():
        own = experiment.variant(over.variant).compare_to == over.baseline
        if over.group == "all" and over.speedup and own:
            places = about | {"Variant": labels[over.variant], "Load": levels[over.load].sorted_name}
            found.append(_datum(comparison, "Speedup", over.speedup.ratio, places))
    return found


def _places(experiment: Experiment, variant: str, case: str) -> tuple[dict[str, str], dict[str, str]]:
    """Dimensions of an arm and case, by their labels: as the public sample has them, and with the experiment."""
    label = next(item.label for item in experiment.workload.cases if item.name == case)
    arm = {"Variant": experiment.variant(variant).label, "TestCase": label}
    return arm, {"Experiment": experiment.name} | arm


def _dimensions(place: Mapping[str, str]) -> Dimensions:
    return [{"Name": key, "Value": label} for key, label in place.items()]


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
        "Dimensions": _dimensions(places),
        "Timestamp": comparison.context.finished_at.timestamp(),
        "Unit": unit,
        "Values": [value],
        "Counts": [1.0],
    }
