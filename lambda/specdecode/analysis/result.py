"""The comparison: everything a report shows, as data. Its JSON schema is assets/schemas/comparison.schema.json."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from specdecode.analysis.context import RunContext
from specdecode.experiment.model import Experiment, Frozen

SCHEMA_VERSION: Literal[1] = 1


class Verdict(StrEnum):
    """What the interval of the headline speed-up says."""

    PAYS = "pays"
    NO_DIFFERENCE = "no difference shown"
    COSTS = "costs"
    CANNOT_SAY = "cannot say"


class MetricInfo(Frozen):
    """How to read one figure."""

    name: str
    label: str
    unit: str
    formula: str
    better: Literal["lower", "higher", "neither"]


class Summary(Frozen):
    """One metric over the completed requests of one arm and case; None: not known (imported results)."""

    n: int
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

    tokens: int
    share: float


class ArmCase(Frozen):
    """What one arm did in one case."""

    variant: str
    case: str
    requests: int
    completed: int
    failed: int
    errors: dict[str, int]
    output_tokens: int
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
    ratio: float
    low: float | None
    high: float | None
    n: int
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

    compared: int
    identical: int
    expected: bool
    """Greedy decoding (temperature 0): equal outputs are what theory promises."""
    first: Difference | None
    """The earliest difference of all prompts."""
    shortest_common: int | None
    """Characters before the earliest difference."""


class CaseResult(Frozen):
    """One arm against its baseline in one case."""

    case: str
    structured: bool
    verdict: Verdict
    reason: str
    headline: Estimate | None
    speedups: tuple[Estimate, ...]
    pairs: int
    distinct_prompts: int
    equality: Equality
    cost_ratio: float | None
    """Baseline cost per million output tokens / this arm's: above 1 is cheaper."""
    cost_saving: float | None
    """Dollars per million output tokens saved (negative: it costs more)."""
    notes: tuple[str, ...]


class GroupResult(Frozen):
    """Geometric mean over a set of cases."""

    group: Literal["all", "structured", "open-ended"]
    cases: tuple[str, ...]
    verdict: Verdict
    reason: str
    speedups: tuple[Estimate, ...]

    @property
    def headline(self) -> Estimate | None:
        """The group's speed-up on the headline metric."""
        return next((estimate for estimate in self.speedups if estimate.metric == HEADLINE), None)


class Pair(Frozen):
    """One arm against the arm it is compared with."""

    variant: str
    baseline: str
    changes: tuple[str, ...]
    """What differs between the two: `speculation`, `quantization`, `draft`, `k`, `weights`, `settings`."""
    cases: tuple[CaseResult, ...]
    groups: tuple[GroupResult, ...]

    def group(self, name: str) -> GroupResult | None:
        """The group called `name`, if any of its cases could be compared."""
        return next((group for group in self.groups if group.group == name), None)


class Chain(Frozen):
    """Several changes one after the other, told apart: total = product of the links."""

    variant: str
    root: str
    links: tuple[Pair, ...]
    total: Pair


class Drift(Frozen):
    """The same arm measured twice: what changed although nothing should have."""

    variant: str
    cause: Literal["time", "device group"]
    first: str
    second: str
    ratio: float
    """Headline metric, second / first."""
    low: float | None
    high: float | None
    shown: bool
    """The interval excludes 1."""


class Point(Frozen):
    """Predicted speed-up at one number of speculative tokens."""

    k: int
    speedup: float
    low: float
    high: float
    tokens_per_step: float


class Measured(Frozen):
    """Measured speed-up of decoding at one k, beside what the model says there."""

    variant: str
    k: int
    speedup: float
    low: float | None
    high: float | None
    tokens_per_step: float
    predicted: float
    error: float
    """predicted / speedup - 1."""


class Theory(Frozen):
    """The calibrated model of one draft on a set of cases, and what it recommends."""

    draft: str
    group: str
    acceptance: float
    """a: chance that a draft token is accepted, given that those before it were."""
    draft_cost: float
    """c: cost of one draft token, in base steps."""
    overhead: float
    """v: what verification adds to a base step."""
    separated: bool
    """c and v were told apart (two or more k measured)."""
    points: tuple[Point, ...]
    measured: tuple[Measured, ...]
    best_k: int
    best_speedup: float
    advice: str


class RunCost(Frozen):
    """What the run cost and how much of the paid time was measurement."""

    price_per_node_hour: float
    node_hours: float | None
    total: float | None
    measured_seconds: float
    """Length of the union of all measured requests, both arms."""
    utilization: float | None
    """measured_seconds / node_seconds."""
    output_tokens: int


class Comparison(Frozen):
    """The answer."""

    schema_version: Literal[1] = SCHEMA_VERSION
    run_id: str
    title: str
    answer: str
    """The verdict in one sentence."""
    experiment: Experiment
    context: RunContext
    created_at: datetime
    metrics: tuple[MetricInfo, ...]
    arms: tuple[ArmCase, ...]
    pairs: tuple[Pair, ...]
    chains: tuple[Chain, ...]
    drift: tuple[Drift, ...]
    theory: tuple[Theory, ...]
    cost: RunCost | None
    notes: tuple[str, ...]
    files: tuple[str, ...] = Field(default=())
    """Raw files below context.raw_prefix."""

    def arm(self, variant: str, case: str) -> ArmCase | None:
        """What `variant` did in `case`."""
        return next((arm for arm in self.arms if arm.variant == variant and arm.case == case), None)

    def json_document(self) -> str:
        """The comparison as report.json holds it."""
        return self.model_dump_json(indent=1) + "\n"


HEADLINE = "request_output_throughput"
"""The metric that the verdict is about: output tokens per second of whole requests (ADR 0080)."""


def json_schema() -> dict[str, Any]:
    """JSON schema of report.json."""
    return Comparison.model_json_schema()
