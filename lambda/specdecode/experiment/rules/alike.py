"""The arms of a comparison of speculation differ in speculation alone, engine's defaults included."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.experiment.effective import differences
from specdecode.experiment.rules.case import Finding, ServedCase


def arms_alike(case: ServedCase) -> Iterator[Finding]:
    """A default that changes with speculation must be set in the experiment, since nobody chose that difference.

    A setting that the experiment gives one arm alone is a choice: the plan and the report name it.
    """
    variants = {variant.name: variant for variant in case.experiment.variants}
    for variant in case.experiment.variants:
        baseline = variants.get(variant.compare_to or "")
        if baseline is None or (variant.speculation is None) == (baseline.speculation is None):
            continue
        if variant.speculation and variant.speculation.method not in case.engine.methods:
            continue  # `method` says it
        for found in differences(case.experiment, variant, baseline, case.engine):
            if not found.said:
                flag = found.setting.startswith("--")
                where = f"variants.{baseline.name}.extra_args" if flag else "serving.neuron_config"
                message = f"{variant.name} and {baseline.name} differ in {found}, by defaults of {case.engine.name}"
                yield (
                    f"variants.{variant.name}",
                    message,
                    f"set it in {where}, so that the arms differ in speculation alone",
                )
