"""The parts of a comparison that concern one arm, one metric or one pair of texts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from specdecode.experiment.model import Frozen

Count = Annotated[int, Field(ge=0, le=2**53)]


class MetricInfo(Frozen):
    """How to read one figure."""

    name: str
    label: str
    unit: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9/$% ]{1,40}$")]
    formula: str
    better: Literal["lower", "higher", "neither"]


class Summary(Frozen):
    """One metric over the completed requests of one arm and case; None: not known (imported results)."""

    n: Count
    mean: float | None = None
    stddev: float | None = None
    min: float | None = None
    p25: float | None = None
    p50: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class StepBin(Frozen):
    """Share of streamed chunks (engine steps) that carried this many tokens."""

    tokens: Count
    share: float


class ArmCase(Frozen):
    """What one arm did in one case."""

    variant: str
    case: str
    requests: Count
    completed: Count
    failed: Count
    errors: dict[str, Count]
    output_tokens: Count
    busy_seconds: float
    """Length of the union of the requests' [sent, end] intervals."""
    output_throughput: float | None
    """output_tokens / busy_seconds: the arm's own rate at the measured load."""
    cost_per_million: float | None
    metrics: dict[str, Summary]
    samples: dict[str, tuple[float, ...]]
    """Per-request values for the distribution charts (at most SAMPLES quantiles of them)."""
    steps: tuple[StepBin, ...]
    acceptance_rate: float | None
    """Accepted / drafted tokens; None where there is no draft or nothing to tell it from."""
    acceptance_source: str | None
    accepted_per_position: tuple[float, ...]


class Estimate(Frozen):
    """A ratio with its confidence interval; above 1 is better for every metric."""

    metric: str
    ratio: float = Field(gt=0)
    low: float | None = Field(gt=0)
    high: float | None = Field(gt=0)
    n: Count
    method: str


class Difference(Frozen):
    """Where two outputs of the same prompt part."""

    index: int
    round: int
    at: int
    """Characters that are equal before it."""
    before: str
    """The end of the equal part."""
    base: str
    other: str


class Equality(Frozen):
    """Whether both arms wrote the same text."""

    compared: Count
    identical: Count
    expected: bool
    """Greedy decoding (temperature 0): equal outputs are what theory promises."""
    first: Difference | None
    """The earliest difference of all prompts."""
    shortest_common: int | None
    """Characters before the earliest difference."""
