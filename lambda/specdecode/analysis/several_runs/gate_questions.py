"""Checks that the limits of a gate ask for, each with its figure: one logarithm for each run, arm and case, with the
variance that the requests of the run show.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.pairs import HEADLINE, Action, LoadResult
from specdecode.analysis.statistics.groups import NODES_DIFFER
from specdecode.analysis.statistics.verdict import log_stat, too_many_failed
from specdecode.analysis.texts.decide import decided
from specdecode.experiment.workload import Level
from specdecode.measures.arm_case import SAMPLES, ArmCase
from specdecode.measures.distribution import Summary, mean, stddev
from specdecode.measures.student import LogMean, combine, moderated

BETWEEN_RUNS = 0.005
"""Assumed standard deviation of the logarithm of a run's figure on the same servers, until several runs show it."""
MOST_RATE = 1e12
"""No server makes so many tokens a second, nor takes so many seconds for one."""
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
    least: float
    """Smallest ratio that keeps the limit."""
    speedup: bool = False
    found: LogMean | None = None
    runs_a_side: int = 1
    """The fewer of both sides."""
    doubt: str = ""
    """Why the check cannot tell, whatever the figure is. This and the next three are empty if there is no reason."""
    unproven: str = ""
    """Why the check does not pass, although its interval keeps the limit."""
    broken: str = ""
    """Why the check fails, whatever the figure is."""
    impossible: str = ""
    """Why a figure behind the check cannot be true."""


ByCase = Mapping[str, LogMean]
"""One run's figure of one arm in each case."""


def questions(before: Sequence[Comparison], after: Sequence[Comparison], limits: Thresholds) -> Iterator[Question]:
    """Every check of the limits, load by load. `before`: the runs that a regression is measured from."""
    runs = (*before, *after)
    for level in judged_levels(after[0], limits):
        for name in dict.fromkeys(pair.variant for run in after for pair in run.pairs):
            if limits.min_speedup is not None and name in (limits.arms or (name,)):
                yield from _speedup(after, level, name, limits, limits.min_speedup)
        for name in dict.fromkeys(arm.variant for run in runs for arm in run.arms):
            if limits.max_regression is not None and name in (limits.arms or (name,)):
                yield from _regression(before, after, level, name, limits, limits.max_regression)


def judged_levels(run: Comparison, limits: Thresholds) -> tuple[Level, ...]:
    """Levels of the run that the limits are about."""
    return tuple(level for level in run.experiment.workload.levels if not limits.loads or level.value in limits.loads)


def _speedup(
    runs: Sequence[Comparison], level: Level, name: str, limits: Thresholds, least: float
) -> Iterator[Question]:
    doubts: list[str] = []
    side = [_speedups(run, level, name, doubts) for run in runs]
    failing = [why for run in runs for arm in _arms(run, level, name, []).values() if (why := too_many_failed(arm))]
    unproven = {}
    if len(runs) == 1 and least >= 1.0:  # the run's own decision asks for more than the limit
        own = {ALL: decided(runs[0]).finding(name, load=level.name), **decided(runs[0]).cases(name, level.name)}
        unproven = {
            what: f"{runs[0].run_id} itself cannot tell{f': {each.why}' if each.why else ''}"
            for what, each in own.items()
            if each and each.action is Action.MEASURE
        }
    asked = _asked(runs, level, name, f"speed-up of at least {least:g}×", least)
    for what, found in _of(asked, [side], limits.between(runs, speedup=True), limits, doubts, failing):
        yield replace(found, unproven=unproven.get(what, ""))


