"""The calibrated model beside the measurements: speed-up of decoding over k, per draft and group of cases."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specdecode.analysis.result import ArmCase, Estimate, GroupResult, Measured, Pair, Point, Theory
from specdecode.analysis.statistics import CONFIDENCE, t_quantile
from specdecode.experiment.model import Experiment, Variant
from specdecode.speculation import Fit, StepPoint, fit

PLOTTED_K = 16
REACH = 2
"""No k beyond this times the largest measured one (plus one) is recommended: that far the model has seen nothing."""
DECODING = "time_per_output_token"
STEPS = "tokens_per_step"
WORTH = 1.02
"""A recommended k must gain at least this much over the best measured one to be worth a compile."""


def theories(*, experiment: Experiment, pairs: Sequence[Pair]) -> tuple[Theory, ...]:
    """One calibrated model for each draft and group of cases that was measured against an arm without speculation."""
    variants = {variant.name: variant for variant in experiment.variants}
    grouped: dict[tuple[str, str], list[tuple[Variant, GroupResult]]] = {}
    for pair in pairs:
        variant = variants[pair.variant]
        if variant.speculation is None or pair.changes != ("speculation",):
            continue
        for group in pair.groups:
            grouped.setdefault((variant.speculation.draft.id, group.group), []).append((variant, group))
    found = [_theory(experiment, draft, group, members) for (draft, group), members in grouped.items()]
    return tuple(theory for theory in found if theory is not None)


def _theory(
    experiment: Experiment,
    draft: str,
    group: str,
    members: Sequence[tuple[Variant, GroupResult]],
) -> Theory | None:
    usable: list[tuple[Variant, Estimate, Estimate]] = []
    for variant, result in members:
        found = {estimate.metric: estimate for estimate in result.speedups}
        if DECODING in found and STEPS in found:
            usable.append((variant, found[DECODING], found[STEPS]))
    if not usable:
        return None
    points = [
        StepPoint(
            k=_k(variant),
            tokens_per_step=max(1.0, steps.ratio),
            step_ratio=max(1.0, steps.ratio / decoding.ratio),
            tokens_error=_relative_error(steps),
            step_error=math.hypot(_relative_error(steps), _relative_error(decoding)),
        )
        for variant, decoding, steps in usable
    ]
    speculation = usable[0][0].speculation
    target = usable[0][0].target or experiment.target
    ratio = speculation.draft.size_gib / target.size_gib if speculation else 0.0
    model = fit(points, weight_ratio=ratio)
    reach = min(PLOTTED_K, REACH * max(point.k for point in points) + 1)
    best, gain = model.best(max_k=reach)
    return Theory(
        draft=draft,
        group=group,
        acceptance=model.a,
        draft_cost=model.c,
        overhead=model.v,
        separated=model.separated,
        points=tuple(
            Point(k=k, speedup=p.speedup, low=p.low, high=p.high, tokens_per_step=p.tokens_per_step)
            for k in range(PLOTTED_K + 1)
            for p in (model.predict(k),)
        ),
        measured=tuple(_measured(model, variant, decoding, steps) for variant, decoding, steps in usable),
        best_k=best,
        best_speedup=gain,
        advice=_advice(model, best, gain, usable, arms=_arms(experiment, draft)),
    )


def _measured(model: Fit, variant: Variant, decoding: Estimate, steps: Estimate) -> Measured:
    predicted = model.predict(_k(variant)).speedup
    return Measured(
        variant=variant.name,
        k=_k(variant),
        speedup=decoding.ratio,
        low=decoding.low,
        high=decoding.high,
        tokens_per_step=steps.ratio,
        predicted=predicted,
        error=predicted / decoding.ratio - 1.0,
    )


def _arms(experiment: Experiment, draft: str) -> set[int]:
    return {_k(arm) for arm in experiment.variants if arm.speculation and arm.speculation.draft.id == draft}


def _advice(
    model: Fit, best: int, gain: float, usable: Sequence[tuple[Variant, Estimate, Estimate]], *, arms: set[int]
) -> str:
    variant, decoding, _ = max(usable, key=lambda item: item[1].ratio)
    if best == 0:
        return "Do not speculate here: no k is predicted to be faster than plain decoding."
    ks = {_k(item[0]) for item in usable}
    if best in ks or gain < WORTH * decoding.ratio:
        return f"Stay with k={_k(variant)}: no other k in reach is predicted to gain more than {WORTH - 1:.0%} over it."
    hedge = (
        "" if model.separated else " One measured k cannot tell drafting from verification cost, so the range is wide."
    )
    reach = model.predict(best)
    missing = "" if best in arms else ", which is no arm of this experiment yet"
    return (
        f"Try k={best} next{missing}: {reach.speedup:.2f}× predicted ({reach.low:.2f}–{reach.high:.2f}), "
        f"against {decoding.ratio:.2f}× measured at k={_k(variant)}.{hedge}"
    )


def _k(variant: Variant) -> int:
    return variant.speculation.num_speculative_tokens if variant.speculation else 0


def _relative_error(estimate: Estimate) -> float:
    """Relative standard error from the interval (a t interval of n-1 degrees of freedom on the log scale)."""
    if estimate.low is None or estimate.high is None or estimate.n < 2:
        return 0.0
    return math.log(estimate.high / estimate.low) / 2.0 / t_quantile(0.5 + CONFIDENCE / 2.0, estimate.n - 1.0)


def most_merged(arms: Sequence[ArmCase]) -> float | None:
    """Largest mean of tokens per step among arms without speculation: 1 unless the transport merges chunks."""
    return max((s.mean for arm in arms if (s := arm.metrics.get(STEPS)) and s.mean), default=None)
