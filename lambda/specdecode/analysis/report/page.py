"""What the forms of the report share of a comparison, and what its page shows beside the sections."""

from collections.abc import Callable
from functools import cached_property
from itertools import cycle
from typing import Any

import yaml

from specdecode.analysis.report.over_load import curve_data, shown_curves
from specdecode.analysis.report.swept import Pictures
from specdecode.analysis.report.tiles import Axis
from specdecode.analysis.results.comparison import Comparison, Theory
from specdecode.analysis.results.numbers import digits, duration, figure, percent
from specdecode.analysis.results.over_load import Curve
from specdecode.analysis.results.pairs import CaseResult, MetricInfo, Pair, Verdict, Work
from specdecode.analysis.results.run_context import Served
from specdecode.analysis.texts.decide import about, decided
from specdecode.analysis.texts.recommend import doubts, headline, named
from specdecode.analysis.texts.setting import winner
from specdecode.analysis.texts.wording import first_sentence
from specdecode.escape import line
from specdecode.experiment import endpoints
from specdecode.experiment.model import Sweep
from specdecode.experiment.variants import Variant
from specdecode.measures.arm_case import SAMPLES, ArmCase

FEW_ARMS = 4
"""Up to this many arms are laid side by side; of more, the baseline and the best, and all of them in a table."""
MOST_DOUBTS = 3
"""Sentences of doubt on the first screen."""
MOST_ROWS = 24
"""Prompt types in the picture of the first screen."""
DISTRIBUTIONS = ("ttft", "time_per_output_token", "end_to_end_latency")
"""Metrics whose distribution over requests is drawn."""
PALETTE = ("var(--arm)", "var(--c2)", "var(--c3)", "var(--c4)")
"""Colours of arms, from the page's style: they follow light, dark and print."""


