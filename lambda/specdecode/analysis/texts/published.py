"""Notes that compare a run with published figures, and that tell comparisons apart if arms differ in more than
speculation.
"""

from __future__ import annotations

from specdecode.analysis.statistics.measured import Arms, AtLevel
from specdecode.experiment import ExperimentError, load_engine
from specdecode.experiment.effective import differences
from specdecode.experiment.model import Experiment, Published, ServedExperiment


def published_notes(experiment: Experiment, at: AtLevel) -> list[str]:
    """`AWS published 184.4 -> 288.6 tok/s (1.56×; TP 8, …); you measured … Your run has TP 4`: one note for each
    published pair.
    """
    return [_beside(experiment, item, at.arms) for item in experiment.published]


def _beside(experiment: Experiment, item: Published, arms: Arms) -> str:
    theirs = _pair(item.base_tokens_per_second, item.tokens_per_second)
    shape = [text for text, _ in _shape(experiment, item)]
    other = [own for _, own in _shape(experiment, item) if own]
    conditions = "".join(f", {each}" for each in (*shape, item.conditions) if each)
    yours = f" Your shape is another one: {', '.join(other)}." if other else ""
    found = [
        arms[name, item.case].arm.output_throughput for name in (item.base, item.variant) if (name, item.case) in arms
    ]
    ours = "not measured here"
    if len(found) == 2 and found[0] and found[1]:
        ours = f"you measured {_pair(found[0], found[1])} on {item.case}"
    return f"{item.by} published {theirs} for {item.base} -> {item.variant}{conditions}; {ours} ({item.source}).{yours}"


def _shape(experiment: Experiment, item: Published) -> list[tuple[str, str]]:
    """Known values of the published run, each with this experiment's value if it is another one, else ""."""
    variants = {variant.name: variant for variant in experiment.variants}
    arm = variants.get(item.variant)
    model = experiment.target_of(arm).id if arm else experiment.target.id
    level, parallel = experiment.workload.levels[0], item.tensor_parallel_size
    if experiment.served_with is not None:
        parallel = experiment.served_with.tensor_parallel_size
    known = (
        (item.model, model, f"{item.model}", model),
        (item.tensor_parallel_size, parallel, f"TP {item.tensor_parallel_size}", f"TP {parallel}"),
        (item.concurrency, level.concurrency, f"concurrency {item.concurrency}", str(level)),
    )
    return [(text, "" if theirs == ours else own) for theirs, ours, text, own in known if theirs is not None]


def _pair(base: float, other: float) -> str:
    return f"{base:.1f} -> {other:.1f} tok/s ({other / base:.2f}×)"


def which_comparison(experiment: Experiment) -> list[str]:
    """Differences of the arms in each comparison, if they differ in more than speculation.

    The total of a chain is named too: `sd` against a first baseline that is served as it would be without speculation.
    """
    if not isinstance(experiment, ServedExperiment):
        return []
    try:
        engine = load_engine(experiment.engine)
    except ExperimentError:  # a run of an engine that does not ship any more
        return []
    variants = {variant.name: variant for variant in experiment.variants}
    lines: list[str] = []
    mixed = False
    for variant in experiment.variants:
        before, seen = variant.compare_to, {variant.name}
        while before in variants and before not in seen:
            seen.add(before)
            baseline = variants[before]
            parts = ["speculation"] if (variant.speculation is None) != (baseline.speculation is None) else []
            others = [str(one) for one in differences(experiment, variant, baseline, engine)]
            mixed = mixed or bool(others)
            lines.append(f"{variant.name} against {before} differs in {' and '.join([*parts, *others]) or 'nothing'}")
            before = baseline.compare_to
    return [f"Which comparison is which: {'; '.join(lines)}."] if mixed else []
