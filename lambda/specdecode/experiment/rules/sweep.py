"""Rules of adaptive sweeps: the advisor must be able to compare every arm with the one baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from specdecode.experiment.model import ServedVariant, Sweep
from specdecode.experiment.rules.case import Finding, ServedCase

GRID = "write sweep: grid, which measures any set of arms"


def adaptive(case: ServedCase) -> Iterator[Finding]:
    """One baseline; all others differ from it in speculation alone, and among themselves in draft or k."""
    variants = case.experiment.variants
    baselines = [variant for variant in variants if variant.compare_to is None]
    if case.experiment.sweep is not Sweep.ADAPTIVE or not baselines:
        return
    if len(baselines) > 1:
        yield "sweep", f"an adaptive sweep has one baseline, not {len(baselines)}", GRID
    if len(variants) < 3:
        yield "sweep", "an adaptive sweep needs two arms to choose from", "add arms, or leave sweep out"
    for variant in variants:
        if variant.compare_to is not None and not _is_arm(variant, baselines[0]):
            message = f"{variant.name} does not differ from {baselines[0].name} in speculation alone"
            yield f"variants.{variant.name}", message, GRID
    points = [(s.draft.id, s.num_speculative_tokens) for variant in variants if (s := variant.speculation)]
    for (draft, k), count in Counter(points).items():
        if count > 1:
            yield "variants", f"{count} arms have the draft {draft} with k={k}", "leave one of them"


def _is_arm(variant: ServedVariant, baseline: ServedVariant) -> bool:
    same = all(
        getattr(variant, field) == getattr(baseline, field)
        for field in ("target", "quantization", "neuron_config", "extra_args", "env")
    )
    return variant.compare_to == baseline.name and variant.speculation is not None and same
