"""The verdict of an interval. If it is *cannot tell*: how many requests or prompt types would settle it (ADR 80). Pairs
of which a figure cannot be true (specdecode.measures.plausibility) have neither figures nor verdicts.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from specdecode.analysis.results.numbers import spread, times
from specdecode.analysis.results.pairs import CaseResult, Estimate, Pair, Verdict
from specdecode.experiment.model import Experiment
from specdecode.experiment.step import most_tokens
from specdecode.experiment.variants import Variant
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.metrics.formulas import most_tokens_per_step
from specdecode.measures.observations import RELEVANT, raised_by_few
from specdecode.measures.plausibility import MOST_BY_SPECULATION, impossible_speedup, other_counts, other_work, unlike
from specdecode.measures.student import NOMINAL, LogMean, off_at, t_quantile

LENGTH = "output_tokens"
"""The metric by which answers are as long as others."""
MAX_FAILED = 0.05
"""Share of failed requests above which the completed ones are no fair sample of an arm's speed."""
MOST_SAID = 3
"""Most impossible figures that a reason lists."""
MOST_NEEDED = 10_000
"""Largest number of requests or prompt types that a report asks for."""


class Conclusion(NamedTuple):
    """Verdict, reason, and what would settle it ("" if there is a verdict)."""

    verdict: Verdict
    reason: str
    settle: str = ""


def estimate(metric: str, stat: LogMean, *, method: str, confidence: float = NOMINAL) -> Estimate:
    """Speed-up and interval from a mean on the log scale."""
    low, high = stat.interval(confidence) or (None, None)
    return Estimate(metric=metric, ratio=stat.ratio, low=low, high=high, off=stat.off, n=stat.n, method=method)


def verdict_of(found: Estimate) -> Verdict:
    """No relevant difference: all of the interval lies within RELEVANT of 1 (an equivalence test). Pays: all of it lies
    above 1. Costs: below 1. Else it cannot be told.
    """
    if found.low is None or found.high is None:
        return Verdict.CANNOT_TELL
    if found.low > 1.0 / RELEVANT and found.high < RELEVANT:
        return Verdict.NO_DIFFERENCE
    return Verdict.PAYS if found.low > 1.0 else Verdict.COSTS if found.high < 1.0 else Verdict.CANNOT_TELL


def judge(found: Estimate | None, *, unit: str = "requests", confidence: float = NOMINAL) -> Conclusion:
    """Judge an interval, with the reason. `unit`: what n counts. `confidence`: of the interval."""
    if found is None:
        return Conclusion(Verdict.CANNOT_TELL, "no prompt was completed by both arms")
    if found.low is None or found.high is None:
        reason = f"{times(found.ratio)} from too few values for an interval"
        return Conclusion(Verdict.CANNOT_TELL, reason, f"8 {unit} or more")
    said, verdict = spread(found), verdict_of(found)
    if verdict is Verdict.CANNOT_TELL:
        reason = f"{said}: the interval reaches to both sides of 1 and beyond ±{RELEVANT - 1:.0%}"
        return Conclusion(verdict, reason, _needed(found, unit, confidence))
    where = {Verdict.PAYS: "above 1", Verdict.COSTS: "below 1"}.get(verdict, f"within ±{RELEVANT - 1:.0%}")
    return Conclusion(verdict, f"{said}: the whole interval lies {where}")


def judge_loss(found: Estimate) -> tuple[Estimate, Conclusion]:
    """A loss of a case that could have ended early. Its interval reaches as far up as prompts that gain much, of which
    so few prompts may hold none, would move it; its verdict is that of this interval.
    """
    high = math.exp(raised_by_few(math.log(found.ratio), found.n))
    wider = found.model_copy(update={"high": max(found.high or high, high)})
    verdict, reason, settle = judge(wider)
    why = f"{reason}; so few prompts may hold none of those that gain much"
    return wider, Conclusion(verdict, reason if verdict is Verdict.COSTS else why, settle and "more prompts")


