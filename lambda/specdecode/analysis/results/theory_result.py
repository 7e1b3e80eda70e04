"""The advisor's calibrated model of a draft, as data."""

from __future__ import annotations

from specdecode.analysis.results.pair_result import GroupName
from specdecode.experiment.model import Frozen
from specdecode.experiment.most_tokens import MostTokens


class Point(Frozen):
    """Believed speed-up of decoding at one number of speculative tokens, with one-sided 95% bounds."""

    k: int
    speedup: float
    low: float
    high: float


class MeasuredK(Frozen):
    """Measured speed-up of decoding at one k."""

    variant: str
    k: int
    speedup: float
    low: float | None
    high: float | None


class Theory(Frozen):
    """The advisor's calibrated model of one draft on a set of cases."""

    draft: str
    most_tokens_per_step: MostTokens = MostTokens.K_PLUS_1
    """Most tokens that a step of the engine yields with k."""
    group: GroupName
    acceptance: float
    """a: chance that a draft token is accepted, given that those before it were."""
    draft_cost: float
    """c: cost of one draft token, in base steps."""
    overhead: float
    """v: time that verification adds to a base step, in base steps."""
    points: tuple[Point, ...]
    measured: tuple[MeasuredK, ...]
