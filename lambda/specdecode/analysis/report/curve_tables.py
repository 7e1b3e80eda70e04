"""The curves of the page: each with its sentence, charts and table."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from specdecode.analysis.report import curves, load_drawn
from specdecode.analysis.report.load_drawn import LoadChart
from specdecode.analysis.results.comparison import Comparison
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
