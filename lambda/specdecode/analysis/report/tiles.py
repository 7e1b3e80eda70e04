"""The few figures of the first screen."""

from __future__ import annotations

from typing import NamedTuple

from specdecode.analysis.report.costs import cost_formula
from specdecode.analysis.report.numbers import Number, dollars, percent, ratio, reach
from specdecode.analysis.results.comparison import HEADLINE, Comparison, GroupResult, MetricInfo, Pair, Verdict
from specdecode.analysis.statistics.groups import figure

MARKS = {
    Verdict.PAYS: "▲",
    Verdict.NO_DIFFERENCE: "=",
    Verdict.COSTS: "▼",
    Verdict.CANNOT_TELL: "?",
    Verdict.MIXED: "≠",
}
CLASSES = {
    Verdict.PAYS: "pays",
    Verdict.NO_DIFFERENCE: "same",
    Verdict.COSTS: "costs",
    Verdict.CANNOT_TELL: "unknown",
    Verdict.MIXED: "unknown",
}
NOTICEABLE = 0.005
"""Relative change of cost that is coloured."""


class Tile(NamedTuple):
    """One figure of the first screen."""

    label: str
    value: Number
    detail: str
    tone: str


def tiles(comparison: Comparison, pair: Pair, costs: tuple[float, float] | None) -> list[Tile]:
    """Speed-up by kind of prompt, cost, equality and errors of the pair that the answer is about."""
    info = next(metric for metric in comparison.metrics if metric.name == HEADLINE)
    groups = [group for name in ("structured", "open-ended") if (group := pair.group(name))]
    found = [_group(group, info) for group in groups]
    if costs:
        found.append(_cost(*costs, formula=cost_formula(comparison)))
    return [*found, *_equality(pair), _errors(comparison)]


def _group(group: GroupResult, info: MetricInfo) -> Tile:
    return Tile(
        f"{group.group.capitalize()} prompts",
        ratio(group.headline, info)._replace(text=figure(group).partition(" (")[0].replace("× to ", "–")),
        f"{group.verdict.value}, {reach(group)}",
        CLASSES[group.verdict],
    )


def _cost(before: float, after: float, *, formula: str) -> Tile:
    change = after / before - 1.0
    return Tile(
        "1M output tokens cost",
        Number(dollars(after), f"Dollars per million output tokens at the measured load; {formula}"),
        f"{change:+.0%} against {dollars(before)}",
        "pays" if change < -NOTICEABLE else "costs" if change > NOTICEABLE else "same",
    )


def _equality(pair: Pair) -> list[Tile]:
    compared = sum(case.equality.compared for case in pair.cases)
    if not compared:
        return []
    same = sum(case.equality.identical for case in pair.cases)
    return [
        Tile(
            "Outputs identical",
            Number(f"{same} / {compared}", "Pairs of answers to the same prompt, equal character for character"),
            "all of them" if same == compared else "see where they part",
            "pays" if same == compared else "unknown",
        )
    ]


def _errors(comparison: Comparison) -> Tile:
    arms = [*comparison.arms, *(arm for load in comparison.loads for arm in load.arms)]
    requests, failed = sum(arm.requests for arm in arms), sum(arm.failed for arm in arms)
    return Tile(
        "Requests completed",
        Number(f"{requests - failed} / {requests}", "All arms, cases and loads, without warm-up"),
        "none failed" if not failed else f"{failed} failed ({percent(failed / requests)})",
        "same" if not failed else "costs",
    )
