"""Data of the page's charts, and the same in words for people who hear the page or use the keyboard."""

from collections.abc import Sequence
from functools import cached_property
from itertools import cycle
from typing import Any

from specdecode.analysis.report.over_load import curve_data, shown_curves
from specdecode.analysis.report.swept import Pictures
from specdecode.analysis.results.comparison import Comparison, Theory
from specdecode.analysis.results.numbers import digits, duration, figure, percent
from specdecode.escape import line
from specdecode.measures.arm_case import SAMPLES, ArmCase

DISTRIBUTIONS = ("ttft", "time_per_output_token", "end_to_end_latency")
"""Metrics whose distribution over requests is drawn."""
BASE = "var(--base)"
PALETTE = ("var(--arm)", "var(--c2)", "var(--c3)", "var(--c4)")
"""Colours of arms, from the page's style: they follow light, dark and print."""


class Drawn:
    """Charts of a comparison; `shown`: arms that are drawn case by case, a baseline first."""

    def __init__(self, comparison: Comparison, shown: Sequence[str]) -> None:
        self._comparison, self._shown = comparison, shown
        self._cases = [case.name for case in comparison.experiment.workload.cases]
        self._info = {info.name: info for info in comparison.metrics}
        self._labels = {item.name: item.label for item in comparison.experiment.variants}
        self._bases = {item.name for item in comparison.experiment.variants if item.compare_to is None}
        others = cycle(PALETTE)
        self._colours = {
            name: BASE if name in self._bases else next(others) for name in dict.fromkeys([*shown, *self._labels])
        }

    @cached_property
    def data(self) -> dict[str, Any]:
        """Data for the charts' script. Names are plain text."""
        return {
            "arms": [
                {"name": name, "label": line(self._labels[name]), "base": name in self._bases, "colour": colour}
                for name, colour in self._colours.items()
            ],
            "cases": [{"case": line(case), "arms": [_arm(arm) for arm in self._arms(case)]} for case in self._cases],
            "curves": [curve_data(self._comparison.experiment, curve) for curve in shown_curves(self._comparison)],
            "swept": self.pictures.data,
            "theory": [_theory(theory) for theory in self._comparison.theory],
            "timeline": [
                {
                    "arm": each.variant,
                    "case": line(each.case),
                    "part": [each.round, each.session],
                    "began": each.began,
                    "sent": [[item.at_s, item.took_s, item.failed or ""] for item in each.shown],
                }
                for each in self._comparison.timeline
            ],
        }

    @cached_property
    def pictures(self) -> Pictures:
        """Lines over what was swept, and over the run."""
        return Pictures(self._comparison, self.colour, PALETTE)

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Label and colour of the arms that are drawn case by case."""
        return [(self._labels[name], self._colours[name]) for name in self._shown]

    def colour(self, variant: str) -> str:
        """Colour of an arm."""
        return self._colours[variant]

    @property
    def any_samples(self) -> bool:
        """Whether there are single requests to show."""
        return any(map(self.has_samples, self._cases))

    @property
    def has_steps(self) -> bool:
        """Whether tokens per step are known of an arm that speculates."""
        return any(map(self.steps, self._cases))

    @property
    def has_positions(self) -> bool:
        """Whether acceptance by position is known from the engine's counters."""
        return any(map(self.positions, self._cases))

    @property
    def sampled(self) -> str:
        """A sentence if the charts have fewer points than there were requests, else empty."""
        most = max((arm.completed for arm in self._comparison.arms), default=0)
        return f"Of more than {SAMPLES} requests, {SAMPLES} quantiles are drawn." if most > SAMPLES else ""

    def has_samples(self, case: str) -> bool:
        """Whether there are single requests of a case."""
        return any(arm.samples for arm in self._arms(case))

    def theory_index(self, theory: Theory) -> int:
        """Where a model stands in the charts' data."""
        return self._comparison.theory.index(theory)

    def distribution(self, case: str, metric: str) -> str:
        """`Time to first token: Base, half of 8 requests within 9.1 ms, 90% within 9.9 ms; SD, …`."""
        info = self._info[metric]
        parts = [
            f"{self._labels[arm.variant]}, half of {found.n} requests within {figure(found.p50, info).text}, "
            f"90% within {figure(found.p90, info).text}"
            for arm in self._arms(case)
            if (found := arm.metrics.get(metric))
        ]
        return f"{info.label}: {'; '.join(parts) or 'no values'}"

    def steps(self, case: str) -> str:
        """`Tokens in a step, by share of the steps: SD, 1 in 8.0%, 6 in 92%`. Empty if no arm speculates."""
        parts = [
            ", ".join([self._labels[arm.variant], *(f"{item.tokens} in {percent(item.share)}" for item in arm.steps)])
            for arm in self._arms(case)
            if any(item.tokens > 1 for item in arm.steps)
        ]
        return f"Tokens in a step, by share of the steps: {'; '.join(parts)}" if parts else ""

    def positions(self, case: str) -> str:
        """`SD, position 1 98%, position 2 97%`. Empty if the engine's counters give no positions."""
        return "; ".join(
            f"{self._labels[arm.variant]}, "
            + ", ".join(f"position {n} {percent(rate)}" for n, rate in enumerate(arm.accepted_per_position, start=1))
            for arm in self._arms(case)
            if arm.accepted_per_position
        )

    @property
    def thinned(self) -> bool:
        """Whether some requests are left out of the timeline's chart."""
        return any(len(each.shown) < each.requests for each in self._comparison.timeline)

    @property
    def timeline(self) -> str:
        """Length, requests and failures of the whole run."""
        stretches = self._comparison.timeline
        length = max(each.began + each.seconds for each in stretches) - stretches[0].began
        requests, failed = sum(each.requests for each in stretches), sum(each.failed for each in stretches)
        parts = len({(each.round, each.session) for each in stretches})
        again = f", in {parts} rounds or processes" if parts > 1 else ""
        return f"{digits(requests)} requests in {duration(length)}{again}; {failed} failed. The table has every stretch"

    def _arms(self, case: str) -> list[ArmCase]:
        return [arm for name in self._shown if (arm := self._comparison.arm(name, case))]


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
