"""What is learned of measured arms: observations, the calibrated model of each draft, and rows of evidence."""

import math
from collections.abc import Iterator, Sequence

from specdecode.analysis.results.comparison import Comparison, MeasuredK, Point, Theory
from specdecode.analysis.results.over_load import Curve, LoadPoint
from specdecode.analysis.results.pairs import Estimate, GroupName, GroupResult, Pair
from specdecode.analysis.statistics.verdict import log_stat
from specdecode.experiment.model import Experiment
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.step import most_tokens
from specdecode.experiment.variants import Variant
from specdecode.experiment.workload import Level
from specdecode.measures.metrics.formulas import SLACK as SLACK_OF_STEPS
from specdecode.measures.metrics.formulas import most_tokens_per_step
from specdecode.measures.plausibility import SLACK, impossible_speedup
from specdecode.measures.student import combine
from specdecode.speculation.advisor import REACH
from specdecode.speculation.belief import NOISE, Observation, Prior, believe, calibrate
from specdecode.speculation.step_cost import StepCost, arm_of, arms

DECODING = "time_per_output_token"
STEPS = "tokens_per_step"
ALL = "all"
PLOTTED_K = 16
FINEST = 4
"""Digits of a row's figures."""
LEAST_ERROR = 0.01
"""Least error of an observation: requests that repeat one prompt agree better with each other than two runs do."""


def observation(variant: Variant, pair: Pair, result: GroupResult) -> Observation | None:
    """Observation of an arm over one group of cases, with the error of the measured prompts. None if the arm differs
    from its baseline in more than speculation, has no single k, or has no speed-up; if a case was not judged, since
    arms would be compared on different prompts; and if a figure is impossible, since its k is another one then.
    """
    cases = [case for case in pair.cases if case.case in result.judged]
    found = {estimate.metric: estimate for estimate in result.speedups}
    unsure = result.judged != result.cases or any(case.impossible or case.late for case in cases)
    if unsure or DECODING not in found:
        return None
    each, error = [one for case in cases for one in case.speedups if one.metric == DECODING], NOISE
    if each and all(one.low is not None for one in each):
        together = combine([log_stat(one) for one in each], [1.0 / len(each)] * len(each))
        error = max(LEAST_ERROR, math.sqrt(together.variance) + together.off)
    return _observed(variant, pair, found[DECODING].ratio, found[STEPS].ratio if STEPS in found else None, error)


def observation_at(variant: Variant, pair: Pair, curve: Curve, point: LoadPoint) -> Observation | None:
    """Observation of an arm at one load, over the cases of a curve. None as in `observation`."""
    decoding = point.decoding
    if curve.left_out or decoding is None:
        return None
    stat = log_stat(decoding)
    error = NOISE if decoding.low is None else max(LEAST_ERROR, math.sqrt(stat.variance) + stat.off)
    return _observed(variant, pair, decoding.ratio, point.acceptance_length, error)


def observed(comparison: Comparison, pair: Pair, group: str = ALL) -> Iterator[tuple[Level, Observation]]:
    """Every observation of a pair, load by load."""
    variant, levels = comparison.experiment.variant(pair.variant), comparison.experiment.workload.levels
    if len(levels) == 1:
        result = pair.group(group)
        if result and (seen := observation(variant, pair, result)):
            yield levels[0], seen
        return
    for curve in comparison.curve:
        if (curve.variant, curve.baseline, curve.group) == (pair.variant, pair.baseline, group):
            for point in curve.points:
                if seen := observation_at(variant, pair, curve, point):
                    yield point.level, seen


def taught_nothing(comparison: Comparison, group: str = ALL) -> Iterator[tuple[str, str]]:
    """Every arm with one k that teaches nothing of any other, and why."""
    for pair in comparison.pairs:
        spec = comparison.experiment.variant(pair.variant).speculation
        if spec is None or spec.num_speculative_tokens_per_batch_size or "speculation" not in pair.changes:
            continue
        seen = [one for _, one in observed(comparison, pair, group)]
        if pair.changes != ("speculation",):
            yield pair.variant, f"it differs from {pair.baseline} in more than speculation"
        elif not seen:
            yield pair.variant, "its speed-up is not known on every type of prompts, or is impossible"
        elif not any(one.tokens_per_step for one in seen):
            yield pair.variant, "its tokens per step are not known"


def _observed(variant: Variant, pair: Pair, speedup: float, tokens: float | None, error: float) -> Observation | None:
    spec = variant.speculation
    if spec is None or spec.num_speculative_tokens_per_batch_size or pair.changes != ("speculation",):
        return None
    return Observation(spec.draft.id, spec.num_speculative_tokens, speedup, tokens, error)


def theories(*, experiment: Experiment, pairs: Sequence[Pair]) -> tuple[Theory, ...]:
    """One calibrated model for each draft, kind of engine and group of cases with an arm that was compared to none."""
    grouped: dict[tuple[str, MostTokens, GroupName], list[tuple[str, Observation, Estimate]]] = {}
    for pair in pairs:
        variant = experiment.variant(pair.variant)
        for group in pair.groups:
            if (seen := observation(variant, pair, group)) and seen.tokens_per_step:
                key = (seen.draft, most_tokens(experiment, variant), group.group)
                estimate = next(found for found in group.speedups if found.metric == DECODING)
                grouped.setdefault(key, []).append((pair.variant, seen, estimate))
    return tuple(_theory(experiment, *key, members) for key, members in grouped.items())


def _theory(
    experiment: Experiment,
    draft: str,
    most: MostTokens,
    group: GroupName,
    members: Sequence[tuple[str, Observation, Estimate]],
) -> Theory:
    seen, prior = [item for _, item, _ in members], Prior(arms=arms(experiment))
    a, c, v = calibrate(seen, most=most, prior=prior)
    points = []
    for at, (centre, deviation) in believe(draft, range(1, PLOTTED_K + 1), seen, most=most, prior=prior).items():
        speedup, low, high = (math.exp(centre + reach * deviation) for reach in (0.0, -REACH, REACH))
        points.append(Point(k=at.k, speedup=speedup, low=low, high=high))
    return Theory(
        draft=draft,
        most_tokens_per_step=most,
        group=group,
        acceptance=a,
        draft_cost=c,
        overhead=v,
        points=tuple(points),
        measured=tuple(
            MeasuredK(variant=name, k=item.k, speedup=found.ratio, low=found.low, high=found.high)
            for name, item, found in members
        ),
    )


def rows_of(comparison: Comparison) -> list[StepCost]:
    """A row for each arm that differs from its baseline in speculation alone, at each load. No text is in it."""
    experiment, found = comparison.experiment, list[StepCost]()
    for pair in comparison.pairs:
        variant = experiment.variant(pair.variant)
        for level, item in observed(comparison, pair):
            if level.concurrency and item.tokens_per_step:
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
