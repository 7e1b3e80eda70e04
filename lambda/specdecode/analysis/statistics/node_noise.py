"""Noise of a speed-up between nodes: a speed-up on one node says less about other nodes than its prompts alone suggest
(ADR 190).

A difference that all arms of a node share cancels in a speed-up. But an arm may gain more on one node than on another.
A run in which each arm is on one node cannot show this, so it is assumed to be half of what nodes differ by.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from specdecode.analysis.results.pair_result import HEADLINE
from specdecode.analysis.statistics.measured import AtLevel
from specdecode.analysis.statistics.pairing import log_by_prompt
from specdecode.measures.arm import Measured
from specdecode.measures.distribution import mean, stddev
from specdecode.measures.observations import Asked
from specdecode.measures.student import ASSUMED_DF, LogMean

SHARE, DIFFER = 0.5, 0.05
"""Assumed standard deviation of an arm's speed-up over nodes, as a share of the one between nodes; and what the latter
is assumed to be. Nobody has measured either on Trainium2. In simulated runs on nodes that differ by up to 5%, and arms
by half of that, at most 5% of the verdicts are wrong (docs/explanation/how-sure.md)."""
Logs = Mapping[Asked, float]


def between_nodes(at: AtLevel) -> LogMean | None:
    """Noise to add to each speed-up. None for a run on one node."""
    if not at.units:
        return None
    logs = of_baseline(at)
    own = [mean([mean(list(case[unit].values())) for case in logs]) for unit in at.units if _in_all(unit, logs)]
    return between(own)


def between(baseline: Sequence[float]) -> LogMean:
    """Noise from the mean ln(tokens/s) of each node that measured the baseline.

    What is assumed gives way to what the nodes show, as between runs (student.moderated): its ASSUMED_DF degrees of
    freedom and one for each node after the first. Fewer than two nodes leave the assumption alone.
    """
    shown = max(0, len(baseline) - 1)
    df = ASSUMED_DF + shown
    variance = (ASSUMED_DF * DIFFER**2 + (shown * stddev(baseline) ** 2 if shown else 0.0)) / df
    return LogMean(0.0, SHARE**2 * variance, df, 0)


def told_by(at: AtLevel) -> str:
    """Arm that most nodes measured; the first of several. The nodes are compared by it."""
    units: dict[str, set[int]] = defaultdict(set)
    for (name, _), each in at.arms.items():
        units[name] |= {record.unit for record in each.block.records}
    return max(units, key=lambda name: len(units[name]))


def of_baseline(at: AtLevel) -> list[dict[int, Logs]]:
    """Case -> part of the run -> prompt -> ln(tokens/s) of that arm."""
    name = told_by(at)
    return [_by_unit(own) for (variant, _), own in at.arms.items() if variant == name]


def _by_unit(measured: Measured) -> dict[int, Logs]:
    found: dict[int, dict[Asked, float]] = defaultdict(dict)
    for asked, value in log_by_prompt(measured, HEADLINE).items():
        found[asked.unit][asked._replace(unit=0)] = value
    return dict(found.items())


def _in_all(unit: int, logs: Sequence[Mapping[int, Logs]]) -> bool:
    return bool(logs) and all(unit in case for case in logs)
