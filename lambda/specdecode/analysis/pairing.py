"""Speed-ups of one arm over another: paired by prompt, on the log scale."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from specdecode.analysis.metrics import BY_NAME, SPEEDUPS
from specdecode.analysis.statistics import LogMean, log_mean, mean
from specdecode.benchmark.records import RequestRecord

METHOD = "Student's t on the log-ratio of paired prompts (rounds averaged)"


def log_by_prompt(records: Sequence[RequestRecord], metric: str) -> dict[int, float]:
    """Index of the prompt -> mean over rounds of ln(metric), completed requests only."""
    logs: dict[int, list[float]] = defaultdict(list)
    for record in records:
        value = BY_NAME[metric].of(record) if record.error is None else None
        if value is not None and value > 0.0:
            logs[record.index].append(math.log(value))
    return {index: mean(values) for index, values in logs.items()}


def paired(
    *,
    base: Sequence[RequestRecord],
    other: Sequence[RequestRecord],
    metric: str,
) -> LogMean | None:
    """Log speed-up (above 0: `other` is better) over the prompts that both completed; None where there is none.

    The prompt is the unit: its rounds are averaged first, so that repeating a prompt does not pass for more evidence.
    """
    left, right = log_by_prompt(base, metric), log_by_prompt(other, metric)
    sign = -1.0 if BY_NAME[metric].info.better == "lower" else 1.0
    differences = [sign * (right[index] - left[index]) for index in sorted(left.keys() & right.keys())]
    return log_mean(differences) if differences else None


def speedups(*, base: Sequence[RequestRecord], other: Sequence[RequestRecord]) -> dict[str, LogMean]:
    """Every compared metric's log speed-up, the headline first."""
    found = {metric: paired(base=base, other=other, metric=metric) for metric in SPEEDUPS}
    return {metric: stat for metric, stat in found.items() if stat is not None}
