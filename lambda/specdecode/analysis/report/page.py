"""What the forms of the report share of a comparison, and what its page shows beside the sections."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import yaml

from specdecode.analysis.report.drawn import Drawn
from specdecode.analysis.report.over_load import shown_curves
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import NONE, times
from specdecode.analysis.results.over_load import Curve
from specdecode.analysis.results.pairs import CaseResult, Estimate, MetricInfo, Pair, Verdict, Work
from specdecode.analysis.results.run_context import Served
from specdecode.analysis.texts.decide import about, decided
from specdecode.analysis.texts.recommend import doubts, headline, named
from specdecode.analysis.texts.setting import winner
from specdecode.analysis.texts.wording import first_sentence
from specdecode.experiment import endpoints
from specdecode.experiment.model import Sweep
from specdecode.experiment.variants import Variant

FEW_ARMS = 4
"""Up to this many arms are laid side by side; of more, the baseline and the best, and all of them in a table."""
MOST_DOUBTS = 3
"""Sentences of doubt on the first screen."""
MOST_ROWS = 24
"""Prompt types in the picture of the first screen."""
TICKS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
APART = 17.0
"""Least distance of two labelled ticks, in per cent of the axis' width."""
FAR = 20.0
"""The same on a narrow screen."""


class ReportView:
    """Facts that every form asks for."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.info: dict[str, MetricInfo] = {metric.name: metric for metric in comparison.metrics}
        self.cases: list[str] = [case.name for case in comparison.experiment.workload.cases]
        self.variants: dict[str, Variant] = {variant.name: variant for variant in comparison.experiment.variants}
        self.best: Pair | None = about(comparison)
        self.curves: list[Curve] = shown_curves(comparison)
        self.winner: Served | None = winner(comparison)
        self.headline: str = headline(comparison)

    @property
    def at_first_load(self) -> str:
        """The decision at the first load, if the headline is about all loads. Else empty."""
        said = first_sentence(self.comparison.recommendation or "")
        return "" if said in self.headline else said

    @property
    def best_named(self) -> str:
        """The arm that the answer is about; with its draft, if the headline does not name it."""
        name = self.best.variant if self.best else ""
        said = named(self.comparison, name) if self.best else ""
        return name if said in self.headline else said

    @property
    def doubts(self) -> list[str]:
        """What to know at once: the first sentences of the weightiest doubts."""
        return [first_sentence(doubt) for doubt in doubts(self.comparison)][:MOST_DOUBTS]

    @cached_property
    def pairs(self) -> list[Pair]:
        """Pairs that are shown in full: all if they are few, else the best one."""
        if self.is_sweep:
            return [self.best] if self.best else []
        return list(self.comparison.pairs)

    @property
    def is_sweep(self) -> bool:
        """More arms than fit side by side, an adaptive sweep, or one over serving settings. The page then shows the
        best arm and a matrix of all.
        """
        count = len(self.comparison.pairs)
        chosen = self.comparison.experiment.sweep is Sweep.ADAPTIVE or bool(decided(self.comparison).setting)
        return count >= FEW_ARMS or (count > 1 and chosen)

    @property
    def work(self) -> list[Work]:
        """Results by kind of work, of the pairs that are shown in full."""
        shown = {(pair.variant, pair.baseline) for pair in self.pairs}
        return [each for each in self.comparison.work if (each.variant, each.baseline) in shown]

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
        drafts = f"draft {spec.draft.id}, {spec.k_in_words}, {spec.method.value}" if spec else ""
        setting = self.comparison.experiment.setting_in_words(arm)
        return ", ".join(part for part in (target, arm.quantization, drafts, setting) if part)

    @cached_property
    def drawn(self) -> Drawn:
        """What the charts show."""
        compared = [name for pair in self.pairs for name in (pair.baseline, pair.variant)]
        shown = list(dict.fromkeys(compared or [arm.variant for arm in self.comparison.arms][:FEW_ARMS]))
        return Drawn(self.comparison, shown)

    @property
    def experiment_text(self) -> str:
        """The experiment as YAML, defaults left out."""
        document = endpoints.written(self.comparison.experiment.model_dump(mode="json", exclude_defaults=True))
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)

    @cached_property
    def rows(self) -> list[CaseResult]:
        """Prompt types of the first screen's picture."""
        return self.best.by_kind[:MOST_ROWS] if self.best else []

    @property
    def verdicts(self) -> list[Verdict]:
        """Verdicts that the picture shows, in their order."""
        shown = {case.verdict for case in self.rows}
        return [each for each in Verdict if each in shown]

    @cached_property
    def axis(self) -> Axis:
        """The axis of the picture."""
        return Axis(case.headline for case in self.rows if case.headline)

    def speedup(self, case: CaseResult) -> str:
        """The speed-up of a prompt type."""
        return times(case.headline.ratio) if case.headline else NONE


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
    def ticks(self) -> list[tuple[float, str, bool]]:
        """Positions and labels: always 1, then powers of two, then others if there is room; and whether a narrow screen
        has no room for it.
        """
        inside = [tick for tick in TICKS if self.low <= tick <= self.high]
        shown: list[float] = [1.0]
        for tick in sorted(inside, key=lambda tick: math.log2(tick) % 1 > 0):
            if all(abs(self.position(tick) - self.position(other)) >= APART for other in shown):
                shown.append(tick)
        at = {tick: self.position(tick) for tick in shown}
        kept = [
            other for other in shown if all(abs(at[other] - at[each]) >= FAR for each in shown[: shown.index(other)])
        ]
        return [(at[tick], f"{tick:g}×", tick not in kept) for tick in sorted(shown)]
