"""Checks that the limits of a gate ask for, each with its figure: one logarithm for each run, arm and case, with the
variance that the requests of the run show.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.pairs import HEADLINE, Action
from specdecode.analysis.statistics.groups import NODES_DIFFER
from specdecode.analysis.statistics.verdict import log_stat, too_many_failed
from specdecode.analysis.texts.decide import decided
from specdecode.experiment.model import arms_measured
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
    """Why the check cannot tell, whatever the figure is. This and the next four are empty if there is no reason."""
    unproven: str = ""
    """Why the check does not pass, although its interval keeps the limit."""
    broken: str = ""
    """Why the check fails, whatever the figure is."""
    impossible: str = ""
    """Why a figure behind the check cannot be true."""
    without: str = ""
    """Cases that the figure is not about, and why: as in the report, too many of their requests failed."""


@dataclass(frozen=True, kw_only=True)
class _Against:
    """What speaks against the checks of one limit, arm and load, whatever their figures are."""

    broken: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    doubts: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By case, and of all prompts together (ALL)."""

    def lacking(self, case: str, why: str) -> None:
        """The case has no figure, so all prompts together have none either."""
        self.doubts[case].append(why)
        self.doubts[ALL].append(why)

    def leave_out(self, failed: Mapping[str, str], whole: list[str]) -> None:
        """Cases of which too many requests failed. `whole`: what gets the reason if too many of the arm's failed."""
        for case, why in failed.items():
            (whole if case == ALL else self.doubts[case]).append(why)
        self.without.extend(why for case, why in failed.items() if case != ALL)


ByCase = Mapping[str, LogMean]
"""One run's figure of one arm in each case."""


def questions(before: Sequence[Comparison], after: Sequence[Comparison], limits: Thresholds) -> Iterator[Question]:
    """Every check of the limits, load by load. `before`: the runs that a regression is measured from."""
    runs = (*before, *after)
    for level in judged_levels(after[0], limits):
        if limits.min_speedup is not None:
            for name in asked_arms(after, limits, compared=True):
                yield from _speedup(after, level, name, limits, limits.min_speedup)
        if limits.max_regression is not None:
            for name in asked_arms(runs, limits):
                yield from _regression(before, after, level, name, limits, limits.max_regression)


def asked_arms(runs: Sequence[Comparison], limits: Thresholds, *, compared: bool = False) -> list[str]:
    """Arms of the experiments that the limits are about, measured or not, but for those that a sweep did not choose.
    `compared`: only those with a baseline.
    """
    found: dict[str, None] = {}
    for run in runs:
        failed = {failure.variant for failure in run.context.failures}
        chosen = {arm.variant for arm in run.arms} | failed
        for each in arms_measured(run.experiment):
            wanted = each.name in limits.arms if limits.arms else each.name in chosen or not run.context.sweep
            if wanted and (each.compare_to or not compared):
                found[each.name] = None
    return list(found)


def judged_levels(run: Comparison, limits: Thresholds) -> tuple[Level, ...]:
    """Levels of the run that the limits are about."""
    return tuple(level for level in run.experiment.workload.levels if not limits.loads or level.value in limits.loads)


def _speedup(
    runs: Sequence[Comparison], level: Level, name: str, limits: Thresholds, least: float
) -> Iterator[Question]:
    against = _Against()
    side = [_speedups(run, level, name, against) for run in runs]
    unproven = {}
    if len(runs) == 1 and least >= 1.0:  # the run's own decision asks for more than the limit
        own = {ALL: decided(runs[0]).finding(name, load=level.name), **decided(runs[0]).cases(name, level.name)}
        unproven = {
            what: f"{runs[0].run_id} itself cannot tell{f': {each.why}' if each.why else ''}"
            for what, each in own.items()
            if each and each.action is Action.MEASURE
        }
    asked = _asked(runs, level, name, f"speed-up of at least {least:g}×", least)
    for what, found in _of(asked, [side], limits.between(runs, speedup=True), limits, against):
        yield replace(found, unproven=unproven.get(what, ""))


