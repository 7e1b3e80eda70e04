"""Whether runs keep a limit, for CI: passed, failed, impossible, or cannot tell.

Every load is checked by itself, and the gate is as good as its worst check. A limit is kept or broken if the whole
interval lies on one side of it. The intervals of all checks hold together (Bonferroni), so that either wrong answer
(red although the limit is kept, green although it is broken) comes in at most 5% of the gates. They include the
variation between runs (`measures.student.moderated`). docs/explanation/how-sure.md has how
often the answers are wrong. See ADR 80.
"""

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.several_runs.alike import incomparable
from specdecode.analysis.several_runs.difference import settings
from specdecode.analysis.several_runs.gate_questions import Question, Thresholds, asked_arms, judged_levels, questions
from specdecode.analysis.texts.notes import DOUBTFUL_TIMES
from specdecode.experiment.base import Frozen
from specdecode.measures.student import t_quantile
from specdecode.untrusted import WrongInput

WRONG = 0.05
"""Largest share of gates that end with a wrong answer, of either kind."""


class GateOutcome(StrEnum):
    """GateOutcome of a check or of the gate."""

    PASSED = "passed"
    FAILED = "failed"
    IMPOSSIBLE = "impossible"
    """A figure cannot be true: it neither keeps nor breaks a limit."""
    CANNOT_TELL = "cannot tell"


class GateCheck(Frozen):
    """One limit on one arm."""

    arm: str
    about: str
    """The case, or all prompts; with the load if there are several."""
    load: str
    """Name of the load: `c8`, `r0.5`."""
    limit: str
    speedup: bool
    """True if the ratio is a speed-up over a baseline; False if it compares throughput with the runs before."""
    outcome: GateOutcome
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """Interval of the ratio. The intervals of all checks hold together."""
    sees: float | None = None
    """Smallest regression, as a share, for which nine of ten such checks fail. None for a speed-up."""
    runs_for_limit: int | None = None
    """Runs a side with which nine of ten such checks tell a regression of the limit's size from none: the interval of
    one lies below 1, and runs without one pass. (Of exactly the limit no number of runs says that it is kept or broken;
    one of twice the limit then fails.) None for a speed-up, and for a limit of 0."""


class Gate(Frozen):
    """All checks of one call."""

    runs: tuple[str, ...]
    """Ids of the runs that are judged."""
    against: tuple[str, ...] = ()
    """Ids of the runs that a regression is measured against."""
    checks: tuple[GateCheck, ...]
    between_runs: float
    """Assumed standard deviation between runs of the throughput."""
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> GateOutcome:
        """The worst of the checks. Without any it cannot tell."""
        outcomes = {check.outcome for check in self.checks}
        worst = (GateOutcome.IMPOSSIBLE, GateOutcome.FAILED, GateOutcome.CANNOT_TELL)
        return next((each for each in worst if each in outcomes), GateOutcome.PASSED if outcomes else worst[-1])


SEEN = 0.9
"""Share of the checks that must fail for a regression to count as seen."""
MOST_TIMES = 20
"""Largest factor by which the gate suggests to repeat the runs."""


class Unfit(WrongInput):
    """The runs cannot be judged by these limits; the message says why and what to do."""


def gate(runs: Sequence[Comparison], limits: Thresholds, *, against: Sequence[Comparison] = ()) -> Gate:
    """Check `runs` (repeats of one question), a regression against the runs `against`. Raises Unfit."""
    _fit(runs, against, limits)
    asked = list(questions(against, runs, limits))
    judged = sum(question.found is not None for question in asked)
    return Gate(
        runs=tuple(run.run_id for run in runs),
        against=tuple(run.run_id for run in against),
        checks=tuple(_judged(question, 1.0 - 2.0 * WRONG / max(1, judged)) for question in asked),
        between_runs=limits.between((*runs, *against)),
        notes=tuple(_notes(runs, against, limits)),
    )


