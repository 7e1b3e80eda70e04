"""One arm against another as data: case by case, and by kind of prompts."""

from __future__ import annotations

from typing import Literal

from specdecode.analysis.results.parts import Equality, Estimate, Verdict
from specdecode.experiment.model import Frozen

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
    """What would settle the verdict. Empty if there is a verdict."""
    comparable: bool = True
    """Both arms completed enough of the same prompts for a meaningful figure."""
    impossible: bool = False
    """An arm has figures here that no server can reach, so the advisor learns nothing from them."""
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
    """All cases of the kind, also those that could not be compared."""
    judged: tuple[str, ...]
    """Cases that the figures are about."""
    verdict: Verdict
    reason: str
    settle: str = ""
    speedups: tuple[Estimate, ...]
    """Speed-ups. They have an interval over prompt types if there are enough types, else they describe the measured
    types only."""
    range: TypeRange | None
    next: tuple[float, float] | None
    """95% prediction interval for one more prompt type of the kind. None if there are too few types."""

    @property
    def headline(self) -> Estimate | None:
        """The group's speed-up on the headline metric."""
        return next((estimate for estimate in self.speedups if estimate.metric == HEADLINE), None)


class AmongArms(Frozen):
    """An arm's speed-up over all measured cases, with an interval that holds for all arms of the run together."""

    arms: int
    """Arms of the run that are compared with a baseline."""
    speedup: Estimate
    faster: bool
    """The whole interval lies above 1, and beyond the baseline's own drift. Only such an arm is recommended."""
    elsewhere: bool | None = None
    """Still so if the interval has what a speed-up is assumed to differ by between nodes: this run had one. None in a
    report of an older version."""


class Pair(Frozen):
    """One arm against the arm it is compared with."""

    variant: str
    baseline: str
    changes: tuple[str, ...]
    """Differences between the two arms: `speculation`, `quantization`, `draft`, `k`, `weights`, `settings`."""
    cases: tuple[CaseResult, ...]
    groups: tuple[GroupResult, ...]
    among: AmongArms | None = None
    """None if no case could be compared, and in the pairs of the loads after the first."""

    def group(self, name: str) -> GroupResult | None:
        """The group called `name`, if any of its cases could be compared."""
        return next((group for group in self.groups if group.group == name), None)


class Chain(Frozen):
    """Several changes one after the other, told apart: total = product of the links."""

    variant: str
    root: str
    links: tuple[Pair, ...]
    total: Pair
