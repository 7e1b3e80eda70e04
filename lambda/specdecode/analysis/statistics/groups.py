"""Cases together: the result of a kind of prompts, whose types differ more than anything else; and whether an arm is
faster than its baseline if all arms of its run are judged together (ADR 80).

Each verdict by itself is right in 95% of the runs. A run of many arms has many verdicts, and the user acts on the best
of them. So an arm is recommended only if it is shown to be faster at a level that holds for all arms together.
"""

import math
from collections.abc import Sequence

from specdecode.analysis.results.numbers import times
from specdecode.analysis.results.pairs import (
    HEADLINE,
    AmongArms,
    CaseResult,
    Estimate,
    GroupName,
    GroupResult,
    TypeRange,
    Verdict,
)
from specdecode.analysis.statistics.verdict import Conclusion, estimate, judge
from specdecode.experiment.model import Experiment
from specdecode.measures.distribution import mean
from specdecode.measures.student import (
    ASSUMED_DF,
    NOMINAL,
    LogMean,
    combine,
    log_mean,
    off_at,
    t_quantile,
    with_shared,
)

MIN_TYPES = 5
"""Least number of prompt types for a statement about the kind. With fewer types their spread is a guess."""
MEAN_LEVEL = 0.99
NEXT_LEVEL = 0.975
"""Nominal levels of Student's t over types, for the mean and for one more type. Both intervals are called 95%:
speed-ups of prompt types are seldom normal, and with these levels at least 94% hold up to a skewness of 2, as an
exponential distribution has (docs/explanation/how-sure.md)."""
OVER_TYPES = "Student's t on the log speed-ups of the prompt types"
OF_MEASURED = "geometric mean of the measured prompt types, which says nothing of others"
Stats = dict[str, LogMean]


def group(name: GroupName, results: Sequence[tuple[CaseResult, Stats]]) -> GroupResult | None:
    """Judge the cases of a kind, or of all kinds, together. None if the experiment has no such case."""
    own = [item for item in results if name == "all" or item[0].structured is (name == "structured")]
    if not own:
        return None
    judged = [(result, stats) for result, stats in own if result.comparable]
    generalises = len(judged) >= MIN_TYPES
    means = {
        metric: _over_types([stats[metric] for _, stats in judged])
        for metric in (judged[0][1] if judged else ())
        if all(metric in stats for _, stats in judged)
    }
    speedups = {
        metric: estimate(metric, each, method=OVER_TYPES, confidence=MEAN_LEVEL)
        if generalises
        else estimate(metric, each._replace(df=0.0), method=OF_MEASURED)
        for metric, each in means.items()
    }
    verdict, reason, _ = _judge([result for result, _ in own], speedups.get(HEADLINE), generalises)
    ratios = [result.headline.ratio for result, _ in judged if result.headline]
    return GroupResult(
        group=name,
        cases=tuple(result.case for result, _ in own),
        judged=tuple(result.case for result, _ in judged),
        verdict=verdict,
        reason=reason,
        speedups=tuple(speedups.values()),
        range=TypeRange(low=min(ratios), high=max(ratios)) if ratios else None,
        next=_next(_over_types([stats[HEADLINE] for _, stats in judged if HEADLINE in stats])) if generalises else None,
    )


def _over_types(parts: Sequence[LogMean]) -> LogMean:
    """The mean of prompt types by what they vary. They may be off together, if one baseline moved for all of them."""
    return log_mean([part.mean for part in parts])._replace(off=mean([part.off for part in parts]))


def _judge(cases: Sequence[CaseResult], headline: Estimate | None, generalises: bool) -> Conclusion:
    if late := [case for case in cases if case.late]:
        return Conclusion(Verdict.CANNOT_TELL, late[0].reason, late[0].settle)
    verdicts = {result.verdict for result in cases}
    if len(verdicts) == 1 and (not generalises or headline is None):
        return Conclusion(cases[0].verdict, "; ".join(f"{case.case}: {case.reason}" for case in cases), cases[0].settle)
    if generalises and not {Verdict.PAYS, Verdict.COSTS} <= verdicts:
        return judge(headline, unit="prompt types", confidence=MEAN_LEVEL)
    said = "; ".join(f"{case.case}: {case.verdict}" for case in cases)
    return Conclusion(Verdict.MIXED, f"the prompt types differ: {said}")


def _next(stat: LogMean) -> tuple[float, float]:
    """95% prediction interval of one more prompt type's speed-up: mean ± t s √(1 + 1/n) on the log scale."""
    n = stat.n
    reach = t_quantile(0.5 + NEXT_LEVEL / 2.0, n - 1.0) * math.sqrt(stat.variance * n * (1.0 + 1.0 / n))
    reach += off_at(stat.off, NEXT_LEVEL)
    return math.exp(stat.mean - reach), math.exp(stat.mean + reach)


def figure(found: GroupResult) -> str:
    """The figure of a group and how far it reaches: a mean with its interval, or the measured prompts' range."""
    if found.headline is None or found.range is None:
        return "no figure"
    if found.headline.low is not None and found.headline.high is not None and found.next:
        return (
            f"{times(found.headline.ratio)} (95% CI {found.headline.low:.2f}–{found.headline.high:.2f} over "
            f"{len(found.judged)} prompt types, {times(found.range.low)} to {times(found.range.high)}; a further "
            f"type probably {times(found.next[0])} to {times(found.next[1])})"
        )
    if len(found.judged) == 1:
        return times(found.headline.ratio)
    return f"{times(found.range.low)} to {times(found.range.high)}"


WRONG_RUNS = 1.0 - NOMINAL
"""Nominal share of runs that recommend an arm that is not faster: 4%. Timing noise makes the true share larger; it
stays below 5% (docs/explanation/how-sure.md)."""
NODES_DIFFER = 0.05
"""What nodes are assumed to differ by (standard deviation of the logarithm of a throughput), and a speed-up by half of
it. Nobody has measured either on Trainium2 (docs/explanation/how-sure.md)."""
ANOTHER_NODE = LogMean(0.0, (0.5 * NODES_DIFFER) ** 2, ASSUMED_DF, 0)
METHOD = "Student's t on the log-ratio of paired prompts, the cases with equal weight, Bonferroni's level for {} arms"


def compared_arms(experiment: Experiment) -> int:
    """Number of arms that have a baseline, measured or not: an adaptive sweep decides later which it measures."""
    return sum(variant.compare_to is not None for variant in experiment.variants)


def confidence(arms: int) -> float:
    """Two-sided level of each arm's interval (Bonferroni). Only an interval that lies too high makes a wrong
    recommendation, half of the errors: two arms need no higher level than one.
    """
    return max(NOMINAL, 1.0 - 2.0 * WRONG_RUNS / arms)


def among_arms(stats: Sequence[LogMean], *, arms: int) -> AmongArms | None:
    """The mean over the measured cases, from each case's log speed-up on the headline metric; None without a case."""
    if not stats:
        return None
    whole = stats[0] if len(stats) == 1 else combine(stats, [1.0 / len(stats)] * len(stats))
    here, anywhere = (
        estimate(HEADLINE, each, method=METHOD.format(arms), confidence=confidence(arms))
        for each in (whole, with_shared(whole, ANOTHER_NODE))
    )
    return AmongArms(
        arms=arms,
        speedup=here,
        faster=here.low is not None and here.low > 1.0,
        elsewhere=anywhere.low is not None and anywhere.low > 1.0,
    )
