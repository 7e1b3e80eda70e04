"""Speed-ups of one arm over another: paired by prompt, on the log scale."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection

from specdecode.analysis.statistics.measured import BY_NAME, SPEEDUPS
from specdecode.measures.arm import Measured
from specdecode.measures.distribution import mean
from specdecode.measures.observations import Asked, asked, differences
from specdecode.measures.student import LogMean, over_prompts

METHOD = "Student's t on the log-ratio of paired prompts (rounds averaged; from 12 prompts on, their skewness too)"
ONE_PROMPT = (
    "Student's t on the log-ratio of paired requests of one prompt (rounds averaged; from 12 on, their skewness too)"
)
STOPPED_EARLY = "anytime-valid t interval on the log-ratio of paired prompts (rounds averaged)"
Rounds = Collection[int] | None
"""Rounds whose requests count. None: all rounds."""


def log_by_prompt(measured: Measured, metric: str, rounds: Rounds = None) -> dict[Asked, float]:
    """Prompt -> mean over rounds of ln(metric), for completed requests."""
    logs: dict[Asked, list[float]] = defaultdict(list)
    for record, value in measured.values.get(metric, ()):
        if value > 0.0 and (rounds is None or record.round in rounds):
            logs[asked(record)].append(math.log(value))
    return {prompt: mean(values) for prompt, values in logs.items()}


def paired(
    base: Measured, other: Measured, metric: str, rounds: tuple[Rounds, Rounds] = (None, None)
) -> LogMean | None:
    """Log speed-up over the prompts that both arms completed: above 0 `other` is better. None if there is no such
    prompt.

    One prompt is one observation: its rounds are averaged first, so that repeating a prompt does not count as more
    evidence. A conversation is one observation too, since its turns depend on each other. `rounds`: rounds that count,
    of `base` and of `other`.
    """
    left, right = log_by_prompt(base, metric, rounds[0]), log_by_prompt(other, metric, rounds[1])
    sign = -1.0 if BY_NAME[metric].better == "lower" else 1.0
    found = [sign * each for each in differences(left, right)]
    return over_prompts(found)._replace(early=base.stopped_early or other.stopped_early) if found else None


def speedups(base: Measured, other: Measured, rounds: Rounds = None) -> dict[str, LogMean]:
    """Log speed-up of every compared metric, the headline first. `rounds`: rounds of the base that count."""
    found = {metric: paired(base, other, metric, (rounds, None)) for metric in SPEEDUPS}
    return {metric: stat for metric, stat in found.items() if stat is not None}
