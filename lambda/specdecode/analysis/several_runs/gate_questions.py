"""Checks that the limits of a gate ask for, each with its figure: one logarithm for each run, arm and case, with the
variance that the requests of the run show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.pairs import HEADLINE, Action, LoadResult
from specdecode.analysis.statistics.groups import NODES_DIFFER
from specdecode.analysis.statistics.verdict import log_stat, too_many_failed
from specdecode.analysis.texts.decide import decided
from specdecode.experiment.workload import Level
from specdecode.measures.arm_case import SAMPLES, ArmCase
from specdecode.measures.distribution import mean, stddev
from specdecode.measures.student import LogMean, combine, moderated

BETWEEN_RUNS = 0.005
"""Assumed standard deviation of the logarithm of a run's figure on the same servers, until several runs show it."""
ALL = "all prompts"


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Limits. At least one is given."""

    min_speedup: float | None = None
    """Least speed-up of every compared arm over its baseline, such as 1.2."""
    max_regression: float | None = None
    """Largest share by which the throughput of an arm may fall below the runs before, such as 0.03."""
    arms: tuple[str, ...] = ()
    """Only these arms are checked. Empty: all."""
    loads: tuple[float, ...] = ()
    """Only these loads are checked, in requests at a time or a second. Empty: all that were measured."""
    each_case: bool = False
    """Check every case by itself, too."""
    between_runs: float | None = None
    """Assumed standard deviation between runs. None: BETWEEN_RUNS, or what nodes differ by."""

    def between(self, runs: Sequence[Comparison], *, speedup: bool = False) -> float:
        """Assumed standard deviation of a run's figure. Each run of the pipeline held a node of its own."""
        if self.between_runs is not None:
            return self.between_runs
        if not any(run.context.node for run in runs):
            return BETWEEN_RUNS
        return NODES_DIFFER / 2.0 if speedup else NODES_DIFFER


@dataclass(frozen=True, kw_only=True)
class Question:
    """A check before its interval is known. The level of the interval depends on the number of checks."""

    arm: str
    about: str
    load: str
    limit: str
    speedup: bool
    least: float
    """Smallest ratio that keeps the limit."""
    found: LogMean | None
    runs_a_side: int
    """The fewer of both sides."""
    doubt: str = ""
    """Reason why the check cannot tell, whatever the figure is. Empty if there is none."""
    unproven: str = ""
    """Reason why the check does not pass, although its interval keeps the limit. Empty if there is none."""
    broken: str = ""
    """Reason why the check fails, whatever the figure is. Empty if there is none."""
    impossible: str = ""
    """Why a figure behind the check cannot be true. Empty if there is no such figure."""


def questions(before: Sequence[Comparison], after: Sequence[Comparison], limits: Thresholds) -> Iterator[Question]:
    """Every check of the limits, load by load. `before`: the runs that a regression is measured from."""
    for level in judged_levels(after[0], limits):
        yield from _speedups(after, level, limits)
        yield from _regressions(before, after, level, limits)


def judged_levels(run: Comparison, limits: Thresholds) -> tuple[Level, ...]:
    """Levels of the run that the limits are about."""
    return tuple(level for level in run.experiment.workload.levels if not limits.loads or level.value in limits.loads)


def _speedups(runs: Sequence[Comparison], level: Level, limits: Thresholds) -> Iterator[Question]:
    if limits.min_speedup is None:
        return
    limit = f"speed-up of at least {limits.min_speedup:g}×"
    for name in dict.fromkeys(pair.variant for run in runs for pair in run.pairs):
        if limits.arms and name not in limits.arms:
            continue
        doubts: list[str] = []
        side = [speedup(run, level, name, doubts) for run in runs]
        own = [arm for run in runs for arm in arms_of(run, level, name, []).values()]
        failing = [reason for arm in own if (reason := too_many_failed(arm))]
        about = _about(runs, level, name, limit, limits.min_speedup)
        unproven = _unproven(runs[0], level, name) if len(runs) == 1 and limits.min_speedup >= 1.0 else {}
        yield from _of(about, [side], limits.between(runs, speedup=True), limits, doubts, failing, unproven)


def _unproven(run: Comparison, level: Level, name: str) -> dict[str, str]:
    """All prompts, and each case -> that the run's own decision, which asks for more, does not call it faster."""
    decision = decided(run)
    found = {ALL: decision.finding(name, load=level.name), **decision.cases(name, level.name)}
    return {
        what: f"{run.run_id} itself cannot tell{f': {each.why}' if each.why else ''}"
        for what, each in found.items()
        if each and each.action is Action.MEASURE
    }