def _regression(
    before: Sequence[Comparison], after: Sequence[Comparison], level: Level, name: str, limits: Thresholds, most: float
) -> Iterator[Question]:
    runs, doubts, failing = (*before, *after), list[str](), list[str]()
    arms = {run.run_id: _arms(run, level, name, doubts) for run in runs}
    for number, run in enumerate(runs):
        reasons = [reason for arm in arms[run.run_id].values() if (reason := too_many_failed(arm))]
        (doubts if number < len(before) else failing).extend(reasons)
    figures: list[dict[str, LogMean]] = [{} for _ in runs]
    for case in sorted({case for own in arms.values() for case in own}):
        found = throughputs([(run.run_id, arms[run.run_id].get(case)) for run in runs], name, case, doubts)
        for place, figure in zip(figures, found, strict=False):
            place[case] = figure
    asked = _asked(runs, level, name, f"throughput at most {most * 100:g}% lower", 1.0 - most)
    sides = [figures[: len(before)], figures[len(before) :]]
    for _, question in _of(asked, sides, limits.between(runs), limits, doubts, failing):
        yield question


def _asked(runs: Sequence[Comparison], level: Level, name: str, limit: str, least: float) -> Question:
    """What all questions of one limit, arm and load share. `about` is the load, if there are several."""
    arms = {name, *(pair.baseline for run in runs for pair in run.pairs if pair.variant == name)}
    decisions = [(run.run_id, decided(run)) for run in runs]
    behind = [
        f"{run}: the load generator fell behind at {level}"
        for run, found in decisions
        if arms & set(found.late.get(level.name, ()))
    ]
    wrong = [f"{run}: {found.distrusted[name]}" for run, found in decisions if name in found.distrusted]
    return Question(
        arm=name,
        about=f", {level}" if len(runs[0].experiment.workload.levels) > 1 else "",
        load=level.name,
        limit=limit,
        least=least,
        doubt="; ".join(behind),
        impossible="; ".join(wrong[:3]),
    )


def _of(
    asked: Question,
    sides: Sequence[Sequence[ByCase]],
    assumed: float,
    limits: Thresholds,
    doubts: Sequence[str],
    failing: Sequence[str],
) -> Iterator[tuple[str, Question]]:
    """A question about all prompts, every case with the same weight; then one for each case if the limits say so."""
    every = [run for side in sides for run in side]
    common = [case for case in every[0] if all(case in run for run in every)]
    asked = replace(asked, speedup=len(sides) == 1, runs_a_side=min(map(len, sides)))
    whole = None
    if common:
        shares = [1.0 / len(common)] * len(common)
        together = [[combine([run[case] for case in common], shares) for run in side] for side in sides]
        whole = moderated(together, assumed=assumed)
    doubt = "; ".join(doubts[:3]) or ("" if common else "no case is in all of the runs")
    doubt = "; ".join(filter(None, (doubt, asked.doubt)))
    yield ALL, replace(asked, about=ALL + asked.about, found=whole, doubt=doubt, broken="; ".join(failing[:3]))
    for case in common if limits.each_case else ():
        found = moderated([[run[case] for run in side] for side in sides], assumed=assumed)
        yield case, replace(asked, about=case + asked.about, found=found)


def _speedups(run: Comparison, level: Level, name: str, doubts: list[str]) -> ByCase:
    """Speed-up of the arm at a load, by case, as the run's decision has it; why there is none goes to `doubts`."""
    if _load_of(run, level, doubts) is None:
        return {}
    found = decided(run).cases(name, level.name)
    if not found:
        doubts.append(f"{run.run_id} has no comparison of {name}")
    doubts += [f"{case} of {run.run_id}: {each.why}" for case, each in found.items() if each.speedup is None]
    return {case: log_stat(each.speedup) for case, each in found.items() if each.speedup}


def _arms(run: Comparison, level: Level, name: str, doubts: list[str]) -> dict[str, ArmCase]:
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
    lacks it. If every run has values of the same number of requests, whose prompts are then the same, the variance
    comes from the residuals after the mean of each position.
    """
    arms = [arm for _, arm in runs]
    lacking = [
        f"{run} has no throughput of {name} in {case}"
        for run, arm in runs
        if arm is None or not _usable(arm.metrics.get(HEADLINE))
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


def _usable(summary: Summary | None) -> bool:
    """Whether it is of requests, with a mean that a server can have. A report may come from anybody."""
    if summary is None or summary.mean is None or summary.n < 1:
        return False
    return 1.0 / MOST_RATE < summary.mean < MOST_RATE and 0.0 <= (summary.stddev or 0.0) < MOST_RATE