def _fit(runs: Sequence[Comparison], against: Sequence[Comparison], limits: Thresholds) -> None:
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
    arms = {arm.name for run in (*runs, *against) for arm in run.experiment.variants}
    problems += [f"no run has an arm {name}: {', '.join(sorted(arms))}" for name in limits.arms if name not in arms]
    if limits.min_speedup is not None and not asked_arms(runs, limits, compared=True):
        problems.append(f"{runs[0].run_id} compares no such arm with another: there is no speed-up")
    levels = runs[0].experiment.workload.levels
    if strange := [value for value in limits.loads if value not in {level.value for level in levels}]:
        measured = ", ".join(map(str, levels))
        problems.append(f"no run was measured at a load of {', '.join(f'{each:g}' for each in strange)}: {measured}")
    if problems:
        raise Unfit("\n".join(problems))


def _judged(question: Question, confidence: float) -> GateCheck:
    found, least = question.found, question.least
    low, high = (found.interval(confidence) if found else None) or (None, None)
    ratio = found.ratio if found else None
    if question.impossible:
        ratio = low = high = None
        outcome, reason = GateOutcome.IMPOSSIBLE, question.impossible
    elif question.broken:
        outcome, reason = GateOutcome.FAILED, question.broken
    elif question.doubt:
        outcome, reason = GateOutcome.CANNOT_TELL, question.doubt
    elif found is None or low is None or high is None:
        outcome, reason = GateOutcome.CANNOT_TELL, "one request a run: nothing tells what varies"
    elif high < least:
        outcome, reason = GateOutcome.FAILED, "the whole interval lies beyond the limit"
    elif low >= least and question.unproven:
        outcome, reason = GateOutcome.CANNOT_TELL, question.unproven
    elif low >= least:
        outcome, reason = GateOutcome.PASSED, "the whole interval keeps the limit"
    else:
        reach, gap = (math.log(high) - math.log(low)) / 2.0, abs(found.mean - math.log(least))
        times = math.ceil((reach / gap) ** 2) if gap else MOST_TIMES + 1
        more = f"; about {max(2, times)} times as many runs would tell" if times <= MOST_TIMES else ""
        outcome, reason = GateOutcome.CANNOT_TELL, f"the limit lies within the interval{more}"
    if question.without and not question.broken:  # what is broken names the cases
        reason = f"{reason}; left out: {question.without}"
    return GateCheck(
        arm=question.arm,
        about=question.about,
        load=question.load,
        limit=question.limit,
        speedup=question.speedup,
        outcome=outcome,
        reason=reason,
        ratio=ratio,
        low=low,
        high=high,
        **({} if question.impossible else _power(question, confidence)),
    )


def _power(question: Question, confidence: float) -> dict[str, Any]:
    """Which regressions the check would see, if runs vary as these do."""
    found, least = question.found, question.least
    if question.speedup or found is None or found.df <= 0:
        return {}
    quantiles = t_quantile(0.5 + confidence / 2.0, found.df) + t_quantile(SEEN, found.df)
    reach = quantiles * math.sqrt(found.variance)
    gap = -math.log(least)
    runs = max(1, math.ceil(question.runs_a_side * (reach / gap) ** 2)) if gap else None
    return {"sees": 1.0 - least * math.exp(-reach), "runs_for_limit": runs}


def _notes(runs: Sequence[Comparison], against: Sequence[Comparison], limits: Thresholds) -> Iterator[str]:
    every = (*runs, *against)
    if len(runs) == 1 or len(against) == 1:
        own = ", since each run had a node of its own" if any(run.context.node for run in every) else ""
        yield (
            "One run on a side does not show what varies between runs: "
            f"{limits.between(every, speedup=not against):.1%} is assumed (--between-runs){own}. "
            "Repeats, as A1,A2..B1,B2, show it."
        )
    for run in every:
        yield from (f"{run.run_id}: {note}" for note in run.notes if DOUBTFUL_TIMES in note)
    judged, levels = judged_levels(runs[0], limits), runs[0].experiment.workload.levels
    if len(judged) < len(levels):
        yield f"Of {len(levels)} loads only these are judged: {', '.join(map(str, judged))}."
