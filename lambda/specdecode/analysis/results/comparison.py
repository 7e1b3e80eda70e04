"""The comparison: everything a report shows, as data. Its JSON schema is assets/schemas/comparison.schema.json."""

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, ValidationError, model_validator

from specdecode.analysis.results.over_load import Curve, Objective, Schedule
from specdecode.analysis.results.pairs import HEADLINE, Chain, Decision, GroupName, LoadResult, MetricInfo, Pair, Work
from specdecode.analysis.results.run_context import RunContext, RunId
from specdecode.escape import plain_json
from specdecode.experiment.base import Frozen, Many
from specdecode.experiment.model import MeasuredExperiment
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.workload import Level
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.course import Spans, Stretch, brackets, spans
from specdecode.untrusted import Unreadable, in_words, parse_json

SCHEMA_VERSION: Literal[3] = 3

_NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"
RawFile = Annotated[str, StringConstraints(pattern=rf"^raw/{_NAME}/{_NAME}(@[0-9]+\.jsonl)?$")]
"""Path of a file with raw records below a run's folder; the report links to it."""


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
    """Interval of the change, from both scores' standard errors. Those of an arm hold together with 95%."""
    shown: bool
    """The interval excludes 0."""
    higher_is_better: bool = True

    @property
    def worse(self) -> bool:
        """The arm is shown to answer worse."""
        return self.shown and (self.change < 0) is self.higher_is_better


class Drift(Frozen):
    """Change of one arm between two measurements that should be equal."""

    variant: str
    cause: Literal["time", "time and device group"]
    first: str
    second: str
    ratio: float
    """Headline metric, second / first."""
    low: float | None
    high: float | None
    shown: bool
    """The interval excludes 1."""


class Point(Frozen):
    """Believed speed-up of decoding at one number of speculative tokens, with one-sided 95% bounds."""

    k: int
    speedup: float
    low: float
    high: float


class MeasuredK(Frozen):
    """Measured speed-up of decoding at one k."""

    variant: str
    k: int
    speedup: float
    low: float | None
    high: float | None


class Theory(Frozen):
    """The advisor's calibrated model of one draft on a set of cases."""

    draft: str
    most_tokens_per_step: MostTokens = MostTokens.K_PLUS_1
    """Most tokens that a step of the engine yields with k."""
    group: GroupName
    acceptance: float
    """a: chance that a draft token is accepted, given that those before it were."""
    draft_cost: float
    """c: cost of one draft token, in base steps."""
    overhead: float
    """v: time that verification adds to a base step, in base steps."""
    points: Many[Point]
    measured: Many[MeasuredK]


class RunCost(Frozen):
    """Cost of the run, and the share of the paid time that was measurement."""

    price_per_node_hour: float
    node_hours: float | None
    total: float | None
    measured_seconds: float
    """Length of the union of all measured requests, both arms."""
    utilization: float | None
    """measured_seconds / node_seconds."""
    output_tokens: int