def _regressions(
    before: Sequence[Comparison], after: Sequence[Comparison], level: Level, limits: Thresholds
) -> Iterator[Question]:
    if limits.max_regression is None:
        return
    limit, least = f"throughput at most {limits.max_regression * 100:g}% lower", 1.0 - limits.max_regression
    runs = (*before, *after)
    for name in dict.fromkeys(arm.variant for run in runs for arm in run.arms):
        if limits.arms and name not in limits.arms:
            continue
        doubts: list[str] = []
        failing: list[str] = []
        arms = {run.run_id: arms_of(run, level, name, doubts) for run in runs}
        for number, run in enumerate(runs):
            reasons = [reason for arm in arms[run.run_id].values() if (reason := too_many_failed(arm))]
            (doubts if number < len(before) else failing).extend(reasons)
        found: list[dict[str, LogMean]] = [{} for _ in runs]
        for case in sorted({case for own in arms.values() for case in own}):
            figures = throughputs([(run.run_id, arms[run.run_id].get(case)) for run in runs], name, case, doubts)
            for place, figure in zip(found, figures, strict=False):
                place[case] = figure
        about = _about(runs, level, name, limit, least)
        sides = [found[: len(before)], found[len(before) :]]
        yield from _of(about, sides, limits.between(runs), limits, doubts, failing)


def _about(runs: Sequence[Comparison], level: Level, name: str, limit: str, least: float) -> _About:
    at = f", {level}" if len(runs[0].experiment.workload.levels) > 1 else ""
    arms = {name, *(pair.baseline for run in runs for pair in run.pairs if pair.variant == name)}
    decisions = [(run.run_id, decided(run)) for run in runs]
    behind = [
        f"{run}: the load generator fell behind at {level}"
        for run, found in decisions
        if arms & set(found.late.get(level.name, ()))
    ]
    wrong = [f"{run}: {found.distrusted[name]}" for run, found in decisions if name in found.distrusted]
    return _About(
        arm=name,
        limit=limit,
        least=least,
        at=at,
        load=level.name,
        late="; ".join(behind),
        impossible="; ".join(wrong[:3]),
    )


@dataclass(frozen=True, kw_only=True)
class _About:
    """Fields that all questions of one limit, arm and load share."""

    arm: str
    limit: str
    least: float
    at: str
    """Name of the load, if there are several."""
    load: str
    late: str
    impossible: str


def _of(
    about: _About,
    sides: Sequence[Sequence[ByCase]],
    assumed: float,
    limits: Thresholds,
    doubts: Sequence[str],
    failing: Sequence[str] = (),
    unproven: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Question]:
    """A question about all prompts together, every case with the same weight; then one for each case if the limits ask
    for it.
    """
    every = [run for side in sides for run in side]
    common = [case for case in every[0] if all(case in run for run in every)]
    shares = [1.0 / len(common) for _ in common]
    whole = [[combine([run[case] for case in common], shares) for run in side] for side in sides] if common else []

    def question(what: str, found: LogMean | None, doubt: str = "", broken: str = "") -> Question:
        return Question(
            arm=about.arm,
            about=what + about.at,
            load=about.load,
            limit=about.limit,
            speedup=len(sides) == 1,
            least=about.least,
            found=found,
            runs_a_side=min(map(len, sides)),
            doubt="; ".join(part for part in (doubt, about.late) if part),
            unproven=unproven.get(what, ""),
            broken=broken,
            impossible=about.impossible,
        )

    yield question(
        ALL,
        moderated(whole, assumed=assumed) if common else None,
        "; ".join(doubts[:3]) or ("" if common else "no case is in all of the runs"),
        "; ".join(failing[:3]),
    )
    for case in common if limits.each_case else ():
        yield question(case, moderated([[run[case] for run in side] for side in sides], assumed=assumed))


ByCase = Mapping[str, LogMean]
"""One run's figure of one arm in each case."""


def speedup(run: Comparison, level: Level, name: str, doubts: list[str]) -> ByCase:
    """Speed-up of the arm at a load, by case, as the run's decision has it. A reason why there is none goes to
    `doubts`.
    """
    if _load_of(run, level, doubts) is None:
        return {}
    found = decided(run).cases(name, level.name)
    if not found:
        doubts.append(f"{run.run_id} has no comparison of {name}")
    doubts += [f"{case} of {run.run_id}: {each.why}" for case, each in found.items() if each.speedup is None]
    return {case: log_stat(each.speedup) for case, each in found.items() if each.speedup}


def arms_of(run: Comparison, level: Level, name: str, doubts: list[str]) -> dict[str, ArmCase]:
    """Figures of the arm at a load, by case. A reason why there is none goes to `doubts`."""
    load = _load_of(run, level, doubts)
    return {arm.case: arm for arm in (load.arms if load else ()) if arm.variant == name}


def _load_of(run: Comparison, level: Level, doubts: list[str]) -> LoadResult | None:
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
        LogMean(math.log(each.mean), ((each.stddev or 0.0) / each.mean) ** 2 / each.n, each.n - 1.0, each.n)
        for each in summaries
        if each.mean
    ]
