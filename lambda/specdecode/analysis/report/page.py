"""Facts for the templates of the page, derived from a comparison."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import yaml

from specdecode.analysis.advice.sweep import speculative
from specdecode.analysis.report.drawn import Drawn
from specdecode.analysis.report.over_load import shown_curves
from specdecode.analysis.report.tables import ReportTable, turn_table
from specdecode.analysis.results.comparison import AccuracyChange, Comparison
from specdecode.analysis.results.numbers import NONE, Number, ratio, times
from specdecode.analysis.results.over_load import Curve
from specdecode.analysis.results.pairs import HEADLINE, CaseResult, Estimate, GroupResult, MetricInfo, Pair, Work
from specdecode.analysis.results.run_context import Accuracy, Served
from specdecode.analysis.statistics.groups import figure as group_figure
from specdecode.analysis.texts.decide import about
from specdecode.analysis.texts.recommend import over_load
from specdecode.analysis.texts.setting import winner
from specdecode.analysis.texts.wording import title
from specdecode.experiment import endpoints
from specdecode.experiment.model import Sweep
from specdecode.experiment.variants import Variant
from specdecode.experiment.workload import TestCase

FEW_ARMS = 4
"""Up to this many arms are laid side by side; of more, the baseline and the best, and all of them in the matrix."""
TICKS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
APART = 12.0
"""Least distance of two labelled ticks, in per cent of the axis' width."""


class ReportView:
    """Facts that the templates ask for."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.info: dict[str, MetricInfo] = {metric.name: metric for metric in comparison.metrics}
        self.cases: dict[str, TestCase] = {case.name: case for case in comparison.experiment.workload.cases}
        self.variants: dict[str, Variant] = {variant.name: variant for variant in comparison.experiment.variants}
        self.best: Pair | None = about(comparison)
        self.curves: list[Curve] = shown_curves(comparison)
        self.turns: ReportTable | None = turn_table(comparison)
        self.winner: Served | None = winner(comparison)

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

    @property
    def work(self) -> list[Work]:
        """Results by kind of work, of the pairs that are shown in full."""
        shown = {(pair.variant, pair.baseline) for pair in self.pairs}
        return [each for each in self.comparison.work if (each.variant, each.baseline) in shown]

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
        drafts = f", draft {spec.draft.id}, {spec.k_in_words}, {spec.method.value}" if spec else ""
        return f"{target}{f', {arm.quantization}' if arm.quantization else ''}{drafts}"

    @cached_property
    def drawn(self) -> Drawn:
        """What the charts show."""
        compared = [name for pair in self.pairs for name in (pair.baseline, pair.variant)]
        shown = list(dict.fromkeys(compared or [arm.variant for arm in self.comparison.arms][:FEW_ARMS]))
        return Drawn(self.comparison, shown)

    @cached_property
    def axis(self) -> Axis:
        """The axis of all speed-ups."""
        return Axis(case.headline for pair in self.comparison.pairs for case in pair.cases if case.headline)

    def headline_number(self, case: CaseResult) -> Number:
        """The speed-up of a case with its formula."""
        found = ratio(case.headline, self.info[HEADLINE])
        return found._replace(text=times(case.headline.ratio) if case.headline else NONE)

    def speedup(self, case: CaseResult, metric: str) -> Number:
        """A metric's speed-up in a case."""
        found = next((estimate for estimate in case.speedups if estimate.metric == metric), None)
        return ratio(found, self.info[metric]) if found else Number("", "")

    def group_speedup(self, group: GroupResult | None) -> Number:
        """A group's speed-up with its interval, and its formula."""
        found = ratio(group.headline if group else None, self.info[HEADLINE])
        return found._replace(text=group_figure(group)) if group and group.headline else found

    @cached_property
    def headline(self) -> str:
        """The answer. If there are several loads: its part about all of them."""
        comparison = self.comparison
        by_load = over_load(comparison)
        return by_load if by_load and comparison.answer.startswith(by_load) else comparison.answer

    @property
    def headline_parts(self) -> list[tuple[str, bool]]:
        """The headline, cut so that the intervals in it can be set in a lighter type."""
        return [(part, part.startswith("(")) for part in re.split(r"(\(95% CI [^)]*\))", self.headline) if part]

    @property
    def answer_rest(self) -> str:
        """The answer's part about the first load. Empty for a run of one load."""
        return self.comparison.answer.removeprefix(self.headline).strip()

    def accuracy_change(self, score: Accuracy) -> AccuracyChange | None:
        """Change of a score from the baseline's. None if there is none."""
        for change in self.comparison.accuracy:
            if (change.variant, change.task, change.metric) == (score.variant, score.task, score.metric):
                return change
        return None

    @property
    def experiment_text(self) -> str:
        """The experiment as YAML, defaults left out."""
        document = endpoints.written(self.comparison.experiment.model_dump(mode="json", exclude_defaults=True))
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)

    @cached_property
    def grid(self) -> Grid:
        """Results of a sweep: arms that differ from their baseline by speculation alone, and draft one number of tokens
        at every load.
        """
        of_one_k = {v.name: s for v in speculative(self.comparison.experiment) if (s := v.speculation)}
        points = [(s.draft.id, s.num_speculative_tokens) for s in of_one_k.values()]
        rows: dict[str, dict[int, GroupResult]] = {draft: {} for draft, _ in points}
        for pair in self.comparison.pairs:
            speculation, total = of_one_k.get(pair.variant), pair.group("all")
            if speculation and total and pair.changes == ("speculation",):
                rows[speculation.draft.id][speculation.num_speculative_tokens] = total
        return Grid(ks=tuple(sorted({k for _, k in points})), rows=rows)


