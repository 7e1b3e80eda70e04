"""Notes that lay a run beside others' figures, and say which comparison is which where arms differ in more."""

from __future__ import annotations

from collections.abc import Mapping

from specdecode.experiment import ExperimentError, load_engine
from specdecode.experiment.effective import differences
from specdecode.experiment.model import Experiment
from specdecode.experiment.published import Published
from specdecode.measures.arm import Key, Measured


def published_notes(experiment: Experiment, arms: Mapping[Key, Measured]) -> list[str]:
    """`AWS published 184.4 -> 288.6 tok/s …; you measured …`, one for each published pair."""
    return [_beside(item, arms) for item in experiment.published]


def _beside(item: Published, arms: Mapping[Key, Measured]) -> str:
    theirs = _pair(item.base_tokens_per_second, item.tokens_per_second)
    found = [
        arms[name, item.case].arm.output_throughput for name in (item.base, item.variant) if (name, item.case) in arms
    ]
    conditions = f", {item.conditions}" if item.conditions else ""
    ours = "not measured here"
    if len(found) == 2 and found[0] and found[1]:
        ours = f"you measured {_pair(found[0], found[1])} on {item.case}"
    return f"{item.by} published {theirs} for {item.base} -> {item.variant}{conditions}; {ours} ({item.source})."


def _pair(base: float, other: float) -> str:
    return f"{base:.1f} -> {other:.1f} tok/s ({other / base:.2f}×)"


def which_comparison(experiment: Experiment) -> list[str]:
    """What the arms of each comparison differ in, where that is more than speculation.

    A chain's total is named too: `sd` against a first baseline that is served as one would deploy it.
    """
    if experiment.has_endpoints:
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
