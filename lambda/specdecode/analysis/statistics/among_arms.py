"""Whether an arm is faster than its baseline, judged together with all other arms of its run (ADR 80).

Each verdict by itself is right in 95% of the runs. A run of many arms has many verdicts, and the user acts on the best
of them. So an arm is recommended only if it is shown to be faster at a level that holds for all arms together.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.analysis.results.comparison import HEADLINE
from specdecode.analysis.results.pair_result import AmongArms
from specdecode.analysis.statistics.verdict import estimate
from specdecode.experiment.model import Experiment
from specdecode.measures.student import ASSUMED_DF, NOMINAL, LogMean, combine, with_shared

WRONG_RUNS = 1.0 - NOMINAL
"""Nominal share of runs that recommend an arm that is not faster: 4%. Timing noise makes the true share larger; it
stays below 5% (docs/explanation/how-sure.md)."""
ANOTHER_NODE = LogMean(0.0, (0.5 * 0.05) ** 2, ASSUMED_DF, 0)
"""What a speed-up is assumed to differ by between nodes: half of what nodes differ by, 5%. Nobody has measured either
on Trainium2 (docs/explanation/how-sure.md)."""
METHOD = "Student's t on the log-ratio of paired prompts, the cases with equal weight, Bonferroni's level for {} arms"


def compared_arms(experiment: Experiment) -> int:
    """Number of arms that have a baseline, measured or not: an adaptive sweep decides by its results which of them it
    measures.
    """
    return sum(variant.compare_to is not None for variant in experiment.variants)


def confidence(arms: int) -> float:
    """Two-sided level of each arm's interval (Bonferroni). Only an interval that lies too high makes a wrong
    recommendation, which is half of the errors. So two arms need no higher level than one.
    """
    return max(NOMINAL, 1.0 - 2.0 * WRONG_RUNS / arms)


def among_arms(stats: Sequence[LogMean], *, arms: int, drift: float = 1.0) -> AmongArms | None:
    """The mean over the measured cases, from each case's log speed-up on the headline metric; None without a case.

    `drift`: what the arm must exceed (>= 1).
    """
    if not stats:
        return None
    mean = stats[0] if len(stats) == 1 else combine(stats, [1.0 / len(stats)] * len(stats))
    here, anywhere = (
        estimate(HEADLINE, each, method=METHOD.format(arms), confidence=confidence(arms))
        for each in (mean, with_shared(mean, ANOTHER_NODE))
    )
    return AmongArms(
        arms=arms,
        speedup=here,
        faster=here.low is not None and here.low > drift,
        elsewhere=anywhere.low is not None and anywhere.low > drift,
    )
