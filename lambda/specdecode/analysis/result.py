"""The comparison: everything a report shows, as data. Its JSON schema is assets/schemas/comparison.schema.json."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from specdecode.analysis.context import RunContext
from specdecode.analysis.parts import ArmCase, Difference, Equality, Estimate, MetricInfo, StepBin, Summary
from specdecode.experiment.model import Experiment, Frozen

SCHEMA_VERSION: Literal[1] = 1


class Verdict(StrEnum):
    """What the interval of the headline speed-up says."""

    PAYS = "pays"
    NO_DIFFERENCE = "no difference shown"
    COSTS = "costs"
    CANNOT_SAY = "cannot say"


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


class AccuracyChange(Frozen):
    """One accuracy score of an arm against its baseline's."""

    variant: str
    baseline: str
    task: str
    metric: str
    before: float
    after: float
    change: float
    low: float | None
    high: float | None
    """95% interval of the change, from both scores' standard errors."""
    shown: bool
    """The interval excludes 0."""


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
    accuracy: tuple[AccuracyChange, ...] = ()
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


__all__ = [
    "HEADLINE",
    "SCHEMA_VERSION",
    "AccuracyChange",
    "ArmCase",
    "CaseResult",
    "Chain",
    "Comparison",
    "Difference",
    "Drift",
    "Equality",
    "Estimate",
    "GroupResult",
    "Measured",
    "MetricInfo",
    "Pair",
    "Point",
    "RunCost",
    "StepBin",
    "Summary",
    "Theory",
    "Verdict",
    "json_schema",
]
