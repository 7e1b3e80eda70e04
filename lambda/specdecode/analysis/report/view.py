"""Facts for the templates of the page, derived from a comparison."""

from __future__ import annotations

import re
from functools import cached_property

import yaml

from specdecode.analysis.report import case_rows, nodes, turns
from specdecode.analysis.report.axis import Axis
from specdecode.analysis.report.costs import cost_formula, cost_sentence, costs
from specdecode.analysis.report.curve_tables import CurveTable, Grid, curve_tables, grid
from specdecode.analysis.report.drawn import Drawn
from specdecode.analysis.report.numbers import NONE, Number, interval, ratio, times
from specdecode.analysis.report.tiles import CLASSES, MARKS, Tile, tiles
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
from specdecode.analysis.results.work_result import Work
from specdecode.analysis.statistics.groups import figure as group_figure
from specdecode.analysis.texts.recommend import over_load
from specdecode.analysis.texts.setting import Fact, setting, winner
from specdecode.analysis.texts.wording import best_pair, title
from specdecode.experiment import endpoints
from specdecode.experiment.model import Sweep, TestCase, Variant

FEW_ARMS = 4
"""Up to this many arms are laid side by side; of more, the baseline and the best, and all of them in the matrix."""


class ReportView:
    """Facts that the templates ask for."""

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
        """Conversations by turn. Empty if there are none."""
        return turns.rows(self.comparison)

    @property
    def nodes(self) -> tuple[list[str], list[list[str]]]:
        """Headers and rows of a run on several nodes."""
        return nodes.headers(self.comparison), nodes.rows(self.comparison)

    @property
    def about_turns(self) -> str:
        """Note on the answers in the conversations."""
        return turns.about(self.comparison)

    @cached_property
    def best(self) -> Pair | None:
        """The pair that the answer is about."""
        return best_pair(self.comparison.pairs) if self.comparison.pairs else None

    @cached_property
    def pairs(self) -> list[Pair]:
        """Pairs that are shown in full: all if they are few, else the best one."""
        if self.is_sweep:
            return [self.best] if self.best else []
        return list(self.comparison.pairs)

    @property
    def is_sweep(self) -> bool:
        """More arms than fit side by side, or an adaptive sweep. The page then shows the best arm
        and a matrix of all.
        """
        count = len(self.comparison.pairs)
        return count >= FEW_ARMS or (count > 1 and self.comparison.experiment.sweep is Sweep.ADAPTIVE)

    def title(self, pair: Pair) -> str:
        """Subject of a pair, distinct from the other pairs'."""
        return title(pair, among=self.comparison.pairs)

    def label(self, variant: str) -> str:
        """Name of an arm in the tables."""
        known = self.variants.get(variant)
        return known.label if known else variant

    def describe(self, variant: str) -> str:
        """An arm in a few words."""
        arm = self.variants[variant]
        target = (arm.target or self.comparison.experiment.target).id
        spec = arm.speculation
        if arm.address:
            known = f", draft {spec.draft.id}, {spec.k_in_words}" if spec else ""
            return f"{target} at {arm.address}, which ran already{known}"
        if spec is None:
            return f"{target}, {arm.quantization}"
        return f"{target}, {arm.quantization}, draft {spec.draft.id}, {spec.k_in_words}, {spec.method.value}"

    def arm(self, pair: Pair, variant: str, case: str) -> ArmCase | None:
        """Figures of an arm of a pair in a case."""
        return self.comparison.beside(pair, variant, case)

    @cached_property
    def curves(self) -> list[CurveTable]:
        """The answer over the load. Empty for a run of one load."""
        return curve_tables(self.comparison, self.label)

    @property
    def work(self) -> list[Work]:
        """Results by kind of work, of the pairs that are shown in full."""
        shown = {(pair.variant, pair.baseline) for pair in self.pairs}
        return [each for each in self.comparison.work if (each.variant, each.baseline) in shown]

    @cached_property
    def tiles(self) -> list[Tile]:
        """The few figures of the first screen."""
        return tiles(self.comparison, self.best, self.costs(self.best)) if self.best else []

    @cached_property
    def axis(self) -> Axis:
        """The axis of all speed-ups."""
        return Axis(case.headline for pair in self.comparison.pairs for case in pair.cases if case.headline)

    def costs(self, pair: Pair) -> tuple[float, float] | None:
        """Dollars per million output tokens over all compared cases: (baseline, arm)."""
        return costs(self.comparison, pair)

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
        """The answer. If there are several loads: its part about all of them."""
        comparison = self.comparison
        by_load = over_load(comparison.curve, comparison.pairs, comparison.objectives_compared)
        return by_load if by_load and comparison.answer.startswith(by_load) else comparison.answer

    @property
    def headline_parts(self) -> list[tuple[str, bool]]:
        """The headline, cut so that the intervals in it can be set in a lighter type."""
        return [(part, part.startswith("(")) for part in re.split(r"(\(95% CI [^)]*\))", self.headline) if part]

    @property
    def answer_rest(self) -> str:
        """The answer's part about the first load. Empty for a run of one load."""
        return self.comparison.answer.removeprefix(self.headline).strip()

    cases_by_kind = staticmethod(case_rows.cases_by_kind)
    remarks = staticmethod(case_rows.remarks)
    sample = staticmethod(case_rows.sample)

    def by_case(self, pair: Pair) -> dict[str, CaseResult]:
        """A pair's results by case."""
        return {case.case: case for case in pair.cases}

    @cached_property
    def grid(self) -> Grid:
        """Results of a sweep by draft and k."""
        return grid(self.comparison)

    def accuracy_change(self, score: Accuracy) -> AccuracyChange | None:
        """Change of a score from the baseline's. None if there is none."""
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
        """Whether the time of the measurement is known."""
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
    def cost_formula(self) -> str:
        """How dollars per million output tokens are computed."""
        return cost_formula(self.comparison)

    @property
    def has_costs(self) -> bool:
        """Whether any arm has dollars per million output tokens."""
        return any(arm.cost_per_million is not None for arm in self.comparison.arms)

    @property
    def cost_sentence(self) -> str:
        """Cost of the run, and how much of it paid for measurement."""
        return cost_sentence(self.comparison)

    def group_speedup(self, group: GroupResult | None) -> Number:
        """A group's speed-up with its interval, and its formula."""
        found = ratio(group.headline if group else None, self.info[HEADLINE])
        return found._replace(text=group_figure(group)) if group and group.headline else found
