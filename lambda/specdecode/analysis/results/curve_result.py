"""The curve of a pair over the load, as data: a point for each level, where the speed-up passes 1, and k by load."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from specdecode.analysis.results.parts import Estimate
from specdecode.experiment.level import Level
from specdecode.experiment.model import Frozen
from specdecode.measures.distribution import Count

Source = Literal["between rounds", "around a smooth curve", "assumed"]
"""Where the noise that all requests of a load share was found (`specdecode.analysis.loads.level_noise`)."""


class ArmAtLoad(Frozen):
    """What one arm did at one level, all requests of the curve's cases together."""

    output_throughput: float | None
    """Tokens a second of the whole server: output tokens / seconds of load."""
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
    """Such requests a second."""


class LoadPoint(Frozen):
    """A pair at one level."""

    level: Level
    under_way: float
    """Requests that a request met under way, itself among them, on average over both arms; of an open loop as well."""
    speedup: Estimate
    """Geometric mean over the curve's cases; the interval is of the measured prompts and of what the load's requests
    share."""
    decoding: Estimate | None = None
    """Of the time per output token, its interval of the measured prompts alone; None where a case has none."""
    base: ArmAtLoad
    other: ArmAtLoad
    acceptance_length: float | None = None
    """Tokens that a step of the arm yielded; None where the server does not count them."""
    break_even: float | None = None
    """Tokens that a step must yield for decoding as fast as without: time of the arm's step / of the base's."""
    queueing: bool = False
    """More requests at a time than the server takes into a batch."""
    doubtful: bool = False
    """The load generator itself fell behind here: the times are its own doing in part."""


class Crossover(Frozen):
    """A load at which the speed-up passes 1."""

    load: float
    """Requests under way, or a second."""
    low: float
    high: float
    """95% interval, by a parametric bootstrap over the levels' estimates."""
    direction: Literal["stops", "starts"]
    """With more load speculation stops paying, or starts to."""


class Curve(Frozen):
    """One arm against its baseline over the load, for a group of cases."""

    variant: str
    baseline: str
    of_speculation: bool = True
    """One of the two speculates and the other does not, as far as is known; else the words name the arms."""
    group: str
    cases: tuple[str, ...]
    """Those that could be compared at every level of the curve: a case that is missing must not look like load."""
    left_out: tuple[str, ...] = ()
    """The group's other cases."""
    points: tuple[LoadPoint, ...]
    """The smallest load first."""
    without: tuple[Level, ...] = ()
    """Measured loads that have no speed-up: too many requests failed, or none was compared."""
    crossovers: tuple[Crossover, ...] = ()
    """Empty: none is shown up to the largest load."""
    shared: float = 0.0
    """Standard deviation of the log speed-up that all requests of one load and round share; in every interval."""
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
    """The arm that serves so."""
    rivals: tuple[int, ...] | None = None
    """Other k's that it is not shown to be faster than, at some measured load of the range; None: not known."""
    failed: tuple[int, ...] = ()
    """Other k's whose arm failed too many requests at some measured load of the range."""


class Schedule(Frozen):
    """Which k to serve with at which batch size, of the arms of one draft."""

    draft: str
    ranges: tuple[KRange, ...]
    measured_to: int
    """Largest load that was measured; beyond it the last k is taken to stay."""
    engine_takes_it: bool
    """The engine changes k by the batch size; else each k is a server of its own."""

    @property
    def paste(self) -> str:
        """Keys for vLLM's `--speculative-config`; empty where the engine's k is fixed, or none is worth it.

        Form: `[first, last, k]`, both ends included (vLLM, docs/features/speculative_decoding/
        dynamic_speculative_decoding.md, 0.25 and later).
        """
        most = max(each.k for each in self.ranges)
        if not self.engine_takes_it or not most:
            return ""
        table = [[each.first, each.last, each.k] for each in self.ranges]
        return f'"num_speculative_tokens": {most}, "num_speculative_tokens_per_batch_size": {table}'
