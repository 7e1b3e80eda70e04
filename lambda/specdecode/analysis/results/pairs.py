"""One arm against another as data: by prompt type, by kind of prompts and of work; and the decision of a run, which all
that speaks reads (ADR 200; `specdecode.analysis.texts.decide` makes it).
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from specdecode.experiment.base import Frozen, Many
from specdecode.experiment.workload import Level
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.distribution import Count
from specdecode.measures.metrics.metric import Direction


class Verdict(StrEnum):
    """Meaning of the interval of the headline speed-up."""

    PAYS = "pays"
    COSTS = "costs"
    NO_DIFFERENCE = "no relevant difference"
    """The whole interval lies within ±5%: shown to be too small to matter."""
    CANNOT_TELL = "cannot tell"
    """The interval is too wide, or there is none."""
    DISTRUST = "do not trust"
    """Some figure of these arms is impossible (`specdecode.measures.plausibility`), so none of them is judged."""
    MIXED = "mixed"
    """Only for a group: its prompt types have different verdicts."""


class MetricInfo(Frozen):
    """How to read one figure."""

    name: str
    label: str
    unit: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9/$% ]{1,40}$")]
    formula: str
    better: Direction


class Estimate(Frozen):
    """A ratio with its confidence interval; above 1 is better for every metric."""

    metric: str
    ratio: float = Field(gt=0)
    low: float | None = Field(gt=0)
    high: float | None = Field(gt=0)
    off: float = Field(default=0.0, ge=0)
    """How much of both ends, as a logarithm, is what a baseline around the arm moved: it is alike in all cases."""
    n: Count
    method: str


class Difference(Frozen):
    """First difference between two outputs of the same prompt."""

    index: int
    round: int
    at: int
    """Characters that are equal before it."""
    before: str
    """Last characters of the equal part."""
    base: str
    other: str


class Equality(Frozen):
    """Whether both arms wrote the same text."""

    compared: Count
    identical: Count
    from_start: Count = 0
    """Pairs that differ from the first token on. Rounding does not do that to many pairs."""
    identical_tokens: tuple[Count, Count] = (0, 0)
    """Output tokens that each arm counts in the identical pairs in which both count them: of the base, of the other."""
    hidden_tokens: Count = 0
    """How many of the arm that counts more of them are reasoning that it does not show."""
    counted: Count = 0
    """How many pairs these are."""
    expected: bool
    """Decoding is greedy (temperature 0): in theory both arms write the same text."""
    first: Difference | None
    """The earliest difference of all prompts."""


HEADLINE = "request_output_throughput"
"""The metric that the verdict is about: output tokens per second of whole requests (ADR 80)."""

GroupName = Literal["all", "structured", "open-ended"]


def kind_of(structured: bool | None) -> str:
    """Kind of prompts, in words."""
    return "kind not recorded" if structured is None else "structured" if structured else "open-ended"


class CaseResult(Frozen):
    """One arm against its baseline in one case."""

    case: str
    structured: bool | None
    """None: not known."""
    verdict: Verdict
    reason: str
    settle: str = ""
    """What would settle the verdict. Empty if there is a verdict."""
    comparable: bool = True
    """Both arms completed enough of the same prompts for a meaningful figure."""
    impossible: bool = False
    """Figures of this case itself are impossible. The verdict on all cases of the pair is then DISTRUST."""
    late: bool = False
    """The load generator fell behind here, so that the figures are no evidence."""
    headline: Estimate | None
    speedups: Many[Estimate]
    pairs: int
    distinct_prompts: int
    equality: Equality
    notes: Many[str]


class TypeRange(Frozen):
    """The smallest and the largest speed-up of a group's prompt types."""

    low: float
    high: float


