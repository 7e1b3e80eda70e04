"""Data of a chart: the advisor's belief about a draft over k, beside the measured speed-ups."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specdecode.analysis.advice.observing import DECODING, STEPS, observation
from specdecode.analysis.results.comparison import GroupName, GroupResult, MeasuredK, Pair, Point, Theory
from specdecode.experiment.model import Experiment, Variant
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.step import most_tokens
from specdecode.speculation.advisor import REACH, believe, calibrate

PLOTTED_K = 16


def theories(*, experiment: Experiment, pairs: Sequence[Pair]) -> tuple[Theory, ...]:
    """One calibrated model for each draft, kind of engine and group of cases that was measured against an arm without
    speculation.
    """
    variants = {variant.name: variant for variant in experiment.variants}
    grouped: dict[tuple[str, MostTokens, GroupName], list[tuple[Variant, Pair, GroupResult]]] = {}
    for pair in pairs:
        variant = variants[pair.variant]
        if variant.speculation is None or pair.changes != ("speculation",):
            continue
        for group in pair.groups:
            key = (variant.speculation.draft.id, most_tokens(experiment, variant), group.group)
            grouped.setdefault(key, []).append((variant, pair, group))
    found = [_theory(*key, members) for key, members in grouped.items()]
    return tuple(theory for theory in found if theory is not None)


def _theory(
    draft: str, most: MostTokens, group: GroupName, members: Sequence[tuple[Variant, Pair, GroupResult]]
) -> Theory | None:
    members = [member for member in members if observation(*member)]
    seen = [item for member in members if (item := observation(*member))]
    if not seen:
        return None
    a, c, v = calibrate(seen, most=most)
    believed = believe(draft, range(1, PLOTTED_K + 1), seen, most=most)
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
