"""One arm in one case, as data: what is known of it beside its records, and its figures."""

from dataclasses import dataclass, field

from pydantic import Field

from specdecode.experiment.base import Frozen, Many
from specdecode.experiment.most_tokens import MostTokens
from specdecode.measures.course import Spans
from specdecode.measures.distribution import Count, Summary
from specdecode.measures.metrics.formulas import acceptance_rate, output_throughput
from specdecode.records import Drafted

SAMPLES = 50
"""Most values of one metric that are kept for the distribution charts. Of more values, that many quantiles are kept."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is known of an arm beside its records."""

    k: int | None = None
    """Tokens that a step drafts. 0 without speculation, None if it is not known."""
    most: MostTokens = MostTokens.K_PLUS_1
    """Most tokens that a step of the engine yields with that k."""
    one_k: bool = True
    """Each step that drafts, drafts k tokens. False if k depends on the load."""
    every_step: bool = True
    """Each step drafts. False if k depends on the load, and of a server whose engine is not known: vLLM counts no step
    in which an n-gram was not found (0.32.0, v1/core/sched/scheduler.py, make_spec_decoding_stats)."""
    spans: Spans = field(default_factory=dict)
    """Of the arm in all its cases and loads."""
    dollars_per_hour: float | None = None
    """Price of the devices that the arm holds. None: the arm has no cost."""


class StepBin(Frozen):
    """Share of streamed chunks (engine steps) that carried this many tokens."""

    tokens: Count
    share: float


class TurnFigures(Frozen):
    """Completed requests of one arm and case that are the same turn of their conversations."""

    turn: Count
    """From 1."""
    ttft: Summary
    """Seconds to the first token."""
    prompt_tokens: float | None = None
    """Mean prompt tokens by the server's count. None if it gives none."""
    cached_tokens: float | None = None
    """Mean prompt tokens from the prefix cache. None unless the server gives them for every request."""


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
    """First send to last end (metrics/base.py)."""
    cost_per_million: float | None
    metrics: dict[str, Summary]
    """Each metric that has one value or more for each request."""
    totals: dict[str, float]
    """Each metric that has one value for all requests."""
    no_value: dict[str, str]
    """Metrics without a value, and why."""
    impossible: Many[str] = ()
    """Figures that no server can reach, in words; they have no value."""
    late: bool = False
    """The load generator fell behind while it loaded this arm, over all its cases at this load."""
    samples: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Per-request values for the distribution charts: at most SAMPLES quantiles of them."""
    steps: Many[StepBin] = ()
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
    accepted_per_position: Many[float] = ()
    """Acceptance at each position, given that all positions before it were accepted."""
    turns: Many[TurnFigures] = ()
    """Figures of conversations by turn. Empty if there are no conversations."""

    @property
    def output_throughput(self) -> float | None:
        """Tokens per second of the arm at the measured load."""
        return self.totals.get(output_throughput.tag)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted tokens. None if the arm drafts nothing or if nothing tells."""
        return self.totals.get(acceptance_rate.tag)
