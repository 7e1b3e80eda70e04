"""What one node says of an arm's speed-up on another: less than its prompts alone say (ADR 190).

What nodes differ by alike for all arms is in no speed-up. That an arm gains more on one node than on another nothing in
a run shows, where each arm is on one node: it is taken to be a part of what the baseline shows of the nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from specdecode.analysis.results.pair_result import HEADLINE
from specdecode.analysis.statistics.measured import AtLevel
from specdecode.analysis.statistics.pairing import log_by_prompt
from specdecode.measures.arm import Measured
from specdecode.measures.distribution import mean, stddev
from specdecode.measures.student import ASSUMED_DF, LogMean
from specdecode.measures.units import Asked

SHARE, LEAST = 1.0 / 3.0, 0.02
"""Part of the standard deviation between nodes, and the least that this is taken for: two nodes that are equally fast
by chance say little. Assumptions: simulated runs whose arms differ by a quarter of what their nodes do have verdicts
that are wrong in at most 5% (docs/metrics.md)."""
Logs = Mapping[Asked, float]


def between_nodes(at: AtLevel) -> LogMean | None:
    """What to add to each speed-up; None of a run on one node, or where no two of them measured a baseline."""
    if not at.units:
        return None
    logs = of_baseline(at)
    own = [mean([mean(list(case[unit].values())) for case in logs]) for unit in at.units if _in_all(unit, logs)]
    return between(own)


def between(baseline: Sequence[float]) -> LogMean | None:
    """The same of the mean ln(tokens/s) that each node had; None of fewer than two."""
    if len(baseline) < 2:
        return None
    return LogMean(0.0, (SHARE * max(LEAST, stddev(baseline))) ** 2, ASSUMED_DF, 0)


def told_by(at: AtLevel) -> str:
    """The arm by which nodes are told apart: the one that most of them measured, the first of several."""
    units: dict[str, set[int]] = defaultdict(set)
    for (name, _), each in at.arms.items():
        units[name] |= {record.unit for record in each.block.records}
    return max(units, key=lambda name: len(units[name]))


def of_baseline(at: AtLevel) -> list[dict[int, Logs]]:
    """Of each case: part of the run -> prompt -> ln(tokens/s) of that arm."""
    name = told_by(at)
    return [_by_unit(own) for (variant, _), own in at.arms.items() if variant == name]


def _by_unit(measured: Measured) -> dict[int, Logs]:
    found: dict[int, dict[Asked, float]] = defaultdict(dict)
    for asked, value in log_by_prompt(measured, HEADLINE).items():
        found[asked.unit][asked._replace(unit=0)] = value
    return dict(found.items())


def _in_all(unit: int, logs: Sequence[Mapping[int, Logs]]) -> bool:
    return bool(logs) and all(unit in case for case in logs)
