"""Whether runs keep a limit, for a pipeline that must go red when they do not: passed, failed, or it cannot be told.

A limit is kept or broken where the whole interval lies on one side of it. The intervals of all checks hold together
(Bonferroni), at a level at which either wrong answer (red although the limit is kept, green although it is broken)
comes in at most 5 % of the gates. What varies between runs is in them (`measures.student.moderated`). How often the
answers are wrong is measured in docs/metrics.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from specdecode.analysis.alike import incomparable
from specdecode.analysis.difference import settings
from specdecode.analysis.gate_figures import ByCase, cases_of, speedup, throughputs
from specdecode.analysis.result import Comparison
from specdecode.analysis.verdict import too_many_failed
from specdecode.experiment.model import Frozen
from specdecode.measures.student import LogMean, combine, moderated

WRONG = 0.05
"""Share of gates with either wrong answer, at most."""
BETWEEN_RUNS = 0.005
"""Standard deviation of the logarithm of a run's figure that is assumed before several runs show theirs."""
MOST_TIMES = 20
"""More than so many times as many runs are not asked of anybody."""
ALL = "all prompts"


class Unfit(ValueError):
    """The runs cannot be judged by these limits; the message says why and what to do."""


class Decision(StrEnum):
    """How a check, or the gate, ended."""

    PASSED = "passed"
    FAILED = "failed"
    CANNOT_TELL = "cannot tell"


class GateCheck(Frozen):
    """One limit, on one arm."""

    arm: str
    about: str
    """What it is of: a case, or all prompts."""
    limit: str
    speedup: bool
    """The ratio is a speed-up over a baseline; else the throughput over that of the runs before."""
    outcome: Decision
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """Interval of the ratio that holds together with those of all other checks."""


class Gate(Frozen):
    """All checks of one call."""

    runs: tuple[str, ...]
    """Those that are judged."""
    against: tuple[str, ...] = ()
    """Those that they are held against, of a regression."""
    checks: tuple[GateCheck, ...]
    between_runs: float
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Decision:
        """Failed if one check did; else cannot tell if one cannot; else passed."""
        outcomes = {check.outcome for check in self.checks}
        return next(
            (each for each in (Decision.FAILED, Decision.CANNOT_TELL) if each in outcomes),
            Decision.PASSED,
        )


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is demanded; one at least is given."""

    min_speedup: float | None = None
    """Of every compared arm over its baseline: 1.2."""
    max_regression: float | None = None
    """Share by which every arm's own throughput may fall from the runs before: 0.03."""
    arms: tuple[str, ...] = ()
    """Only these arms; all where there are none."""
    each_case: bool = False
    """Hold every case to the limit by itself, too."""
    between_runs: float = BETWEEN_RUNS


@dataclass(frozen=True, kw_only=True)
class _Question:
    """A check before its interval is known: its level depends on how many there are."""

    arm: str
    about: str
    limit: str
    speedup: bool
    least: float
    """Smallest ratio that keeps the limit."""
    found: LogMean | None
    doubt: str = ""
    """Why it cannot be told, whatever the figure is."""
    broken: str = ""
    """Why it fails, whatever the figure is."""


def gate(runs: Sequence[Comparison], limits: Limits, *, against: Sequence[Comparison] = ()) -> Gate:
    """Hold `runs` (of one question, repeated) to `limits`, a regression to the runs `against`. Raises Unfit."""
    _fit(runs, against, limits)
    questions = [*_speedups(runs, limits), *_regressions(against, runs, limits)]
    judged = sum(question.found is not None for question in questions)
    return Gate(
        runs=tuple(run.run_id for run in runs),
        against=tuple(run.run_id for run in against),
        checks=tuple(_judged(question, 1.0 - 2.0 * WRONG / max(1, judged)) for question in questions),
        between_runs=limits.between_runs,
        notes=tuple(_notes(runs, against, limits)),
    )


def _fit(runs: Sequence[Comparison], against: Sequence[Comparison], limits: Limits) -> None:
    problems = []
    if limits.min_speedup is None and limits.max_regression is None:
        problems.append("no limit is given: --min-speedup 1.2, --max-regression 3%, or both")
    if limits.max_regression is not None and not against:
        problems.append("a regression is one from other runs: give BEFORE..AFTER")
    if against and limits.max_regression is None:
        problems.append("runs to compare with are given, but no --max-regression to hold them to")
    ids = [run.run_id for run in (*runs, *against)]
    if twice := sorted({run for run in ids if ids.count(run) > 1}):
        problems.append(f"{', '.join(twice)} is given twice: it would pass for more evidence than it is")
    for side in (runs, against):
        for other in side[1:]:
            if unlike := settings(side[0], other):
                problems.append(f"{side[0].run_id} and {other.run_id} are no repeats: {'; '.join(unlike[:3])}")
    if against and (unlike := incomparable(against[0].experiment, runs[0].experiment)):
        problems.append(f"{against[0].run_id} and {runs[0].run_id} measured different things: {'; '.join(unlike[:5])}")
    arms = {arm.variant for run in (*runs, *against) for arm in run.arms}
    problems += [f"no run has an arm {name}: {', '.join(sorted(arms))}" for name in limits.arms if name not in arms]
    compared = {pair.variant for run in runs for pair in run.pairs}
    if limits.min_speedup is not None and not compared & set(limits.arms or compared):
        problems.append(f"{runs[0].run_id} compares no such arm with another: there is no speed-up")
    if problems:
        raise Unfit("\n".join(problems))