def _needed(found: Estimate, unit: str, confidence: float) -> str:
    """Number of `unit` that would make the interval short enough for a verdict, if nothing else changes."""
    level = 0.5 + confidence / 2.0
    centre = abs(math.log(found.ratio))
    reach = max(centre, math.log(RELEVANT) - centre) - off_at(found.off, confidence)
    if reach <= 0.0:
        return "more rounds, since these arms were measured one after the other"
    deviation = math.sqrt(log_stat(found, confidence).variance * found.n)
    n = found.n
    while n <= MOST_NEEDED and t_quantile(level, n - 1.0) * deviation / math.sqrt(n) >= reach:
        n = max(n + 1, n * 21 // 20)
    if n > MOST_NEEDED:
        return f"more than {MOST_NEEDED:,} {unit}, or a steadier machine"
    return f"about {n:,} {unit} ({found.n} were compared)"


def log_stat(found: Estimate, confidence: float = NOMINAL) -> LogMean:
    """The log mean that an interval with n - 1 degrees of freedom came from."""
    if found.low is None or found.high is None or found.n < 2:
        return LogMean(math.log(found.ratio), 0.0, 0.0, found.n)
    df = found.n - 1.0
    reach = max(0.0, (math.log(found.high) - math.log(found.low)) / 2.0 - off_at(found.off, confidence))
    error = reach / t_quantile(0.5 + confidence / 2.0, df)
    return LogMean(math.log(found.ratio), error**2, df, found.n, off=found.off)


def too_many_failed(*arms: ArmCase) -> str | None:
    """Why these arms cannot be compared: too many requests failed. None if they can."""
    for arm in arms:
        if arm.requests and arm.failed / arm.requests > MAX_FAILED:
            kinds = ", ".join(f"{count} {kind}" for kind, count in arm.errors.items())
            what = "the rest is no fair sample" if arm.completed else "nothing is left to compare"
            return f"{arm.failed} of {arm.requests} requests of {arm.variant} failed ({kinds}): {what}"
    return None


def lengths_apart(found: LogMean | None) -> str:
    """Why two arms cannot be compared: their answers differ in length by more than ALIKE, and by more than chance.
    Empty if they can. `found`: log of the arm's tokens over the baseline's, by prompt. A shorter answer has more of the
    time to the first token in its tokens per second.
    """
    if found is None or not unlike(found.ratio, 1.0):
        return ""
    low, high = found.interval() or (found.ratio, found.ratio)
    if low <= 1.0 <= high:
        return ""
    tokens = spread(estimate(LENGTH, found, method=""))
    return f"its answers have {tokens} the tokens of the baseline's, so neither speed nor cost can be compared"


def impossible_figures(
    experiment: Experiment, base: Variant, other: Variant, changed: Sequence[str], results: Sequence[CaseResult]
) -> dict[str, str]:
    """Case -> why figures of these two arms cannot be there."""
    found = {result.case: result.reason for result in results if result.impossible}
    most = None
    if tuple(changed) == ("speculation",) and experiment.workload.levels[0].rate is None:  # a queue has no such bound
        k = (other if other.speculation else base).k
        most = MOST_BY_SPECULATION if k is None else most_tokens_per_step(k, most_tokens(experiment, other))
    for result in results:
        bound = None if result.late else most  # a late client makes an arm look slower, by no one knows how much
        if result.headline and (why := impossible_speedup(result.headline.ratio, result.headline.low, most=bound)):
            found.setdefault(result.case, why)
    same = [result for result in results if result.equality.expected]
    compared, parted = (sum(getattr(each.equality, name) for each in same) for name in ("compared", "from_start"))
    if {"quantization", "weights"} & set(changed):
        return found
    for each in same:
        same_text = each.equality
        if why := other_counts(*same_text.identical_tokens, hidden=same_text.hidden_tokens, answers=same_text.counted):
            found.setdefault(each.case, why)
    if why := other_work(compared=compared, from_start=parted):
        for each in same:
            if each.equality.from_start:
                found.setdefault(each.case, f"{why}: the arms do not do the same work")
    return found


def distrust(pair: Pair, why: Mapping[str, str]) -> Pair:
    """The pair without any figure or judgement. `why`: place -> reason."""
    places: dict[str, list[str]] = {}
    for place, reason in why.items():
        places.setdefault(reason, []).append(place)
    each_one = [f"{', '.join(at)}: {reason}" for reason, at in places.items()]
    more = [f"and {len(places) - MOST_SAID} more"] if len(places) > MOST_SAID else []
    said = "; ".join([*each_one[:MOST_SAID], *more])
    nothing = {"verdict": Verdict.DISTRUST, "reason": said, "speedups": ()}
    of_case = {"settle": "", "comparable": False, "headline": None, "pairs": 0}
    of_group = {"judged": (), "range": None, "next": None}
    cases = (case.model_copy(update={**nothing, **of_case, "impossible": case.case in why}) for case in pair.cases)
    groups = (each.model_copy(update=nothing | of_group) for each in pair.groups)
    return pair.model_copy(update={"among": None, "cases": tuple(cases), "groups": tuple(groups)})
