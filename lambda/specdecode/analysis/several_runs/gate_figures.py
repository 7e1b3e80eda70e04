"""Figures of a gate: one logarithm for each run, arm and case, with the variance that the run's requests show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from specdecode.analysis.results.comparison import HEADLINE, Comparison, LoadResult
from specdecode.analysis.statistics.verdict import log_stat
from specdecode.experiment.workload import Level
from specdecode.measures.arm_case import SAMPLES, ArmCase
from specdecode.measures.distribution import mean, stddev
from specdecode.measures.student import LogMean

ByCase = Mapping[str, LogMean]
"""One run's figure of one arm in each case."""


def speedup(run: Comparison, level: Level, name: str, doubts: list[str]) -> ByCase:
    """Speed-up of the arm at a load, by case. A reason why there is none goes to `doubts`."""
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
    """Figures of the arm at a load, by case. A reason why there is none goes to `doubts`."""
    load = _at(run, level, doubts)
    return {arm.case: arm for arm in (load.arms if load else ()) if arm.variant == name}


def late(run: Comparison, level: Level, name: str, doubts: list[str]) -> None:
    """Add to `doubts` that the load generator fell behind at a load, if it did."""
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
    """Log throughput of the arm in each run (run id, and the arm there). Empty, with a reason in `doubts`, if a run
    lacks it.

    If every run has values of the same number of requests, a prompt's own length is no noise: the variance comes from
    the residuals after the mean of each position. The prompts at one position are the same in all runs.
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
