"""Figures that others published, beside the measured ones: reproduced, not reproduced, or not comparable, and why."""

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import figure, times
from specdecode.analysis.statistics.measured import BY_NAME
from specdecode.experiment.effective import WORKERS
from specdecode.experiment.model import Experiment, ServedExperiment
from specdecode.experiment.told import Figure, Published, Statistic
from specdecode.experiment.workload import PromptKind

WITHIN = 0.1
"""A figure is reproduced if both arms and their ratio differ by no more than this: twice what nodes of one kind are
assumed to differ by (specdecode.analysis.statistics.groups). Lengths in tokens that differ by no more are alike."""
CONDITIONS = {
    "model": "model",
    "draft": "draft",
    "k": "num_speculative_tokens",
    "engine": "engine",
    "TP": "tensor_parallel_size",
    "requests at a time": "concurrency",
    "temperature": "temperature",
    "input tokens": "input_tokens",
    "output tokens": "output_tokens",
}
"""How a condition is called -> its field of what was published."""
Known = str | float | None


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
    """What differs, or what of their conditions this run does not know. Empty if neither."""


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
    """Conditions and source of each published run, a sentence for each; its words about others are not compared."""
    found = []
    for item in experiment.published:
        told = ", ".join(f"{name} {_said(theirs)}" for name, theirs in _given(item)) or "no conditions"
        told += f"; not compared: {item.conditions}" if item.conditions else ""
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
    here = _here(comparison, item, case)
    reasons = [
        f"{name} {_said(said)} there, {_said(here[name])} here"
        for name, said in _given(item)
        if here[name] is not None and not _alike(name, said, here[name])
    ]
    if ours is None:
        reasons.append("not measured here")
    elif (percent := _percentile(statistic)) and requests * (100 - percent) < 100:
        reasons.append(f"{statistic} of {requests} requests is the value of one request")
    judged, why = Judged.NOT_COMPARABLE, "; ".join(reasons)
    if ours and not reasons:
        off = _off(item, theirs, ours)
        judged, why = (Judged.NOT, ", ".join(off)) if off else (Judged.REPRODUCED, "")
        if unknown := [name for name, _ in _given(item) if here[name] is None]:
            why += f"{'; ' if why else ''}not known here, so not compared: {', '.join(unknown)}"
        if off and (how := comparison.context.versions.get(WORKERS, "")).startswith("not"):
            why += f" (CPUs of the workers: {how}, which may cost speed)"
    info = BY_NAME[metric]
    what = f"{info.label}{'' if statistic == 'all' else f', {statistic}'}: {item.base} -> {item.variant} on {case}"

    def pair(values: tuple[float, float] | None) -> str:
        if values is None:
            return "-"
        change = times(values[1] / values[0])
        return change if item.relative else f"{' -> '.join(figure(each, info).text for each in values)} ({change})"

    return PublishedFigure(item.by, what, pair(theirs), pair(ours), judged, why)


def _off(item: Published, theirs: tuple[float, float], ours: tuple[float, float]) -> list[str]:
    """What differs by more than WITHIN: the change, and unless only that is published either arm."""
    parts = {"the change": (theirs[1] / theirs[0], ours[1] / ours[0])}
    if not item.relative:
        parts |= {item.base: (theirs[0], ours[0]), item.variant: (theirs[1], ours[1])}
    apart = {what: own / other - 1 for what, (other, own) in parts.items()}
    return [f"{what} {by:+.0%}" for what, by in apart.items() if abs(by) > WITHIN]


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


def _percentile(statistic: Statistic) -> int:
    """99 of `p99`; `min` and `max` are single values however many requests there are. 0 for the others."""
    if statistic in ("min", "max"):
        return 100
    return int(statistic[1:]) if statistic.startswith("p") else 0


def _given(item: Published) -> list[tuple[str, Known]]:
    """What the source says of its conditions."""
    return [(name, theirs) for name, field in CONDITIONS.items() if (theirs := getattr(item, field)) is not None]


def _here(comparison: Comparison, item: Published, case: str) -> dict[str, Known]:
    """The same of this run, and of its base's answers. None: not known, as of servers that ran already."""
    experiment, base = comparison.experiment, comparison.arm(item.base, case)
    arm = next((variant for variant in experiment.variants if variant.name == item.variant), None)
    served = experiment if isinstance(experiment, ServedExperiment) else None
    speculation, none = arm.speculation if arm else None, "none" if served and arm else None
    load, level = experiment.workload, experiment.workload.levels[0]
    made = any(each.name == case and each.kind in (PromptKind.LINE, PromptKind.SONNET) for each in load.cases)
    return {
        "model": experiment.target_of(arm).id if arm else experiment.target.id,
        "draft": speculation.draft.id if speculation else none,
        "k": speculation.num_speculative_tokens if speculation else none,
        "engine": served.engine if served else None,
        "TP": (served.serving_of(arm) if arm else served.serving).tensor_parallel_size if served else None,
        "requests at a time": (level.concurrency or str(level)) if load.knows("concurrency") else None,
        "temperature": load.temperature if load.knows("temperature") else None,
        "input tokens": load.input_tokens if made and load.knows("input_tokens") else None,
        "output tokens": round(base.output_tokens / base.completed) if base and base.completed else None,
    }


def _alike(name: str, theirs: Known, here: Known) -> bool:
    if name.endswith(" tokens") and isinstance(theirs, int) and isinstance(here, int):
        return abs(here / theirs - 1) <= WITHIN
    return theirs == here


def _said(value: Known) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
