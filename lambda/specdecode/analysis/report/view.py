"""What the page shows, in the order and form in which it shows it."""

from __future__ import annotations

import re
from functools import cached_property
from typing import NamedTuple

import yaml

from specdecode.analysis.advice.sweep import speculative
from specdecode.analysis.report import curves, load_drawn, nodes, turns
from specdecode.analysis.report.axis import Axis
from specdecode.analysis.report.drawn import Drawn
from specdecode.analysis.report.load_drawn import LoadChart
from specdecode.analysis.report.numbers import NONE, Number, dollars, duration, interval, percent, ratio, times
from specdecode.analysis.report.tiles import CLASSES, COST_FORMULA, ENDPOINT_COST_FORMULA, MARKS, Tile, tiles
from specdecode.analysis.results.comparison import (
    HEADLINE,
    AccuracyChange,
    ArmCase,
    CaseResult,
    Comparison,
    GroupResult,
    MetricInfo,
    Pair,
)
from specdecode.analysis.results.context import Accuracy, Served
from specdecode.analysis.results.curve_result import Curve
from specdecode.analysis.results.work_result import Work
from specdecode.analysis.statistics.groups import figure as group_figure
from specdecode.analysis.texts.recommend import cost_over, over_load
from specdecode.analysis.texts.setting import Fact, setting, winner
from specdecode.analysis.texts.wording import best_pair, title
from specdecode.experiment import endpoints
from specdecode.experiment.model import EndpointVariant, ServedExperiment, Sweep, TestCase, Variant

FEW_ARMS = 4
"""Up to this many arms are laid side by side; of more, the baseline and the best, and all of them in the matrix."""


class Grid(NamedTuple):
    """Results over all cases by draft and number of speculative tokens."""

    ks: tuple[int, ...]
    rows: dict[str, dict[int, GroupResult]]


class CurveTable(NamedTuple):
    """A curve, what it says in words, its charts and its table."""

    curve: Curve
    sentence: str
    charts: list[LoadChart]
    headers: list[str]
    rows: list[list[str]]


