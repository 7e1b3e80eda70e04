"""The figures behind a gate: one logarithm a run, arm and case, with the variance that the run's requests give it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from specdecode.analysis.results.comparison import HEADLINE, Comparison, LoadResult
from specdecode.analysis.statistics.verdict import log_stat
from specdecode.experiment.level import Level
from specdecode.measures.arm_case import SAMPLES, ArmCase
from specdecode.measures.distribution import mean, stddev
from specdecode.measures.student import LogMean

ByCase = Mapping[str, LogMean]
"""One run's figure of one arm in each case."""


def speedup(run: Comparison, level: Level, name: str, doubts: list[str]) -> ByCase:
    """The arm's speed-up at a load in each case; why there is none goes to `doubts`."""
    if (load := _at(run, level, doubts)) is None:
        return {}
    pair = next((each for each in load.pairs if each.variant == name), None)
    if pair is None:
        doubts.append(f"{run.run_id} has no comparison of {name}")
        return {}
    found = {}
    for case in pair.cases:
        if case.headline is None or not case.comparable or case.impossible:
            doubts.append(f"{case.case} of {run.run_id}: {case.reason}")
        else:
            found[case.case] = log_stat(case.headline)
    return found


def arms_of(run: Comparison, level: Level, name: str, doubts: list[str]) -> dict[str, ArmCase]:
    """The arm at a load by case; why there is none goes to `doubts`."""
    load = _at(run, level, doubts)
    return {arm.case: arm for arm in (load.arms if load else ()) if arm.variant == name}


def late(run: Comparison, level: Level, name: str, doubts: list[str]) -> None:
    """That the load generator itself fell behind at a load goes to `doubts`."""
    own = [point for curve in run.curve if name in (curve.variant, curve.baseline) for point in curve.points]
    if any(point.doubtful for point in own if point.level == level):
        doubts.append(f"{run.run_id}: the load generator fell behind at {level}")


def _at(run: Comparison, level: Level, doubts: list[str]) -> LoadResult | None:
    load = run.at(level)
    if load is None:
        why = "it was not measured there, or an earlier version wrote its report"
        doubts.append(f"{run.run_id} has no figures at {level}: {why}")
    return load


def throughputs(runs: Sequence[tuple[str, ArmCase | None]], name: str, case: str, doubts: list[str]) -> list[LogMean]:
    """The arm's throughput in each run (its id, and the arm there); none at all, and why, where a run lacks it.

    Where every run has the values of as many requests, what a prompt takes in all of them is no noise: the residuals
    after the mean of each position give the variance. Prompts are the same at the same position.
    """
    arms = [arm for _, arm in runs]
    lacking = [
        f"{run} has no throughput of {name} in {case}"
        for run, arm in runs
        if arm is None or not (arm.metrics.get(HEADLINE) and arm.metrics[HEADLINE].mean)
    ]
    if lacking:
        doubts += lacking
        return []
    summaries = [arm.metrics[HEADLINE] for arm in arms if arm]
    values = [[math.log(value) for value in arm.samples.get(HEADLINE, ()) if value > 0] for arm in arms if arm]
    n = len(values[0])
    if 2 <= n <= SAMPLES and all(len(own) == n == summary.n for own, summary in zip(values, summaries, strict=True)):
        usual = [mean(at) for at in zip(*values, strict=True)]
        share = len(runs) / (len(runs) - 1.0)
        return [
            LogMean(mean(own), share * stddev([a - b for a, b in zip(own, usual, strict=True)]) ** 2 / n, n - 1.0, n)
            for own in values
        ]
    return [
        LogMean(
            math.log(each.mean or 1.0), ((each.stddev or 0.0) / (each.mean or 1.0)) ** 2 / each.n, each.n - 1.0, each.n
        )
        for each in summaries
    ]
