"""Tokens per step that were forecast, for every form of the report: a table and charts, beside what was measured."""

from collections.abc import Sequence
from typing import Any

from specdecode.analysis.advice.payoff import Beside, Payoff, beside
from specdecode.analysis.report.blocks import Cell, Column, ReportTable
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import NONE
from specdecode.escape import line
from specdecode.experiment.told import Forecasted

SHOWN = (1, 3, 5, 7, 10, 15)
"""Columns of the table, beside the k of measured arms."""
SURE = 1.96
"""Standard errors of a 95% interval."""
TITLE = "Forecast: tokens per step"
STEP = (
    "Tokens that a step yields on average with k drafted tokens: 1 without speculation. Read from the target's answers"
)
NOTE = (
    "Tokens per step: what a step of the target yields on average; 1 without speculation. Speculation pays where a "
    "step with k drafts takes less than so many plain steps."
)
MEASURED = "Tokens per step that this arm measured, and how far the forecast is from it"


def forecast_of(comparison: Comparison) -> tuple[Sequence[Forecasted], Sequence[Beside]]:
    """The forecast that a run has, and what was measured of it."""
    return comparison.experiment.forecast, beside(comparison.experiment, comparison.pairs, comparison.arms)


def forecast_table(told: Sequence[Forecasted], measured: Sequence[Beside] = ()) -> ReportTable:
    """A row for each type of prompts and draft, a column for some k, and one for each arm that measured it."""
    arms = {one.variant: one.k for one in measured}
    there = {k for one in told for k, _, _ in one.at}
    ks = sorted(there & {*SHOWN, *arms.values()})
    of_arm = {(one.variant, one.draft, one.case): one for one in measured}
    columns = [Column("prompts", words=True), Column("draft", words=True), Column("n", "Different prompts")]
    columns += [Column(f"k={k}", STEP) for k in ks] + [Column(f"{arm}, measured", MEASURED) for arm in arms]
    rows = []
    for one in sorted(told, key=lambda one: one.case):
        at = {k: (tokens, error) for k, tokens, error in one.at}
        found = [of_arm.get((arm, one.draft, one.case)) for arm in arms]
        cells = [one.case, one.draft, str(one.prompts)]
        cells += [f"{at[k][0]:.2f}" if k in at else NONE for k in ks]
        cells += [f"{own.measured:.2f} at k={own.k} ({own.off:.1%} off)" if own else NONE for own in found]
        rows.append([Cell(text) for text in cells])
    return ReportTable(columns, rows, note=NOTE)


def forecast_charts(told: Sequence[Forecasted], measured: Sequence[Beside] = ()) -> list[dict[str, Any]]:
    """Data of a chart for each type of prompts: tokens per step over k, with a line for each draft."""
    return [
        {
            "case": line(case),
            "drafts": [
                [
                    line(one.draft),
                    [
                        [
                            k,
                            round(tokens, 3),
                            round(max(1.0, tokens * (1 - SURE * error)), 3),
                            round(min(k + 1.0, tokens * (1 + SURE * error)), 3),
                        ]
                        for k, tokens, error in one.at
                    ],
                ]
                for one in told
                if one.case == case
            ],
            "measured": [[one.k, round(one.measured, 3), line(one.variant)] for one in measured if one.case == case],
        }
        for case in dict.fromkeys(one.case for one in told)
    ]


def fans(found: Payoff) -> list[dict[str, Any]]:
    """Data of a chart of the expected speed-up over k, for each group of prompts and draft."""
    return [
        {
            "group": line(own.prompts),
            "draft": line(draft),
            "points": [
                [one.k, *(round(value, 4) for value in (one.speedup.value, one.speedup.low, one.speedup.high))]
                for one in own.at
                if one.draft == draft
            ],
            "measured": [],
        }
        for own in found.on
        for draft in dict.fromkeys(one.draft for one in own.at)
        if own.prompts in ("structured", "open-ended", "all")
    ]