class ReportView:
    """Derived facts of a comparison that the templates ask for."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.info: dict[str, MetricInfo] = {metric.name: metric for metric in comparison.metrics}
        self.cases: dict[str, TestCase] = {case.name: case for case in comparison.experiment.workload.cases}
        self.variants: dict[str, Variant] = {variant.name: variant for variant in comparison.experiment.variants}
        self.marks = MARKS
        self.classes = CLASSES

    turn_columns = turns.COLUMNS

    @cached_property
    def turns(self) -> list[tuple[str, ...]]:
        """Conversations by turn; empty where nothing was one."""
        return turns.rows(self.comparison)

    @property
    def nodes(self) -> tuple[list[str], list[list[str]]]:
        """Headers and rows of a run on several nodes."""
        return nodes.headers(self.comparison), nodes.rows(self.comparison)

    @property
    def about_turns(self) -> str:
        """Whose answers stand in them."""
        return turns.about(self.comparison)

    @cached_property
    def best(self) -> Pair | None:
        """The pair that the answer is about."""
        return best_pair(self.comparison.pairs) if self.comparison.pairs else None

    @cached_property
    def pairs(self) -> list[Pair]:
        """Pairs shown in full: all of a few, else the best one."""
        if self.is_sweep:
            return [self.best] if self.best else []
        return list(self.comparison.pairs)

    @property
    def is_sweep(self) -> bool:
        """More arms than fit side by side, or arms that answer one question: after the best one, a matrix of all."""
        count = len(self.comparison.pairs)
        return count >= FEW_ARMS or (count > 1 and self.comparison.experiment.sweep is Sweep.ADAPTIVE)

    def title(self, pair: Pair) -> str:
        """What a pair is about, told apart from the others."""
        return title(pair, among=self.comparison.pairs)

    def label(self, variant: str) -> str:
        """How an arm is called in the tables."""
        known = self.variants.get(variant)
        return known.label if known else variant

    def describe(self, variant: str) -> str:
        """What an arm is, in a few words."""
        arm = self.variants[variant]
        target = (arm.target or self.comparison.experiment.target).id
        spec = arm.speculation
        if isinstance(arm, EndpointVariant):
            known = f", draft {spec.draft.id}, {spec.k_in_words}" if spec else ""
            return f"{target} at {arm.endpoint}, which ran already{known}"
        if spec is None:
            return f"{target}, {arm.quantization}"
        return f"{target}, {arm.quantization}, draft {spec.draft.id}, {spec.k_in_words}, {spec.method.value}"

    def arm(self, pair: Pair, variant: str, case: str) -> ArmCase | None:
        """What an arm of a pair did in a case."""
        return self.comparison.beside(pair, variant, case)

    @cached_property
    def curves(self) -> list[CurveTable]:
        """The answer over the load; empty of a run of one load."""
        return [
            CurveTable(
                curve,
                curves.sentence(self.comparison, curve),
                load_drawn.charts(self.comparison.experiment, curve, self.label),
                curves.headers(curve),
                curves.rows(curve),
            )
            for curve in curves.shown(self.comparison)
        ]

    @property
    def work(self) -> list[Work]:
        """By kind of work: the pairs that are shown in full."""
        shown = {(pair.variant, pair.baseline) for pair in self.pairs}
        return [each for each in self.comparison.work if (each.variant, each.baseline) in shown]

    @cached_property
    def tiles(self) -> list[Tile]:
        """The few figures that the answer rests on."""
        return tiles(self.comparison, self.best, self.costs(self.best)) if self.best else []

    @cached_property
    def axis(self) -> Axis:
        """The axis of all speed-ups."""
        return Axis(case.headline for pair in self.comparison.pairs for case in pair.cases if case.headline)

    def costs(self, pair: Pair) -> tuple[float, float] | None:
        """Dollars per million output tokens over all compared cases: (baseline, arm)."""
        before, after = (cost_over(self.comparison, name, pair) for name in (pair.baseline, pair.variant))
        return (before, after) if before is not None and after is not None else None

    def headline_number(self, case: CaseResult) -> Number:
        """The speed-up of a case with its formula."""
        return ratio(case.headline, self.info[HEADLINE])._replace(
            text=times(case.headline.ratio) if case.headline else NONE
        )

    def headline_interval(self, case: CaseResult) -> str:
        """The interval of a case."""
        return interval(case.headline)

    def speedup(self, case: CaseResult, metric: str) -> Number:
        """A metric's speed-up in a case."""
        found = next((estimate for estimate in case.speedups if estimate.metric == metric), None)
        return ratio(found, self.info[metric]) if found else Number("", "")

    @cached_property
    def headline(self) -> str:
        """The answer; of several loads what it says of all of them."""
        comparison = self.comparison
        by_load = over_load(comparison.curve, comparison.pairs, comparison.objectives_compared)
        return by_load if by_load and comparison.answer.startswith(by_load) else comparison.answer

    @property
    def headline_parts(self) -> list[tuple[str, bool]]:
        """The headline, cut so that the intervals in it can be set in a lighter type."""
        return [(part, part.startswith("(")) for part in re.split(r"(\(95% CI [^)]*\))", self.headline) if part]

    @property
    def answer_rest(self) -> str:
        """What the answer says of the first load; empty of a run of one load."""
        return self.comparison.answer.removeprefix(self.headline).strip()

    def cases_by_kind(self, pair: Pair) -> list[tuple[str, GroupResult | None, list[CaseResult]]]:
        """Structured prompts first, then open-ended ones, each with the group's result."""
        kinds = (("structured", True), ("open-ended", False))
        found = [(name, pair.group(name), [c for c in pair.cases if c.structured is kind]) for name, kind in kinds]
        return [item for item in found if item[2]]

    def remarks(self, pair: Pair) -> dict[str, list[str]]:
        """Each remark with the cases that it holds for."""
        found: dict[str, list[str]] = {}
        for case in pair.cases:
            for note in case.notes:
                found.setdefault(note, []).append(case.case)
        return found

    def sample(self, case: CaseResult) -> str:
        """How much a case's interval rests on: `8 prompts`, `12 requests of one prompt`, `50 requests`."""
        if case.distinct_prompts == 1 and case.pairs > 1:
            return f"{case.pairs} requests of one prompt"
        unit = "prompt" if case.distinct_prompts else "request"
        return f"{case.pairs} {unit}{'s' if case.pairs != 1 else ''}"

    def by_case(self, pair: Pair) -> dict[str, CaseResult]:
        """A pair's results by case."""
        return {case.case: case for case in pair.cases}

    @cached_property
    def grid(self) -> Grid:
        """What was measured of a sweep, by draft and k."""
        of_one_k = {v.name: s for v in speculative(self.comparison.experiment) if (s := v.speculation)}
        points = [(s.draft.id, s.num_speculative_tokens) for s in of_one_k.values()]
        rows: dict[str, dict[int, GroupResult]] = {draft: {} for draft, _ in points}
        for pair in self.comparison.pairs:
            speculation, total = of_one_k.get(pair.variant), pair.group("all")
            if speculation and total and pair.changes == ("speculation",):
                rows[speculation.draft.id][speculation.num_speculative_tokens] = total
        return Grid(ks=tuple(sorted({k for _, k in points})), rows=rows)

    def accuracy_change(self, score: Accuracy) -> AccuracyChange | None:
        """How a score differs from the baseline's."""
        for change in self.comparison.accuracy:
            if (change.variant, change.task, change.metric) == (score.variant, score.task, score.metric):
                return change
        return None

    @property
    def setting(self) -> tuple[Fact, ...]:
        """Model, arms, engine, node, load and certainty."""
        return setting(self.comparison)

    @property
    def winner(self) -> Served | None:
        """How the recommended arm was served."""
        return winner(self.comparison)

    @property
    def dated(self) -> bool:
        """Whether it is known when this was measured."""
        return self.comparison.context.started_at.timestamp() > 0

    @cached_property
    def drawn(self) -> Drawn:
        """What the charts show."""
        shown = list(dict.fromkeys(name for pair in self.pairs for name in (pair.baseline, pair.variant)))
        return Drawn(self.comparison, shown)

    @property
    def experiment_text(self) -> str:
        """The experiment as YAML, defaults left out."""
        document = endpoints.written(self.comparison.experiment.model_dump(mode="json", exclude_defaults=True))
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)

    @property
    def served(self) -> ServedExperiment | None:
        """The experiment, if its arms were served for it."""
        experiment = self.comparison.experiment
        return experiment if isinstance(experiment, ServedExperiment) else None

    @property
    def cost_formula(self) -> str:
        """How dollars per million output tokens are computed."""
        return COST_FORMULA if self.served else ENDPOINT_COST_FORMULA

    @property
    def has_costs(self) -> bool:
        """Whether any arm has dollars per million output tokens."""
        return any(arm.cost_per_million is not None for arm in self.comparison.arms)

    @property
    def cost_sentence(self) -> str:
        """What the run cost and how much of that was measurement."""
        cost = self.comparison.cost
        if cost is None:
            asked = [v for v in self.variants.values() if isinstance(v, EndpointVariant)]
            shown = ", ".join(f"{v.name} {dollars(v.price_per_hour)}" for v in asked if v.price_per_hour is not None)
            return f"What the servers cost per hour, as the experiment says: {shown}."
        price = f"A node costs {dollars(cost.price_per_node_hour)} per hour."
        if cost.total is None or cost.node_hours is None:
            return price
        share = f", {percent(cost.utilization)} of the time paid for" if cost.utilization is not None else ""
        return (
            f"{price} This run held one for {duration(cost.node_hours * 3600)}: {dollars(cost.total)}. "
            f"Measurement took {duration(cost.measured_seconds)}{share}; the rest is compiling, loading and waiting."
        )

    def group_speedup(self, group: GroupResult | None) -> Number:
        """A group's speed-up, how far it reaches, and its formula."""
        found = ratio(group.headline if group else None, self.info[HEADLINE])
        return found._replace(text=group_figure(group)) if group and group.headline else found