class Grid(NamedTuple):
    """Table of a sweep, over all cases."""

    ks: tuple[int, ...]
    """Numbers of speculative tokens, the smallest first: the columns."""
    rows: dict[str, dict[int, GroupResult]]
    """Draft -> k -> result; no entry for a k that was not measured."""


class Bar(NamedTuple):
    """An interval on the axis, in per cent of its width."""

    at: float
    low: float | None
    high: float | None


class Axis:
    """The logarithmic axis on which every speed-up interval lies. It covers all of them, and at least 0.75 to 1.5."""

    def __init__(self, estimates: Iterable[Estimate]) -> None:
        ends = [0.75, 1.5]
        for found in estimates:
            ends += [value for value in (found.ratio, found.low, found.high) if value is not None]
        self.low = max(0.05, min(ends) * 0.95)
        self.high = min(50.0, max(ends) * 1.06)

    def position(self, value: float) -> float:
        """Per cent of the axis' width."""
        if value <= self.low:
            return 0.0
        return 100.0 * min(1.0, max(0.0, math.log(value / self.low) / math.log(self.high / self.low)))

    def bar(self, found: Estimate) -> Bar:
        """Where an interval lies."""
        low, high = (None if end is None else self.position(end) for end in (found.low, found.high))
        return Bar(self.position(found.ratio), low, high)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Positions and labels: always 1, then powers of two, then others if there is room."""
        inside = [tick for tick in TICKS if self.low <= tick <= self.high]
        shown: list[float] = [1.0]
        for tick in sorted(inside, key=lambda tick: math.log2(tick) % 1 > 0):
            if all(abs(self.position(tick) - self.position(other)) >= APART for other in shown):
                shown.append(tick)
        return [(self.position(tick), f"{tick:g}×") for tick in sorted(shown)]


def cases_by_kind(pair: Pair) -> list[tuple[str, GroupResult | None, list[CaseResult]]]:
    """Structured prompts first, then open-ended ones, each with the group's result."""
    kinds = (("structured", True), ("open-ended", False), ("all", None))
    found = [(name, pair.group(name), [c for c in pair.cases if c.structured is kind]) for name, kind in kinds]
    return [item for item in found if item[2]]


def remarks(pair: Pair) -> dict[str, list[str]]:
    """Each remark with the cases that it holds for."""
    found: dict[str, list[str]] = {}
    for case in pair.cases:
        for note in case.notes:
            found.setdefault(note, []).append(case.case)
    return found


def sample(case: CaseResult) -> str:
    """How much a case's interval rests on: `8 prompts`, `12 requests of one prompt`, `50 requests`."""
    if case.distinct_prompts == 1 and case.pairs > 1:
        return f"{case.pairs} requests of one prompt"
    unit = "prompt" if case.distinct_prompts else "request"
    return f"{case.pairs} {unit}{'s' if case.pairs != 1 else ''}"
