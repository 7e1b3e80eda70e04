"""One arm against another as data: case by case, and by kind of prompts."""

from __future__ import annotations

from typing import Literal

from specdecode.analysis.results.parts import Equality, Estimate, Verdict
from specdecode.experiment.model import Frozen
from specdecode.measures.arm_case import ArmCase

HEADLINE = "request_output_throughput"
"""The metric that the verdict is about: output tokens per second of whole requests (ADR 80)."""

GroupName = Literal["all", "structured", "open-ended"]


class CaseResult(Frozen):
    """One arm against its baseline in one case."""

    case: str
    structured: bool
    verdict: Verdict
    reason: str
    settle: str = ""
    """What would settle it, where it cannot be told."""
    comparable: bool = True
    """Both arms completed enough of the same prompts for a figure that means something."""
    impossible: bool = False
    """An arm has figures here that no server can reach: nothing is learned from it."""
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


class TypeRange(Frozen):
    """The smallest and the largest speed-up of a group's prompt types."""

    low: float
    low_case: str
    high: float
    high_case: str


class GroupResult(Frozen):
    """A kind of prompts: geometric mean over its prompt types, each of the same weight."""

    group: GroupName
    cases: tuple[str, ...]
    """All of the kind, also those that could not be compared."""
    judged: tuple[str, ...]
    """Those of them that the figures are of."""
    verdict: Verdict
    reason: str
    settle: str = ""
    speedups: tuple[Estimate, ...]
    """With an interval over prompt types where there are enough of them; else of the measured ones, without."""
    range: TypeRange | None
    next: tuple[float, float] | None
    """95% prediction interval for one more prompt type of the kind; None with too few types to say."""

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
    arms: tuple[ArmCase, ...] = ()
    """Of a run on several nodes: what either arm did on the nodes that measured both, where it was measured on others
    too. Everything in a pair is of those nodes."""

    def group(self, name: str) -> GroupResult | None:
        """The group called `name`, if any of its cases could be compared."""
        return next((group for group in self.groups if group.group == name), None)


class Chain(Frozen):
    """Several changes one after the other, told apart: total = product of the links."""

    variant: str
    root: str
    links: tuple[Pair, ...]
    total: Pair