def _speedups(runs: Sequence[Comparison], limits: Limits) -> Iterator[_Question]:
    if limits.min_speedup is None:
        return
    limit = f"speed-up of at least {limits.min_speedup:g}×"
    for name in dict.fromkeys(pair.variant for run in runs for pair in run.pairs):
        if limits.arms and name not in limits.arms:
            continue
        doubts: list[str] = []
        side = [speedup(run, name, doubts) for run in runs]
        yield from _questions(name, limit, limits.min_speedup, [side], limits, doubts)


def _regressions(before: Sequence[Comparison], after: Sequence[Comparison], limits: Limits) -> Iterator[_Question]:
    if limits.max_regression is None:
        return
    limit, least = f"throughput at most {limits.max_regression * 100:g}% lower", 1.0 - limits.max_regression
    arms = dict.fromkeys(arm.variant for run in (*before, *after) for arm in run.arms)
    for name in arms:
        if limits.arms and name not in limits.arms:
            continue
        doubts: list[str] = []
        failing = [reason for run in after for arm in cases_of(run, name).values() if (reason := too_many_failed(arm))]
        doubts += [reason for run in before for arm in cases_of(run, name).values() if (reason := too_many_failed(arm))]
        known = {case for run in (*before, *after) for case in cases_of(run, name)}
        found: list[dict[str, LogMean]] = [{} for _ in (*before, *after)]
        for case in sorted(known):
            figures = throughputs([*before, *after], name, case, doubts)
            for place, figure in zip(found, figures, strict=False):
                place[case] = figure
        sides = [found[: len(before)], found[len(before) :]]
        yield from _questions(name, limit, least, sides, limits, doubts, failing)


def _questions(
    arm: str,
    limit: str,
    least: float,
    sides: Sequence[Sequence[ByCase]],
    limits: Limits,
    doubts: Sequence[str],
    failing: Sequence[str] = (),
) -> Iterator[_Question]:
    """All prompts together, every case of the same weight; then case by case where that is wanted."""
    every = [run for side in sides for run in side]
    common = [case for case in every[0] if all(case in run for run in every)]
    shares = [1.0 / len(common) for _ in common]
    whole = [[combine([run[case] for case in common], shares) for run in side] for side in sides] if common else []
    yield _Question(
        arm=arm,
        about=ALL,
        limit=limit,
        speedup=len(sides) == 1,
        least=least,
        found=moderated(whole, assumed=limits.between_runs) if common else None,
        doubt="; ".join(doubts[:3]) or ("" if common else "no case is in all of the runs"),
        broken="; ".join(failing[:3]),
    )
    for case in common if limits.each_case else ():
        found = moderated([[run[case] for run in side] for side in sides], assumed=limits.between_runs)
        yield _Question(arm=arm, about=case, limit=limit, speedup=len(sides) == 1, least=least, found=found)


def _judged(question: _Question, confidence: float) -> GateCheck:
    interval = question.found.interval(confidence) if question.found else None
    low, high = interval or (None, None)
    ratio = question.found.ratio if question.found else None
    if question.broken:
        outcome, reason = Decision.FAILED, question.broken
    elif question.doubt:
        outcome, reason = Decision.CANNOT_TELL, question.doubt
    elif ratio is None or low is None or high is None:
        outcome, reason = Decision.CANNOT_TELL, "one request a run: nothing tells what varies"
    elif high < question.least:
        outcome, reason = Decision.FAILED, "the whole interval lies beyond the limit"
    elif low >= question.least:
        outcome, reason = Decision.PASSED, "the whole interval keeps the limit"
    else:
        outcome, reason = Decision.CANNOT_TELL, f"the limit lies within the interval{_more(question, low, high)}"
    return GateCheck(
        arm=question.arm,
        about=question.about,
        limit=question.limit,
        speedup=question.speedup,
        outcome=outcome,
        reason=reason,
        ratio=ratio,
        low=low,
        high=high,
    )


def _more(question: _Question, low: float, high: float) -> str:
    """How many times as many runs would tell, if they vary as these do; nothing where that is out of reach."""
    if question.found is None:
        return ""
    reach = (math.log(high) - math.log(low)) / 2.0
    gap = abs(question.found.mean - math.log(question.least))
    times = math.ceil((reach / gap) ** 2) if gap else MOST_TIMES + 1
    return f"; about {max(2, times)} times as many runs would tell" if times <= MOST_TIMES else ""


def _notes(runs: Sequence[Comparison], against: Sequence[Comparison], limits: Limits) -> Iterator[str]:
    if len(runs) == 1 or len(against) == 1:
        yield (
            f"One run on a side does not show what varies between runs: {limits.between_runs:.1%} is assumed "
            "(--between-runs). Repeats, as A1,A2..B1,B2, show it."
        )
    if len(levels := runs[0].experiment.workload.levels) > 1:
        yield f"Judged is the first of {len(levels)} loads: {levels[0]}."
