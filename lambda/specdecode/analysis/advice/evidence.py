"""The rows that a finished run adds to the card of step costs, and which rows cannot be true."""

from collections.abc import Iterator

from specdecode.analysis.advice.learned import observation, observation_at
from specdecode.analysis.results.comparison import Comparison
from specdecode.experiment.step import most_tokens
from specdecode.measures.metrics.steps import SLACK as SLACK_OF_STEPS
from specdecode.measures.metrics.steps import most_tokens_per_step
from specdecode.measures.plausibility import SLACK, impossible_speedup
from specdecode.speculation.step_cost import StepCost, arm_of

ALL = "all"
FINEST = 4
"""Digits of a row's figures."""


def rows_of(comparison: Comparison) -> list[StepCost]:
    """What a run adds to the evidence: a row for each arm that differs from its baseline in speculation alone, at each
    load. Names of models, sizes and figures; no text.
    """
    experiment, found = comparison.experiment, list[StepCost]()
    levels = experiment.workload.levels
    for pair in comparison.pairs:
        variant = experiment.variant(pair.variant)
        if variant.speculation is None:
            continue
        if len(levels) == 1:
            result = pair.group(ALL)
            seen = [(levels[0], observation(variant, pair, result) if result else None)]
        else:
            curves = [
                c for c in comparison.curve if (c.variant, c.baseline, c.group) == (pair.variant, pair.baseline, ALL)
            ]
            seen = [(point.level, observation_at(variant, pair, c, point)) for c in curves for point in c.points]
        for level, item in seen:
            if item is not None and level.concurrency:
                found.append(
                    StepCost(
                        source=comparison.run_id,
                        most_tokens_per_step=most_tokens(experiment, variant),
                        speedup=round(item.speedup, FINEST),
                        tokens_per_step=max(1.0, round(item.tokens_per_step, FINEST)),
                        error=round(item.error, FINEST),
                        **arm_of(experiment, variant, level)._asdict(),
                    )
                )
    return found


def impossible(row: StepCost) -> Iterator[str]:
    """Why a row cannot be true: whoever measured it, no step yields more than it verifies, and no draft gains more."""
    most = most_tokens_per_step(row.k, row.most_tokens_per_step)
    tokens = row.tokens_per_step
    if tokens is not None and tokens > most * SLACK_OF_STEPS:
        yield f"{tokens:,.4g} tokens per step are more than a step yields: {most:g} at most with k={row.k}"
    if why := impossible_speedup(row.speedup, row.speedup / SLACK, most=min(most, tokens or most)):
        yield why
