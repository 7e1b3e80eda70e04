"""Results at one load, as a report keeps them: the headline of each arm and of each pair."""

from __future__ import annotations

from specdecode.analysis.results.pair_result import Pair
from specdecode.experiment.model import Frozen
from specdecode.experiment.workload import Level
from specdecode.measures.arm_case import ArmCase


class LoadResult(Frozen):
    """All arms and pairs at one load."""

    level: Level
    arms: tuple[ArmCase, ...]
    """For loads after the first: counts of failures, and only the headline metric."""
    pairs: tuple[Pair, ...]
    """For loads after the first: the headline of each case, without groups."""
