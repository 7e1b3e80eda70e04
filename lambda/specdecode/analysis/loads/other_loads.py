"""Results at the loads after the first, case by case. A gate checks them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdecode.analysis.results.load_result import LoadResult
from specdecode.analysis.results.pair_result import HEADLINE, CaseResult, Pair
from specdecode.analysis.statistics.measured import AtLevel
from specdecode.analysis.statistics.pairs import compare_pair
from specdecode.experiment.model import Experiment
from specdecode.measures.arm_case import ArmCase


def other_loads(experiment: Experiment, levels: Sequence[AtLevel]) -> tuple[LoadResult, ...]:
    """Results at each level but the first."""
    return tuple(
        LoadResult(
            level=at.level,
            arms=tuple(_arm(each.arm) for each in at.arms.values()),
            pairs=tuple(_pairs(experiment, at)),
        )
        for at in levels[1:]
    )


def _pairs(experiment: Experiment, at: AtLevel) -> Iterator[Pair]:
    for other in experiment.variants:
        if other.compare_to is not None:
            base = experiment.variant(other.compare_to)
            pair = compare_pair(experiment=experiment, base=base, other=other, arms=at.arms, drift=1.0)
            if pair is not None:
                yield pair.model_copy(update={"cases": tuple(map(_case, pair.cases)), "groups": ()})


def _case(found: CaseResult) -> CaseResult:
    equality = found.equality.model_copy(update={"first": None})
    speedups = () if found.headline is None else (found.headline,)
    return found.model_copy(update={"speedups": speedups, "equality": equality, "notes": ()})


def _arm(arm: ArmCase) -> ArmCase:
    """The headline of an arm, and how many requests failed."""
    return ArmCase(
        variant=arm.variant,
        case=arm.case,
        requests=arm.requests,
        completed=arm.completed,
        failed=arm.failed,
        errors=arm.errors,
        output_tokens=arm.output_tokens,
        load_seconds=arm.load_seconds,
        cost_per_million=arm.cost_per_million,
        metrics={tag: each for tag, each in arm.metrics.items() if tag == HEADLINE},
        totals={},
        no_value={},
        impossible=arm.impossible,
        samples={tag: each for tag, each in arm.samples.items() if tag == HEADLINE},
    )
