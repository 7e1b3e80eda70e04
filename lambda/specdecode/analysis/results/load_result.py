"""What a report keeps of a load beside the first: the headline of each arm and of each pair."""

from __future__ import annotations

from specdecode.analysis.results.pair_result import Pair
from specdecode.experiment.level import Level
from specdecode.experiment.model import Frozen
from specdecode.measures.arm_case import ArmCase


class LoadResult(Frozen):
    """All arms and pairs at one load."""

    level: Level
    arms: tuple[ArmCase, ...]
    """Of the loads after the first: what failed, and of the metrics only the headline."""
    pairs: tuple[Pair, ...]
    """Of the loads after the first: the headline of each case, no groups."""
