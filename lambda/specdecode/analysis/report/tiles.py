"""The few figures of the first screen and its axis, and what the run and its arms cost."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import Number, dollars, duration, interval, percent, ratio, signed
from specdecode.analysis.results.pairs import HEADLINE, Action, Estimate, GroupResult, MetricInfo, Pair, Verdict
from specdecode.analysis.statistics.groups import figure
from specdecode.analysis.texts.decide import decided, first_load

LOOKS = {
    Verdict.PAYS: ("▲", "pays"),
    Verdict.NO_DIFFERENCE: ("=", "same"),
    Verdict.COSTS: ("▼", "costs"),
    Verdict.CANNOT_TELL: ("?", "unknown"),
    Verdict.DISTRUST: ("!", "costs"),
    Verdict.MIXED: ("≠", "unknown"),
}
MARKS, CLASSES = ({verdict: look[at] for verdict, look in LOOKS.items()} for at in (0, 1))
"""A verdict's sign, and the class of the page's style."""
TICKS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
APART = 17.0
"""Least distance of two labelled ticks, in per cent of the axis' width."""
FAR = 20.0
"""The same on a narrow screen."""
NOTICEABLE = 0.005
"""Relative change of cost that is coloured."""


class Tile(NamedTuple):
    """One figure of the first screen."""

    label: str
    value: Number
    detail: str
    tone: str


def tiles(comparison: Comparison, pair: Pair) -> Iterator[Tile]:
    """Speed-up by kind of prompt, cost and equality of the pair that the answer is about."""
    info = next(metric for metric in comparison.metrics if metric.name == HEADLINE)
    for group in pair.kinds:
        yield _group(comparison, pair, group, info)
    if decided(comparison).action is not Action.DISTRUST and (found := comparison.costs(pair)):
        yield _cost(comparison, pair, *found)
    if compared := sum(case.equality.compared for case in pair.cases):
        same = sum(case.equality.identical for case in pair.cases)
        yield Tile(
            "Outputs identical",
            Number(f"{same} / {compared}", "Pairs of answers to the same prompt, equal character for character"),
            "pairs of answers to one prompt",
            "pays" if same == compared else "unknown",
        )


def _group(comparison: Comparison, pair: Pair, group: GroupResult, info: MetricInfo) -> Tile:
    of = len(group.cases)
    types = f"{of} prompt type{'s' if of != 1 else ''}"
    said = {each: sum(case.verdict is each for case in pair.cases if case.case in group.cases) for each in Verdict}
    parts = [f"{each.value} on {count}" for each, count in said.items() if count]
    reach = f"{', '.join(parts)} of {types}"
    return Tile(
        f"Speed-up, {group.group}",
        ratio(group.headline, info)._replace(text=figure(group).partition(" (")[0].replace("× to ", "–")),
        reach if group.next is None or group.headline is None else f"{reach}; mean {interval(group.headline)}",
        CLASSES[Verdict.DISTRUST if decided(comparison).action is Action.DISTRUST else group.verdict],
    )


def _cost(comparison: Comparison, pair: Pair, before: float, after: float) -> Tile:
    change = after / before - 1.0
    title = f"Dollars per million output tokens at the measured load; {cost_formula(comparison)}"
    tone = "pays" if change < -NOTICEABLE else "costs" if change > NOTICEABLE else "same"
    if decided(comparison).late.get(first_load(comparison)):
        tone = "unknown"
    detail = f"{signed(change)} against {dollars(before)} of {pair.baseline}, all requests"
    return Tile("1M output tokens cost", Number(dollars(after), title), detail, tone)


def cost_formula(comparison: Comparison) -> str:
    """How dollars per million output tokens are computed."""
    price = "price per node-hour / 3600 × share of the node's devices"
    if not comparison.experiment.holds_node:
        price = "the server's price per hour / 3600"
    return f"{price} × seconds of load / output tokens × 1,000,000"


def cost_sentence(comparison: Comparison) -> str:
    """Cost of the run, and how much of it paid for measurement."""
    cost = comparison.cost
    if cost is None:
        prices = {each.name: each.dollars_per_hour(None) for each in comparison.experiment.variants}
        shown = ", ".join(f"{name} {dollars(price)}" for name, price in prices.items() if price is not None)
        return f"What the servers cost per hour, as the experiment says: {shown}."
    price = f"A node costs {dollars(cost.price_per_node_hour)} per hour."
    if cost.total is None or cost.node_hours is None:
        return price
    share = f", {percent(cost.utilization)} of the time paid for" if cost.utilization is not None else ""
    return (
        f"{price} This run held one for {duration(cost.node_hours * 3600)}: {dollars(cost.total)}. "
        f"Measurement took {duration(cost.measured_seconds)}{share}; the rest is compiling, loading and waiting."
    )


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
