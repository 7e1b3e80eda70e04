"""The tables of the page over the load and over a sweep: each curve, and results by draft and number of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from specdecode.analysis.advice.sweep import speculative
from specdecode.analysis.report import curves, load_drawn
from specdecode.analysis.report.load_drawn import LoadChart
from specdecode.analysis.results.comparison import Comparison, GroupResult
from specdecode.analysis.results.curve_result import Curve


class CurveTable(NamedTuple):
    """A curve with its sentence, its charts and its table."""

    curve: Curve
    sentence: str
    charts: list[LoadChart]
    headers: list[str]
    rows: list[list[str]]


def curve_tables(comparison: Comparison, label: Callable[[str], str]) -> list[CurveTable]:
    """The curves that a report shows. `label`: name of an arm -> its name in tables. Empty for a run of one load."""
    return [
        CurveTable(
            curve,
            curves.sentence(comparison, curve),
            load_drawn.charts(comparison.experiment, curve, label),
            curves.headers(curve),
            curves.rows(curve),
        )
        for curve in curves.shown(comparison)
    ]


class Grid(NamedTuple):
    """Table of a sweep, over all cases."""

    ks: tuple[int, ...]
    """Numbers of speculative tokens, the smallest first: the columns."""
    rows: dict[str, dict[int, GroupResult]]
    """Draft -> k -> result; no entry for a k that was not measured."""


def grid(comparison: Comparison) -> Grid:
    """Each arm that differs from its baseline by speculation alone, and drafts one number of tokens at every load."""
    of_one_k = {v.name: s for v in speculative(comparison.experiment) if (s := v.speculation)}
    points = [(s.draft.id, s.num_speculative_tokens) for s in of_one_k.values()]
    rows: dict[str, dict[int, GroupResult]] = {draft: {} for draft, _ in points}
    for pair in comparison.pairs:
        speculation, total = of_one_k.get(pair.variant), pair.group("all")
        if speculation and total and pair.changes == ("speculation",):
            rows[speculation.draft.id][speculation.num_speculative_tokens] = total
    return Grid(ks=tuple(sorted({k for _, k in points})), rows=rows)