class Comparison(Frozen):
    """A run's answer, with everything that it rests on."""

    schema_version: Literal[3] = SCHEMA_VERSION
    run_id: RunId
    title: str
    answer: str
    """The verdict in one sentence."""
    experiment: MeasuredExperiment
    context: RunContext
    metrics: Many[MetricInfo]
    arms: Many[ArmCase]
    timeline: Many[Stretch] = ()
    """Stretches of load in the order of time."""
    pairs: Many[Pair]
    loads: Many[LoadResult] = ()
    """Results at the loads after the first. All other fields here are about the first load, unless they say otherwise.
    Empty for a run of one load."""
    chains: Many[Chain]
    drift: Many[Drift]
    accuracy: Many[AccuracyChange] = ()
    theory: Many[Theory]
    curve: Many[Curve] = ()
    """Each pair and group of cases over the load; then each chain's arm against its root. Empty for one load."""
    objective: Many[Objective] = ()
    """Load that each arm carries within the service-level objective. Empty if the experiment has no objective."""
    schedule: Many[Schedule] = ()
    """Best k for each batch size, for each draft. Empty for a run of one load."""
    work: Many[Work] = ()
    """Each pair by kind of work. Empty if no set of prompts was measured."""
    decision: Decision | None = None
    """What the run shows, and what to do; all sentences say the same. None while it is made."""
    recommendation: str | None = None
    """Which arm to use, why, and at which cost. None if nothing was compared."""
    advice: str | None = None
    """What to try next, in the advisor's words (`specdecode advise` says the same). None if no arm speculates."""
    cost: RunCost | None
    notes: Many[str]
    files: Many[RawFile] = Field(default=())
    """Raw files below context.raw_prefix."""

    def arm(self, variant: str, case: str) -> ArmCase | None:
        """Figures of `variant` in `case` at the first load. None if it was not measured."""
        return self._arms_by_name.get((variant, case))

    def cost_over(self, variant: str, pair: Pair, *cases: str) -> float | None:
        """Dollars per million output tokens of an arm: over `cases`, else all of `pair`, weighted by tokens; in the
        rounds that the arms of `pair` have too, so that the figures can be compared. None if a case has no cost, or the
        arms cannot be compared in all of them, or are not to be trusted: their tokens may be wrong.
        """
        asked = [each for each in pair.cases if not cases or each.case in cases]
        if pair.distrusted or not all(each.comparable for each in asked):
            return None
        beside = {variant, pair.variant, pair.baseline}
        found = [self._spent(variant, each.case, beside) for each in asked]
        known = [each for each in found if each]
        if not known or len(known) < len(found):
            return None
        return sum(each[0] for each in known) / sum(each[1] for each in known)

    def _spent(self, variant: str, case: str, beside: Iterable[str]) -> tuple[float, int] | None:
        """Millionths of a dollar and output tokens of an arm, in the rounds that it shares with all arms `beside`;
        in its own if it was measured before and after them.
        """
        arm = self.arm(variant, case)
        if arm is None or arm.cost_per_million is None or not arm.load_seconds:
            return None
        rounds = {name: {each.round for each in self._stretches(name, case)} for name in (variant, *beside)}
        shared = set.intersection(*rounds.values())
        around = all(brackets(self._sent(variant), self._sent(name)) for name in rounds.keys() - {variant})
        if shared == rounds[variant] or around:
            return (arm.cost_per_million * arm.output_tokens, arm.output_tokens) if arm.output_tokens else None
        own = [each for each in self._stretches(variant, case) if each.round in shared]
        tokens, share = sum(each.output_tokens for each in own), sum(each.seconds for each in own) / arm.load_seconds
        return (arm.cost_per_million * arm.output_tokens * share, tokens) if tokens else None

    def _sent(self, variant: str) -> Spans:
        parts = (each for each in self.timeline if each.variant == variant)
        return spans((each.round, each.began + sent.at_s) for each in parts for sent in each.shown)

    def _stretches(self, variant: str, case: str) -> list[Stretch]:
        return [each for each in self.timeline if (each.variant, each.case) == (variant, case)]

    def costs(self, pair: Pair) -> tuple[float, float] | None:
        """Both costs over all cases of a pair: (baseline, arm). None if one is not known, or is 0: a server that costs
        nothing has no cost to compare.
        """
        before, after = (self.cost_over(name, pair) for name in (pair.baseline, pair.variant))
        return (before, after) if before and after else None

    def at(self, level: Level) -> LoadResult | None:
        """Results at one load. None if an earlier version wrote the report: it kept only the first load."""
        if level == self.experiment.workload.levels[0]:
            return LoadResult(level=level, arms=self.arms, pairs=self.pairs)
        return next((each for each in self.loads if each.level == level), None)

    @cached_property
    def _arms_by_name(self) -> dict[tuple[str, str], ArmCase]:
        return {(arm.variant, arm.case): arm for arm in self.arms}

    def json_document(self) -> str:
        """The comparison as report.json holds it."""
        return plain_json(self.model_dump_json(indent=1)) + "\n"

    @model_validator(mode="after")
    def _refers_to_what_it_has(self) -> Self:
        """Refuse a report that names arms, cases or metrics that it lacks: report.json may come from anybody."""
        variants = {variant.name for variant in self.experiment.variants}
        cases = {case.name for case in self.experiment.workload.cases}
        measured = {(arm.variant, arm.case) for arm in self.arms}
        pairs = [*self.pairs, *(pair for chain in self.chains for pair in (*chain.links, chain.total))]
        at_loads = [(arm.variant, arm.case) for load in self.loads for arm in load.arms]
        at_loads += _places(pair for load in self.loads for pair in load.pairs)
        shown = [found for pair in pairs for case in pair.cases for found in case.speedups]
        shown += [found for pair in pairs for group in pair.groups for found in group.speedups]
        used = {metric for arm in self.arms for metric in (*arm.metrics, *arm.totals)}
        named = {case for curve in self.curve for case in curve.cases}
        named |= {category.case for each in self.work for category in each.categories}
        curved = {(each.variant, each.baseline) for each in self.curve}
        worked = {(each.variant, each.baseline) for each in self.work}
        checks: tuple[tuple[str, set[Any], set[Any]], ...] = (
            ("load", {load.level for load in self.loads}, set(self.experiment.workload.levels)),
            ("arm", {name for name, _ in (*measured, *at_loads)} | {each.variant for each in self.objective}, variants),
            ("case", named | {case for _, case in (*measured, *at_loads)}, cases),
            ("load of", {(stretch.variant, stretch.case) for stretch in self.timeline}, measured),
            ("result of", set(_places(pairs)), measured),
            ("metric", {HEADLINE, *used, *(found.metric for found in shown)}, {each.name for each in self.metrics}),
            ("pair of", curved | worked, {(pair.variant, pair.baseline) for pair in pairs}),
        )
        lacking = [
            f"{what} {' and '.join(each) if isinstance(each, tuple) else each}"
            for what, names, known in checks
            for each in sorted(names - known, key=str)
        ]
        if lacking:
            raise ValueError(f"it names what it does not have: {', '.join(lacking[:5])}")
        return self


def _places(pairs: Iterable[Pair]) -> list[tuple[str, str]]:
    """Arm and case of all that pairs compare."""
    return [(name, case.case) for pair in pairs for case in pair.cases for name in (pair.variant, pair.baseline)]


class OtherVersion(Unreadable):
    """A report.json that another version wrote, whose fields mean something else here."""


def read_report(data: bytes) -> Comparison:
    """The comparison in a report.json, without the fields that this version does not know. Raises Unreadable, with the
    first field that is wrong, and OtherVersion.

    The document is parsed first: `model_validate_json` keeps a copy of it for each field that it lacks, and 2 KiB for
    each that is unknown (pydantic 2.13).
    """
    document = parse_json(data, finite=True)
    version = document.get("schema_version", SCHEMA_VERSION) if isinstance(document, dict) else SCHEMA_VERSION
    if isinstance(version, int) and version != SCHEMA_VERSION:
        raise OtherVersion(
            f"a report of another version (form {version}, this one reads {SCHEMA_VERSION}); it can be made anew from "
            "the run's folder with its raw/: `specdecode report FOLDER`"
        )
    try:
        return Comparison.model_validate(document, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "document"
        raise Unreadable(f"no report: {place} {in_words(first)}") from None
