"""Figures that others published, beside the measured ones: reproduced, not reproduced, or not comparable, and why."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import figure, times
from specdecode.analysis.statistics.measured import METRICS
from specdecode.experiment.effective import WORKERS
from specdecode.experiment.model import Experiment, ServedExperiment
from specdecode.experiment.told import Figure, Published, Statistic

WITHIN = 0.1
"""A figure is reproduced if both arms and their ratio differ by no more than this: twice what nodes of one kind are
assumed to differ by (specdecode.analysis.statistics.groups)."""
INFO = {info.name: info for info in METRICS}


class Judged(StrEnum):
    """What a measured figure says of a published one."""

    REPRODUCED = "reproduced"
    NOT = "not reproduced"
    NOT_COMPARABLE = "not comparable"


class PublishedFigure(NamedTuple):
    """A published figure and the measured one, as a report shows them."""

    by: str
    what: str
    theirs: str
    ours: str
    judged: Judged
    why: str
    """Empty if it is reproduced."""


def beside(comparison: Comparison) -> list[PublishedFigure]:
    """Each published figure of the experiment, in its order."""
    return [
        _judged(comparison, item, case, metric, statistic, theirs)
        for item in comparison.experiment.published
        for case, metrics in item.figures.items()
        for metric, figures in metrics.items()
        for statistic, theirs in figures.items()
    ]


def in_short(found: list[PublishedFigure]) -> str:
    """`AWS: 2 reproduced, 1 not comparable.`, and what decides that."""
    parts = []
    for by in dict.fromkeys(each.by for each in found):
        counts = Counter(each.judged for each in found if each.by == by)
        parts.append(f"{by}: " + ", ".join(f"{counts[one]} {one}" for one in Judged if counts[one]))
    rule = f"Reproduced means: both arms and their ratio within {WITHIN:.0%}. The figures decide nothing here."
    return f"{'; '.join(parts)}. {rule}"


def sources(experiment: Experiment) -> list[str]:
    """Conditions and source of each published run, a sentence for each."""
    found = []
    for item in experiment.published:
        conditions = [*(theirs for theirs, _ in _conditions(experiment, item)), item.conditions]
        told = ", ".join(each for each in conditions if each) or "no conditions"
        where = f"{item.by}, {item.base} -> {item.variant} on {', '.join(item.figures)}"
        found.append(f"{where}: {told} ({item.source}).")
    return found


def _judged(
    comparison: Comparison,
    item: Published,
    case: str,
    metric: Figure,
    statistic: Statistic,
    theirs: tuple[float, float],
) -> PublishedFigure:
    ours, requests = _measured(comparison, item, case, metric, statistic)
    judged, why = _verdict(comparison.experiment, item, statistic, theirs, ours, requests)
    if judged is Judged.NOT and (how := comparison.context.versions.get(WORKERS, "")).startswith("not"):
        why += f" (CPUs of the workers: {how}, which may cost speed)"
    info = INFO[metric]
    what = f"{info.label}{'' if statistic == 'all' else f', {statistic}'}: {item.base} -> {item.variant} on {case}"

    def pair(values: tuple[float, float] | None) -> str:
        if values is None:
            return "-"
        change = times(values[1] / values[0])
        return change if item.relative else f"{' -> '.join(figure(each, info).text for each in values)} ({change})"

    return PublishedFigure(item.by, what, pair(theirs), pair(ours), judged, why)


def _measured(
    comparison: Comparison, item: Published, case: str, metric: Figure, statistic: Statistic
) -> tuple[tuple[float, float] | None, int]:
    """Both arms' values at the first load, and the fewest requests behind one of them."""
    values, requests = [], []
    for name in (item.base, item.variant):
        if (arm := comparison.arm(name, case)) is None:
            return None, 0
        summary = arm.metrics.get(metric)
        value = arm.totals.get(metric) if statistic == "all" else getattr(summary, statistic, None)
        if not value:
            return None, 0
        values.append(value)
        requests.append(arm.completed)
    return (values[0], values[1]), min(requests)


def _verdict(
    experiment: Experiment,
    item: Published,
    statistic: Statistic,
    theirs: tuple[float, float],
    ours: tuple[float, float] | None,
    requests: int,
) -> tuple[Judged, str]:
    reasons = [differs for _, differs in _conditions(experiment, item) if differs]
    if ours is None:
        reasons.append("not measured here")
    elif (percent := _percentile(statistic)) and requests * (100 - percent) < 100:
        reasons.append(f"{statistic} of {requests} requests is the value of one request")
    if reasons:
        return Judged.NOT_COMPARABLE, "; ".join(reasons)
    assert ours is not None  # noqa: S101
    parts = {"the change": (theirs[1] / theirs[0], ours[1] / ours[0])}
    if not item.relative:
        parts |= {item.base: (theirs[0], ours[0]), item.variant: (theirs[1], ours[1])}
    apart = {what: own / other - 1 for what, (other, own) in parts.items()}
    off = [f"{what} {by:+.0%}" for what, by in apart.items() if abs(by) > WITHIN]
    return (Judged.NOT, ", ".join(off)) if off else (Judged.REPRODUCED, "")


def _percentile(statistic: Statistic) -> int:
    """99 of `p99`; `min` and `max` are single values however many requests there are. 0 for the others."""
    if statistic in ("min", "max"):
        return 100
    return int(statistic[1:]) if statistic.startswith("p") else 0


def _conditions(experiment: Experiment, item: Published) -> Iterator[tuple[str, str]]:
    """Known conditions of the published run in words, each with what is another one here, else ""."""
    variants = {variant.name: variant for variant in experiment.variants}
    arm = variants.get(item.variant)
    served = experiment if isinstance(experiment, ServedExperiment) else None
    speculation = arm.speculation if arm else None
    load, level = experiment.workload, experiment.workload.levels[0]
    own = {
        "model": experiment.target_of(arm).id if arm else experiment.target.id,
        "draft": speculation.draft.id if speculation else None,
        "k": speculation.num_speculative_tokens if speculation else None,
        "engine": served.engine if served else None,
        "TP": (served.serving_of(arm) if arm else served.serving).tensor_parallel_size if served else None,
        "requests at a time": level.concurrency,
        "temperature": load.temperature,
    }
    given = (
        ("model", item.model),
        ("draft", item.draft),
        ("k", item.num_speculative_tokens),
        ("engine", item.engine),
        ("TP", item.tensor_parallel_size),
        ("requests at a time", item.concurrency),
        ("temperature", item.temperature),
    )
    for name, theirs in given:
        if theirs is not None:
            here = own[name]
            yield f"{name} {theirs}", "" if theirs == here else f"{name} {theirs} there, {here or 'unknown'} here"
