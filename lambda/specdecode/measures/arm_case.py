"""Figures of one arm in one case, as data."""

from __future__ import annotations

from pydantic import Field

from specdecode.experiment.base import Frozen
from specdecode.measures.distribution import Count, Summary
from specdecode.measures.metrics import AcceptanceRate, OutputThroughput
from specdecode.measures.turns import TurnFigures
from specdecode.records import Drafted

SAMPLES = 50
"""Most values of one metric that are kept for the distribution charts. Of more values, that many quantiles are kept."""


class StepBin(Frozen):
    """Share of streamed chunks (engine steps) that carried this many tokens."""

    tokens: Count
    share: float


class ArmCase(Frozen):
    """Figures of one arm in one case."""

    variant: str
    case: str
    requests: Count
    completed: Count
    failed: Count
    errors: dict[str, Count]
    """Kind of error -> requests that ended so, most frequent first."""
    output_tokens: Count
    load_seconds: float
    """First send to last end (measures/load_time.py)."""
    cost_per_million: float | None
    metrics: dict[str, Summary]
    """Each metric that has one value or more for each request."""
    totals: dict[str, float]
    """Each metric that has one value for all requests."""
    no_value: dict[str, str]
    """Metrics without a value, and why."""
    impossible: tuple[str, ...] = ()
    """Figures that no server can reach, in words; they have no value."""
    samples: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Per-request values for the distribution charts: at most SAMPLES quantiles of them."""
    steps: tuple[StepBin, ...] = ()
    acceptance_source: str | None = None
    """Source of `acceptance_length`, the acceptance rate and `accepted_per_position`, in words."""
    acceptance_length: float | None = None
    """Mean tokens of a step that had drafts: 1 + accepted / drafts. At most k + 1, or k on an engine that verifies
    k - 1 drafts. None if the arm drafts nothing, or if nothing tells how many tokens were accepted."""
    drafted_by_answers: Drafted | None = None
    """Sum of the draft counts in the completed answers. None if an answer lacks them."""
    drafted_by_counters: Drafted | None = None
    """The engine's counters for the same requests. None if they are incomplete or contradict the answers."""
    drafted_gap: str = ""
    """Difference of these two counts, in words. Empty if they are equal or if one of them is missing."""
    verified_drafts: Count | None = None
    """Drafts that a step verifies: a step yields at most one token more. None if k is not known."""
    accepted_per_position: tuple[float, ...] = ()
    """Acceptance at each position, given that all positions before it were accepted."""
    turns: tuple[TurnFigures, ...] = ()
    """Figures of conversations by turn. Empty if there are no conversations."""

    @property
    def output_throughput(self) -> float | None:
        """Tokens per second of the arm at the measured load."""
        return self.totals.get(OutputThroughput.tag)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted tokens. None if the arm drafts nothing or if nothing tells."""
        return self.totals.get(AcceptanceRate.tag)