def _regression(
    before: Sequence[Comparison], after: Sequence[Comparison], level: Level, name: str, limits: Thresholds, most: float
) -> Iterator[Question]:
    runs, against = (*before, *after), _Against()
    for number, run in enumerate(runs):
        failed = _failed(run, level, name)
        against.leave_out(failed, against.doubts[ALL] if number < len(before) else against.broken)
    arms = [(run.run_id, _arms(run, level, name)) for run in runs]
    figures: list[dict[str, LogMean]] = [{} for _ in runs]
    for case in (each.name for each in runs[0].experiment.workload.cases if each.name not in against.doubts):
        lacking: list[str] = []
        found = throughputs([(run, own.get(case)) for run, own in arms], name, case, lacking)
        for why in lacking:
            against.lacking(case, why)
        for place, figure in zip(figures, found, strict=False):
            place[case] = figure
    asked = _asked(runs, level, name, f"throughput at most {most * 100:g}% lower", 1.0 - most)
    sides = [figures[: len(before)], figures[len(before) :]]
    for _, question in _of(asked, sides, limits.between(runs), limits, against):
        yield question


def _asked(runs: Sequence[Comparison], level: Level, name: str, limit: str, least: float) -> Question:
    """What all questions of one limit, arm and load share. `about` is the load, if there are several."""
    arms = {name, *(_baseline(run, name) for run in runs)}
    decisions = [(run.run_id, decided(run)) for run in runs]
    doubts = [
        f"{run}: the load generator fell behind at {level}"
        for run, found in decisions
        if arms & set(found.late.get(level.name, ()))
    ]
    why = "it was not measured there, or an earlier version wrote its report"
    doubts += [f"{run.run_id} has no figures at {level}: {why}" for run in runs if run.at(level) is None]
    wrong = [f"{run}: {found.distrusted[name]}" for run, found in decisions if name in found.distrusted]
    return Question(
        arm=name,
        about=f", {level}" if len(runs[0].experiment.workload.levels) > 1 else "",
        load=level.name,
        limit=limit,
        least=least,
        doubt="; ".join(doubts),
        impossible="; ".join(wrong[:3]),
    )


def _baseline(run: Comparison, name: str) -> str | None:
    return next((each.compare_to for each in run.experiment.variants if each.name == name), None)


def _of(
    asked: Question, sides: Sequence[Sequence[ByCase]], assumed: float, limits: Thresholds, against: _Against
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
    doubt = _together(against.doubts[ALL], asked.doubt) or ("" if common else "no case is in all of the runs")
    broken, without = _together(against.broken), "; ".join(against.without)
    yield ALL, replace(asked, about=ALL + asked.about, found=whole, doubt=doubt, broken=broken, without=without)
    for case in dict.fromkeys((*common, *against.doubts)) if limits.each_case else ():
        if case != ALL:
            own = (
                moderated([[run[case] for run in side] for side in sides], assumed=assumed) if case in common else None
            )
            doubt = _together(against.doubts[case], asked.doubt)
            yield case, replace(asked, about=case + asked.about, found=own, doubt=doubt)


def _together(reasons: Sequence[str], more: str = "") -> str:
    return "; ".join(filter(None, (*reasons[:3], more)))


def _speedups(run: Comparison, level: Level, name: str, against: _Against) -> ByCase:
    """Speed-up of the arm at a load, by case, as the run's decision has it; why there is none goes to `against`."""
    failed, of_base = _failed(run, level, name), _failed(run, level, _baseline(run, name))
    against.leave_out(failed, against.broken)
    against.leave_out(of_base, against.doubts[ALL])
    known = decided(run).cases(name, level.name)
    cases = [each.name for each in run.experiment.workload.cases] if run.at(level) else []
    found = {}
    for case in (case for case in cases if case not in failed and case not in of_base):
        each = known.get(case)
        if each and each.speedup:
            found[case] = log_stat(each.speedup)
        else:
            why = each.why if each else f"there is no comparison of {name}"
            against.lacking(case, f"{run.run_id}, in {case}: {why}")
    return found


def _failed(run: Comparison, level: Level, name: str | None) -> dict[str, str]:
    """Cases of which too many requests of the arm failed, and how many; likewise of all of them together (ALL)."""
    arms = list(_arms(run, level, name).values())
    found = {arm.case: f"{run.run_id}, in {arm.case}: {why}" for arm in arms if (why := too_many_failed(arm))}
    if found:
        kinds = sum((Counter(arm.errors) for arm in arms), Counter[str]())
        counts = {each: sum(getattr(arm, each) for arm in arms) for each in ("requests", "completed", "failed")}
        if why := too_many_failed(arms[0].model_copy(update={"errors": dict(kinds.most_common()), **counts})):
            found[ALL] = f"{run.run_id}, in {', '.join(arm.case for arm in arms if arm.failed)}: {why}"
    return found


def _arms(run: Comparison, level: Level, name: str | None) -> dict[str, ArmCase]:
    """Figures of the arm at a load, by case."""
    load = run.at(level)
    return {arm.case: arm for arm in (load.arms if load else ()) if arm.variant == name}


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
