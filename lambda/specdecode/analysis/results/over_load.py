"""Results over the load, as data: the curve of a pair, the loads at which the speed-up passes 1, k by load, and what
each arm carries at the service-level objective.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from specdecode.analysis.results.pairs import Estimate
from specdecode.experiment.base import Frozen, Many
from specdecode.experiment.workload import Level
from specdecode.measures.distribution import Count

Source = Literal["between rounds", "around a smooth curve", "assumed"]
"""Where the noise that all requests of a load share was found (`specdecode.analysis.loads.crossing`)."""


class ArmAtLoad(Frozen):
    """Figures of one arm at one level, over all requests of the curve's cases."""

    output_throughput: float | None
    """Tokens a second of the whole server: output tokens / seconds of load. None of an open loop."""
    user_speed: float | None
    """Tokens a second that a user sees: median over requests of output tokens / end-to-end latency."""
    ttft_p50: float | None = None
    ttft_p95: float | None = None
    tpot_p50: float | None = None
    tpot_p95: float | None = None
    cost_per_million: float | None = None
    good_share: float | None = None
    """Share of all requests that kept the service-level objective; None without one."""
    goodput: float | None = None
    """Good requests a second. None without a service-level objective."""


class LoadPoint(Frozen):
    """A pair at one level."""

    level: Level
    under_way: float
    """Requests under way while a request ran, itself included: mean over requests, then over both arms."""
    speedup: Estimate
    """Geometric mean over the curve's cases. The interval covers the measured prompts and the noise that all requests
    of the load share."""
    faster: bool | None = None
    """The interval that holds for all arms at all loads after the first together lies above 1. At such a load only such
    an arm is advised. None in a report of an older version."""
    decoding: Estimate | None = None
    """Speed-up of the time per output token; its interval covers the measured prompts alone. None if a case has no
    value."""
    base: ArmAtLoad
    other: ArmAtLoad
    acceptance_length: float | None = None
    """Mean tokens that a step of the arm yielded. None if the server does not count them."""
    break_even: float | None = None
    """Tokens that a step must yield for decoding as fast as without speculation: seconds of the arm's step / of the
    base's."""
    queueing: bool = False
    """More requests at a time than the server takes into a batch, so that some queue."""
    doubtful: bool = False
    """The load generator fell behind at this level, so that the times are partly its own."""


class Crossover(Frozen):
    """A load at which the speed-up passes 1."""

    load: float
    """Requests under way; for an open loop requests a second."""
    low: float
    high: float
    """95% interval, by a parametric bootstrap over the levels' estimates, out to the next measured levels."""
    direction: Literal["stops", "starts"]
    """True if speculation stops paying with more load; False if it starts to pay."""


class Curve(Frozen):
    """One arm against its baseline over the load, for a group of cases."""

    variant: str
    baseline: str
    of_speculation: bool = True
    """One arm speculates and the other does not, as far as is known, and no arm stands between them in a chain. If not,
    the words name the arms."""
    group: str
    cases: Many[str]
    """Cases that could be compared at every level of the curve. The other cases are left out, since a case that is
    missing at one level would look like an effect of the load."""
    left_out: Many[str] = ()
    """The other cases of the group."""
    points: Many[LoadPoint]
    """The smallest load first."""
    without: Many[Level] = ()
    """Measured loads without a speed-up: too many requests failed, or no case was compared."""
    crossovers: Many[Crossover] = ()
    """Crossovers that are shown. Empty if there is none up to the largest load."""
    shared: float = 0.0
    """Standard deviation of the log speed-up that all requests of one load and round share. Every interval includes
    it."""
    shared_from: Source = "assumed"
    prompts: Count = 0
    """Prompts compared at the largest load."""


class KRange(Frozen):
    """The number of speculative tokens for a range of batch sizes."""

    first: int = Field(ge=1)
    last: int
    k: int = Field(ge=0)
    """0: without speculation."""
    variant: str
    """The arm that serves with this k."""
    rivals: tuple[int, ...] | None = None
    """Other k's that may be as fast at some measured load of the range. None if this is not known."""
    failed: Many[int] = ()
    """Other k's whose arm failed too many requests at some measured load of the range, or lacks a case there."""


class Schedule(Frozen):
    """Best k for each batch size, among the arms of one draft."""

    draft: str
    ranges: Many[KRange]
    measured: Many[int] = ()
    """Batch sizes that were measured, the smallest first. Empty in a report of an older version."""
    measured_to: int
    """Largest load that was measured."""
    engine_takes_it: bool
    """True if the engine changes k with the batch size; False if each k needs a server of its own."""

    @property
    def paste(self) -> str:
        """Keys for vLLM's `--speculative-config`. Empty if the engine's k is fixed, or none is worth it.

        Form: `[first, last, k]`, both ends included (vLLM, docs/features/speculative_decoding/
        dynamic_speculative_decoding.md, 0.25 and later).
        """
        most = max(each.k for each in self.ranges)
        if not self.engine_takes_it or not most:
            return ""
        table = [[each.first, each.last, each.k] for each in self.ranges]
        return f'"num_speculative_tokens": {most}, "num_speculative_tokens_per_batch_size": {table}'


class GoodAtLoad(Frozen):
    """One arm at one load, all its cases together. A request that failed is not good."""

    level: Level
    requests: int = Field(ge=1)
    good: Count
    """Requests that completed within every limit."""
    goodput: float | None
    """Good requests / seconds of load, or of an open loop's sending."""
    enough: bool = True
    """False if an open loop ended long after the last request was sent (SENT_OVER). Such a load does not count as
    kept."""
    doubtful: bool = False
    """The load generator was late for some chunks, so that the times behind `good` are partly its own."""

    @property
    def share(self) -> float:
        """Good requests as a share of all."""
        return self.good / self.requests


class Objective(Frozen):
    """Which loads one arm carries within the objective."""

    variant: str
    loads: Many[GoodAtLoad] = Field(min_length=1)
    """The smallest first."""
    keeps: Level | None
    """Largest measured load up to which every load is shown to keep the objective. None: not even the smallest is."""

    @model_validator(mode="after")
    def _of_its_loads(self) -> Self:
        if self.keeps is not None and self.keeps not in [each.level for each in self.loads]:
            raise ValueError(f"{self.variant} keeps a load that it has no figures of: {self.keeps}")
        return self
