"""Checks that the limits of a gate ask for, each with its figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.several_runs.gate_figures import ByCase, arms_of, late, speedup, throughputs
from specdecode.analysis.statistics.verdict import too_many_failed
from specdecode.experiment.workload import Level
from specdecode.measures.student import LogMean, combine, moderated

BETWEEN_RUNS = 0.005
"""Assumed standard deviation of the logarithm of a run's figure, until several runs show it."""
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
    between_runs: float = BETWEEN_RUNS


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
    doubt: str = ""
    """Reason why the check cannot tell, whatever the figure is. Empty if there is none."""
    broken: str = ""
    """Reason why the check fails, whatever the figure is. Empty if there is none."""


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
        for run in runs:
            late(run, level, name, doubts)
        own = [arm for run in runs for arm in arms_of(run, level, name, []).values()]
        failing = [reason for arm in own if (reason := too_many_failed(arm))]
        about = _About(arm=name, limit=limit, least=limits.min_speedup, at=_at(runs[0], level), load=level.name)
        yield from _of(about, [side], limits, doubts, failing)


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
            late(run, level, name, doubts)
            reasons = [reason for arm in arms[run.run_id].values() if (reason := too_many_failed(arm))]
            (doubts if number < len(before) else failing).extend(reasons)
        found: list[dict[str, LogMean]] = [{} for _ in runs]
        for case in sorted({case for own in arms.values() for case in own}):
            figures = throughputs([(run.run_id, arms[run.run_id].get(case)) for run in runs], name, case, doubts)
            for place, figure in zip(found, figures, strict=False):
                place[case] = figure
        about = _About(arm=name, limit=limit, least=least, at=_at(runs[0], level), load=level.name)
        yield from _of(about, [found[: len(before)], found[len(before) :]], limits, doubts, failing)


def _at(run: Comparison, level: Level) -> str:
    """Name of the load, if there are several."""
    return f", {level}" if len(run.experiment.workload.levels) > 1 else ""


@dataclass(frozen=True, kw_only=True)
class _About:
    """Fields that all questions of one limit, arm and load share."""

    arm: str
    limit: str
    least: float
    at: str
    load: str


def _of(
    about: _About,
    sides: Sequence[Sequence[ByCase]],
    limits: Thresholds,
    doubts: Sequence[str],
    failing: Sequence[str] = (),
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
            doubt=doubt,
            broken=broken,
        )

    yield question(
        ALL,
        moderated(whole, assumed=limits.between_runs) if common else None,
        "; ".join(doubts[:3]) or ("" if common else "no case is in all of the runs"),
        "; ".join(failing[:3]),
    )
    for case in common if limits.each_case else ():
        yield question(case, moderated([[run[case] for run in side] for side in sides], assumed=limits.between_runs))
