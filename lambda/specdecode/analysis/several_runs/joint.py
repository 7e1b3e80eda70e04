"""The arms of one sweep that several runs measured, each beside the baseline of its own run (ADR 188)."""

import math
from collections.abc import Sequence

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.pairs import HEADLINE, Estimate, Pair, Verdict
from specdecode.analysis.several_runs.difference import settings
from specdecode.experiment.base import Frozen
from specdecode.experiment.workload import Level
from specdecode.measures.distribution import mean

ARMS = ("variants", "published")
"""Fields of an experiment in which the parts of a sweep differ."""


class JointArm(Frozen):
    """One compared arm of a sweep that several runs measured."""

    variant: str
    run_id: str
    """The run that measured it."""
    baseline: str
    """Arm that it is compared with, measured by the same run."""
    baseline_speed: float | None
    """Tokens per second of that arm's requests in this run: median, geometric mean over the cases."""
    speedup: Estimate | None
    """Over all measured prompts, with the interval that holds for all arms of its run."""
    verdict: Verdict | None
    cost: float | None
    baseline_cost: float | None
    """US dollars per million output tokens."""


class Joint(Frozen):
    """The parts of one sweep together. Arms of different runs were measured on different nodes."""

    runs: tuple[str, ...]
    arms: tuple[JointArm, ...]
    """The fastest first."""
    not_measured: tuple[str, ...]
    first_of: Level | None = None
    """The load that the figures are of, if the runs had several."""


def joint(runs: Sequence[Comparison]) -> Joint | None:
    """All compared arms, the fastest first. None if the runs are not parts of one sweep: they differ in more than their
    arms, or two of them have the same one.
    """
    first, *others = runs
    asked = [variant.name for run in runs for variant in run.experiment.variants if variant.compare_to is not None]
    alike = all(not settings(first, other, but=ARMS) and _same_arms(first, other) for other in others)
    if not others or not alike or len(set(asked)) < len(asked):
        return None
    arms = [_arm(run, pair) for run in runs for pair in run.pairs]
    return Joint(
        runs=tuple(run.run_id for run in runs),
        arms=tuple(sorted(arms, key=lambda arm: -arm.speedup.ratio if arm.speedup else 0.0)),
        not_measured=tuple(name for name in asked if name not in {arm.variant for arm in arms}),
        first_of=first.experiment.workload.levels[0] if len(first.experiment.workload.levels) > 1 else None,
    )


def _same_arms(first: Comparison, other: Comparison) -> bool:
    """Whether arms of one name are one arm, as baselines are."""
    known = {variant.name: variant for variant in first.experiment.variants}
    return all(known.get(variant.name, variant) == variant for variant in other.experiment.variants)


def _arm(run: Comparison, pair: Pair) -> JointArm:
    group = pair.group("all")
    return JointArm(
        variant=pair.variant,
        run_id=run.run_id,
        baseline=pair.baseline,
        baseline_speed=_speed(run, pair),
        speedup=pair.among.speedup if pair.among else None,
        verdict=group.verdict if group else None,
        cost=run.cost_over(pair.variant, pair),
        baseline_cost=run.cost_over(pair.baseline, pair),
    )


def _speed(run: Comparison, pair: Pair) -> float | None:
    """Median tokens per second of the baseline's requests: geometric mean over the cases."""
    arms = (run.arm(pair.baseline, case.case) for case in pair.cases)
    found = [summary.p50 for arm in arms if arm and (summary := arm.metrics.get(HEADLINE)) and summary.p50]
    return math.exp(mean([math.log(value) for value in found])) if found else None
