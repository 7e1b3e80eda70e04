"""Whether an arm answers worse than its baseline: differences of lm-eval scores with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specdecode.analysis.context import Accuracy
from specdecode.analysis.result import AccuracyChange, Pair

NORMAL_95 = 1.959964
"""97.5% quantile of the normal: lm-eval's standard errors are of large-sample proportions."""


def accuracy_changes(scores: Sequence[Accuracy], pairs: Sequence[Pair]) -> Iterator[AccuracyChange]:
    """Score of the arm minus score of its baseline, for every task and metric that both have.

    The two scores are taken as independent although both arms answer the same questions: the interval is too wide
    rather than too narrow.
    """
    known = {(item.variant, item.task, item.metric): item for item in scores}
    for pair in pairs:
        for item in scores:
            before = known.get((pair.baseline, item.task, item.metric))
            if item.variant != pair.variant or before is None:
                continue
            change, reach = item.value - before.value, _reach(before, item)
            yield AccuracyChange(
                variant=pair.variant,
                baseline=pair.baseline,
                task=item.task,
                metric=item.metric,
                before=before.value,
                after=item.value,
                change=change,
                low=change - reach if reach is not None else None,
                high=change + reach if reach is not None else None,
                shown=reach is not None and abs(change) > reach,
            )


def lm_eval_scores(variant: str, document: Mapping[str, Any]) -> list[Accuracy]:
    """The scores in one lm-eval result file (`results*.json`, kept as runs/<run id>/accuracy/<variant>.json).

    lm-eval writes a metric as `name,filter` and its standard error as `name_stderr,filter` (or `N/A`).
    """
    found: list[Accuracy] = []
    for task, values in document.get("results", {}).items():
        samples = document.get("n-samples", {}).get(task, {}).get("effective")
        for key, value in values.items():
            name, comma, kind = key.partition(",")
            if not comma or name.endswith("_stderr") or not isinstance(value, int | float):
                continue
            error = values.get(f"{name}_stderr,{kind}")
            found.append(
                Accuracy(
                    variant=variant,
                    task=task,
                    metric=f"{name} ({kind})" if kind != "none" else name,
                    value=value,
                    stderr=error if isinstance(error, int | float) else None,
                    samples=samples,
                )
            )
    return found


def _reach(*scores: Accuracy) -> float | None:
    errors = [item.stderr for item in scores]
    if any(error is None for error in errors):
        return None
    return NORMAL_95 * math.hypot(*(error or 0.0 for error in errors))