class ReportView:
    """What the forms ask for; the charts' data, and the same in words for who hears the page or uses the keyboard."""

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
        known = self.variants.get(variant)
        return known.label if known else variant

    def describe(self, variant: str) -> str:
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
    def shown(self) -> list[str]:
        """Arms that are drawn case by case, a baseline first."""
        compared = [name for pair in self.pairs for name in (pair.baseline, pair.variant)]
        return list(dict.fromkeys(compared or [arm.variant for arm in self.comparison.arms][:FEW_ARMS]))

    @cached_property
    def colours(self) -> dict[str, str]:
        others = cycle(PALETTE)
        names = dict.fromkeys([*self.shown, *self.variants])
        return {name: "var(--base)" if self.variants[name].compare_to is None else next(others) for name in names}

    @cached_property
    def pictures(self) -> Pictures:
        """Lines over what was swept, and over the run."""
        return Pictures(self.comparison, self.colours.__getitem__, PALETTE)

    @property
    def data(self) -> dict[str, Any]:
        """Data for the charts' script. Names are plain text."""
        comparison = self.comparison
        return {
            "arms": [
                {"name": name, "label": line(self.label(name)), "base": colour == "var(--base)", "colour": colour}
                for name, colour in self.colours.items()
            ],
            "cases": [{"case": line(case), "arms": [_arm(arm) for arm in self._arms(case)]} for case in self.cases],
            "curves": [curve_data(comparison.experiment, curve) for curve in self.curves],
            "swept": self.pictures.data,
            "theory": [_theory(theory) for theory in comparison.theory],
            "timeline": [
                {
                    "arm": each.variant,
                    "case": line(each.case),
                    "part": [each.round, each.session],
                    "began": each.began,
                    "sent": [[item.at_s, item.took_s, item.failed or ""] for item in each.shown],
                }
                for each in comparison.timeline
            ],
        }

    @property
    def sampled(self) -> str:
        """A sentence if the charts have fewer points than there were requests, else empty."""
        most = max((arm.completed for arm in self.comparison.arms), default=0)
        return f"Of more than {SAMPLES} requests, {SAMPLES} quantiles are drawn." if most > SAMPLES else ""

    @property
    def distributions(self) -> list[tuple[int, str, list[tuple[MetricInfo, str]]]]:
        """Number and name of each case of which single requests are known; each metric, and its chart in words."""
        return [
            (
                number,
                case,
                [(info, self._distribution(case, info)) for info in map(self.info.__getitem__, DISTRIBUTIONS)],
            )
            for number, case in enumerate(self.cases)
            if any(arm.samples for arm in self._arms(case))
        ]

    def _distribution(self, case: str, info: MetricInfo) -> str:
        """`Time to first token: Base, half of 8 requests within 9.1 ms, 90% within 9.9 ms; SD, …`."""
        parts = [
            f"{self.label(arm.variant)}, half of {found.n} requests within {figure(found.p50, info).text}, "
            f"90% within {figure(found.p90, info).text}"
            for arm in self._arms(case)
            if (found := arm.metrics.get(info.name))
        ]
        return f"{info.label}: {'; '.join(parts) or 'no values'}"

    @property
    def steps(self) -> list[tuple[int, str, str]]:
        """Number and name of each case in which an arm yields several tokens a step; its chart in words: `SD, 1 in
        8.0%, 6 in 92%`.
        """

        def said(arm: ArmCase) -> list[str]:
            several = any(at.tokens > 1 for at in arm.steps)
            return [f"{at.tokens} in {percent(at.share)}" for at in arm.steps if several]

        return self._in_words(said)

    @property
    def positions(self) -> list[tuple[int, str, str]]:
        """The same of acceptance by position, from the engine's counters: `SD, position 1 98%, position 2 97%`."""
        return self._in_words(
            lambda arm: [f"position {n} {percent(rate)}" for n, rate in enumerate(arm.accepted_per_position, start=1)]
        )

    def _in_words(self, said: Callable[[ArmCase], list[str]]) -> list[tuple[int, str, str]]:
        found = []
        for number, case in enumerate(self.cases):
            told = [", ".join([self.label(arm.variant), *own]) for arm in self._arms(case) if (own := said(arm))]
            found += [(number, case, "; ".join(told))] if told else []
        return found

    @property
    def thinned(self) -> bool:
        """Whether some requests are left out of the timeline's chart."""
        return any(len(each.shown) < each.requests for each in self.comparison.timeline)

    @property
    def timeline(self) -> str:
        """Length, requests and failures of the whole run."""
        stretches = self.comparison.timeline
        length = max(each.began + each.seconds for each in stretches) - stretches[0].began
        requests, failed = sum(each.requests for each in stretches), sum(each.failed for each in stretches)
        parts = len({(each.round, each.session) for each in stretches})
        again = f", in {parts} rounds or processes" if parts > 1 else ""
        return f"{digits(requests)} requests in {duration(length)}{again}; {failed} failed. The table has every stretch"

    def _arms(self, case: str) -> list[ArmCase]:
        return [arm for name in self.shown if (arm := self.comparison.arm(name, case))]

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
        return Axis(case.headline for case in self.rows if case.headline)


def _arm(arm: ArmCase) -> dict[str, Any]:
    return {
        "name": arm.variant,
        "steps": [[item.tokens, round(item.share, 5)] for item in arm.steps],
        "positions": [round(rate, 4) for rate in arm.accepted_per_position],
        **{tag: sorted(round(value, 6) for value in arm.samples.get(tag, ())) for tag in DISTRIBUTIONS},
    }


def _theory(theory: Theory) -> dict[str, Any]:
    return {
        "draft": line(theory.draft),
        "group": theory.group,
        "points": [[p.k, round(p.speedup, 4), round(p.low, 4), round(p.high, 4)] for p in theory.points],
        "measured": [[m.k, round(m.speedup, 4), m.low, m.high, line(m.variant)] for m in theory.measured],
    }