class GroupResult(Frozen):
    """A kind of prompts: geometric mean over its prompt types, each of the same weight."""

    group: GroupName
    cases: Many[str]
    """All cases of the kind, also those that could not be compared."""
    judged: Many[str]
    """Cases that the figures are about."""
    verdict: Verdict
    reason: str
    speedups: Many[Estimate]
    """They have an interval over prompt types if there are enough types, else they describe the measured
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
    """The whole interval lies above 1. Only such an arm is recommended."""
    elsewhere: bool | None = None
    """Still so if the interval has what a speed-up is assumed to differ by between nodes: this run had one. None in a
    report of an older version."""


class Pair(Frozen):
    """One arm against the arm it is compared with."""

    variant: str
    baseline: str
    changes: Many[str]
    """Differences between the two arms: `speculation`, `quantization`, `draft`, `k`, `weights`, `settings`."""
    cases: Many[CaseResult]
    groups: Many[GroupResult]
    among: AmongArms | None = None
    """None if no case could be compared, and in the pairs of the loads after the first."""

    @property
    def distrusted(self) -> str:
        """Why the pair is not to be trusted. Empty if nothing is impossible."""
        return next((case.reason for case in self.cases if case.verdict is Verdict.DISTRUST), "")

    @property
    def over_all(self) -> float:
        """Speed-up over all cases. 0 if it is not known."""
        found = self.group("all")
        return found.headline.ratio if found and found.headline else 0.0

    @property
    def by_kind(self) -> list[CaseResult]:
        """The cases, those of one kind beside each other, as every picture and table has them."""
        return sorted(self.cases, key=lambda case: not case.structured)

    @property
    def kinds(self) -> list[GroupResult]:
        """Structured and open-ended prompts; all of them if their kind is not known."""
        known = [found for name in ("structured", "open-ended") if (found := self.group(name))]
        return known or [found for found in (self.group("all"),) if found]

    def group(self, name: str) -> GroupResult | None:
        """The group called `name`, if any of its cases could be compared."""
        return next((group for group in self.groups if group.group == name), None)


class Chain(Frozen):
    """Several changes one after the other, told apart: total = product of the links."""

    variant: str
    root: str
    links: Many[Pair]
    total: Pair


class LoadResult(Frozen):
    """All arms and pairs at one load."""

    level: Level
    arms: Many[ArmCase]
    """For loads after the first: counts of failures, and only the headline metric."""
    pairs: Many[Pair]
    """For loads after the first: the headline of each case, without groups."""


TEXT_KEPT = 1000
"""Characters of a prompt that a report keeps."""


class PromptGain(Frozen):
    """Figures of one prompt: mean over its rounds."""

    id: str
    text: Annotated[str, Field(max_length=TEXT_KEPT)] = ""
    """Text of its first request, cut to TEXT_KEPT characters. Empty if the set is not at hand."""
    characters: Count = 0
    """Characters of the whole text."""
    speedup: float = Field(gt=0)
    """Speed-up on the headline metric. A single prompt has no interval."""
    acceptance_length: float | None = None
    """Tokens of a step that had drafts. None if the server does not say so for single requests."""


class CategoryAtLevel(Frozen):
    """A category at one load."""

    level: Level
    verdict: Verdict
    speedup: Estimate | None
    """Speed-up with its interval over the category's prompts."""
    acceptance_length: float | None = None
    accepted_per_position: Many[float] = ()
    """Acceptance at each position, given that all positions before it were accepted."""
    compared: Count = 0
    identical: Count = 0
    """Compared answers that are equal character for character."""


class Category(Frozen):
    """One kind of work."""

    case: str
    prompts: Count
    """Different prompts that both arms completed."""
    levels: Annotated[tuple[CategoryAtLevel, ...], Field(min_length=1)]
    """Results by load. All verdicts are about the first."""
    most: Many[PromptGain] = ()
    """Prompts that gained most at the first load, the largest gain first. They were picked after the measurement."""
    least: Many[PromptGain] = ()
    """Prompts that gained least, the smallest gain first."""


class Work(Frozen):
    """One arm against its baseline by kind of work."""

    variant: str
    baseline: str
    categories: Annotated[tuple[Category, ...], Field(min_length=1)]


class Action(StrEnum):
    """What a user is to do with an arm, by its verdict."""

    USE = "use"
    KEEP = "do not use"
    MEASURE = "measure more"
    DISTRUST = "do not trust"


class ArmFinding(Frozen):
    """What is known of one arm on a prompt type, or on a kind of them, at one load."""

    variant: str
    baseline: str
    group: GroupName | None
    case: str | None = None
    """A kind of prompts, or one prompt type: one of the two is None."""
    load: str
    """Name of the level."""
    action: Action
    verdict: Verdict
    speedup: Estimate | None
    """Over the kind's prompt types together, each of the same weight. None if there is no figure to trust."""
    why: str = ""
    """Why it is no surer. Empty if it is sure."""


class Decision(Frozen):
    """What to do after this run, at its first load."""

    action: Action
    variant: str | None
    """The arm that it is about, and the arm that it was compared with. None if nothing was compared."""
    baseline: str | None
    setting: str = ""
    """Settings that both are served with, of those in which the run's arms differ: `max_num_seqs=4`. The decision is
    about the setting at which an arm wrote most tokens a second."""
    serve: str | None
    """The arm to serve: to use, or to keep. None if the run does not tell, or is not to be trusted."""
    why: str
    findings: Many[ArmFinding] = ()
    """Of each compared arm on each kind of prompts (`all` among them; at loads after the first `all` alone), then of
    each chain's arm against its root, then on each prompt type."""
    distrusted: dict[str, str] = Field(default_factory=dict)
    """Arm -> why none of its figures is to be trusted. An arm that others are compared with is there for its own
    figures alone."""
    late: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Load -> arms whose load generator fell behind there."""

    def finding(self, variant: str, group: str = "all", load: str = "") -> ArmFinding | None:
        """What is known of an arm on a kind of prompts. `load`: its name; else the first."""
        found = (each for each in self.findings if (each.variant, each.group) == (variant, group))
        return next((each for each in found if load in ("", each.load)), None)

    def cases(self, variant: str, load: str) -> dict[str, ArmFinding]:
        """What is known of an arm at a load, by prompt type."""
        return {each.case: each for each in self.findings if each.case and (each.variant, each.load) == (variant, load)}
