"""What the advisor learns of measured arms: observations, and the calibrated model of each draft."""

import math
from collections.abc import Sequence

from specdecode.analysis.results.comparison import MeasuredK, Point, Theory
from specdecode.analysis.results.over_load import Curve, LoadPoint
from specdecode.analysis.results.pairs import CaseResult, GroupName, GroupResult, Pair
from specdecode.analysis.statistics.verdict import log_stat
from specdecode.experiment.model import Experiment
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.step import most_tokens
from specdecode.experiment.variants import Variant
from specdecode.measures.student import combine
from specdecode.speculation.advisor import REACH
from specdecode.speculation.belief import NOISE, Observation, Prior, believe, calibrate
from specdecode.speculation.step_cost import arms

DECODING = "time_per_output_token"
STEPS = "tokens_per_step"
LEAST_ERROR = 0.01
"""Least error of an observation: requests that repeat one prompt agree better with each other than two runs do."""


def observation(variant: Variant, pair: Pair, result: GroupResult) -> Observation | None:
    """Observation of an arm over one group of cases.

    None if the arm differs from its baseline in more than speculation, has no single k, or lacks a figure. None too if
    a case of the group was not judged, since arms would then be compared on different prompts. None too if a figure is
    impossible, since the arm's k is then not the one that the experiment says. The error covers the measured prompts.
    """
    if result.judged != result.cases or any(
        case.impossible or case.late for case in pair.cases if case.case in result.judged
    ):
        return None
    spec = variant.speculation
    estimates = {estimate.metric: estimate for estimate in result.speedups}
    if (
        spec is None
        or spec.num_speculative_tokens_per_batch_size
        or pair.changes != ("speculation",)
        or DECODING not in estimates
        or STEPS not in estimates
    ):
        return None
    return Observation(
        draft=spec.draft.id,
        k=spec.num_speculative_tokens,
        speedup=estimates[DECODING].ratio,
        tokens_per_step=estimates[STEPS].ratio,
        error=_error([case for case in pair.cases if case.case in result.judged]),
    )


def observation_at(variant: Variant, pair: Pair, curve: Curve, point: LoadPoint) -> Observation | None:
    """Observation of an arm at one load, over the cases of a curve. None as in `observation`."""
    spec = variant.speculation
    if spec is None or spec.num_speculative_tokens_per_batch_size or pair.changes != ("speculation",) or curve.left_out:
        return None
    if point.decoding is None or point.acceptance_length is None:
        return None
    known = point.decoding.low is not None
    return Observation(
        draft=spec.draft.id,
        k=spec.num_speculative_tokens,
        speedup=point.decoding.ratio,
        tokens_per_step=point.acceptance_length,
        error=max(LEAST_ERROR, math.sqrt(log_stat(point.decoding).variance)) if known else NOISE,
    )


def _error(cases: Sequence[CaseResult]) -> float:
    found = [estimate for case in cases for estimate in case.speedups if estimate.metric == DECODING]
    if not found or any(estimate.low is None for estimate in found):
        return NOISE
    together = combine([log_stat(estimate) for estimate in found], [1.0 / len(found)] * len(found))
    return max(LEAST_ERROR, math.sqrt(together.variance))


PLOTTED_K = 16


def theories(*, experiment: Experiment, pairs: Sequence[Pair]) -> tuple[Theory, ...]:
    """One calibrated model for each draft, kind of engine and group of cases that was measured against an arm without
    speculation.
    """
    variants = {variant.name: variant for variant in experiment.variants}
    grouped: dict[tuple[str, MostTokens, GroupName], list[tuple[Variant, Pair, GroupResult]]] = {}
    for pair in pairs:
        variant = variants[pair.variant]
        if variant.speculation is None:
            continue
        for group in pair.groups:
            key = (variant.speculation.draft.id, most_tokens(experiment, variant), group.group)
            grouped.setdefault(key, []).append((variant, pair, group))
    found = [_theory(experiment, *key, members) for key, members in grouped.items()]
    return tuple(theory for theory in found if theory is not None)


def _theory(
    experiment: Experiment,
    draft: str,
    most: MostTokens,
    group: GroupName,
    members: Sequence[tuple[Variant, Pair, GroupResult]],
) -> Theory | None:
    members = [member for member in members if observation(*member)]
    seen = [item for member in members if (item := observation(*member))]
    if not seen:
        return None
    prior = Prior(arms=arms(experiment))
    a, c, v = calibrate(seen, most=most, prior=prior)
    believed = believe(draft, range(1, PLOTTED_K + 1), seen, most=most, prior=prior)
    return Theory(
        draft=draft,
        most_tokens_per_step=most,
        group=group,
        acceptance=a,
        draft_cost=c,
        overhead=v,
        points=tuple(
            Point(
                k=at.k,
                speedup=math.exp(centre),
                low=math.exp(centre - REACH * deviation),
                high=math.exp(centre + REACH * deviation),
            )
            for at, (centre, deviation) in believed.items()
        ),
        measured=tuple(
            MeasuredK(
                variant=variant.name,
                k=variant.speculation.num_speculative_tokens,
                speedup=estimates[DECODING].ratio,
                low=estimates[DECODING].low,
                high=estimates[DECODING].high,
            )
            for variant, _, result in members
            if variant.speculation
            and (estimates := {found.metric: found for found in result.speedups}).keys() >= {DECODING, STEPS}
        ),
    )
