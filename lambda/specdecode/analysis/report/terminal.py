"""The answer for a terminal: a table with `rich` if it is installed, else the same in plain text."""

from __future__ import annotations

import io
from collections.abc import Sequence
from textwrap import fill

from specdecode.analysis.loads.k_by_load import in_words
from specdecode.analysis.report.forecasts import TITLE, forecast_of, forecast_table
from specdecode.analysis.report.over_load import curve_table, shown_curves
from specdecode.analysis.report.tables import figures_table, work_sentence, work_table
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import NONE, compact, dollars, times
from specdecode.analysis.results.pairs import CaseResult, Estimate, Pair, Verdict, kind_of
from specdecode.analysis.texts.setting import NEXT, setting, winner
from specdecode.escape import line

COLOURS = {
    Verdict.PAYS: "green",
    Verdict.NO_DIFFERENCE: "default",
    Verdict.COSTS: "red",
    Verdict.CANNOT_TELL: "yellow",
    Verdict.DISTRUST: "red",
}
HEADERS = ("prompts", "", "verdict", "speed-up (95% CI)", "TPOT", "tokens/step", "same output", "$/1M tokens")
GAP = "  "
NARROW = 100
"""Columns below which a table has no frame, no kind of prompt, and no column without a figure."""


def render_terminal(comparison: Comparison, *, colour: bool = False, width: int = 120) -> str:
    """The report's first screen as text; `colour` adds ANSI colours (rich only)."""
    said = [comparison.answer, comparison.recommendation, comparison.advice and f"{NEXT}: {comparison.advice}"]
    parts = [*(_fill(line(sentence), width) for sentence in said if sentence), ""]
    parts += [_fill(f"{fact.name}: {line(fact.text)}", width) for fact in setting(comparison)]
    parts.append("")
    parts += over_load(comparison, width=width)
    parts += by_work(comparison, width=width)
    if not comparison.pairs:
        table = figures_table(comparison)
        parts.append(_plain_table("Each arm by itself", table.headers, table.texts, width=width))
    for pair in comparison.pairs:
        parts.append(_table(comparison, pair, colour=colour, width=width))
    notes = [f"note: {line(note)}" for note in comparison.notes]
    notes += [f"to settle: {line(who)} in {line(case)}: {line(what)}" for who, case, what in comparison.open_questions]
    notes += [f"failed: {line(failure.stage)}: {line(failure.message)}" for failure in comparison.context.failures]
    parts += [_fill(note, width) for note in notes]
    if comparison.cost and comparison.cost.total is not None:
        parts.append(f"run: {dollars(comparison.cost.total)} for {comparison.cost.node_hours or 0:.2f} node-hours")
    if served := winner(comparison):
        parts.append(f"serve {served.variant} again: the commands are in report.html and report.md")
        parts += [f"artifact: {line(served.artifact)}"] if served.artifact else []
    parts += forecast_lines(comparison, width=width)
    return "\n".join(parts) + "\n"


def forecast_lines(comparison: Comparison, *, width: int = 120) -> list[str]:
    """What was forecast, beside what was measured. Empty without a forecast."""
    told, measured = forecast_of(comparison)
    if not told:
        return []
    table = forecast_table(told, measured)
    return ["", _plain_table(TITLE, table.headers, table.texts, width=width)]


def over_load(comparison: Comparison, *, width: int = 120) -> list[str]:
    """Each curve as a table, and k by load. Empty for a run of one load."""
    parts = []
    for curve in shown_curves(comparison):
        table = curve_table(curve)
        parts.append(_plain_table(f"{curve.variant} over the load", table.headers, table.texts, width=width))
    for found in comparison.schedule:
        paste = f" In --speculative-config: {found.paste}" if found.paste else ""
        parts += [_fill(f"{line(in_words(found))}{paste}", width), ""]
    return parts


def by_work(comparison: Comparison, *, width: int = 120) -> list[str]:
    """For which kinds of work each arm pays, and a table of them. Empty if no set of prompts was measured."""
    parts = []
    for found in comparison.work:
        parts.append(_fill(line(work_sentence(found)), width))
        table = work_table(found)
        parts.append(_plain_table(f"{found.variant} by kind of work", table.headers, table.texts, width=width))
    return parts


def _fill(text: str, width: int) -> str:
    return fill(text, width=width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _row(comparison: Comparison, pair: Pair, case: CaseResult) -> tuple[str, ...]:
    by_name = {estimate.metric: estimate for estimate in case.speedups}
    costs = [comparison.arm(name, case.case) for name in (pair.baseline, pair.variant)]
    priced = [arm.cost_per_million for arm in costs if arm and arm.cost_per_million is not None]
    same = case.equality
    return (
        line(case.case),
        kind_of(case.structured),
        case.verdict.value,
        compact(case.headline) if case.headline else NONE,
        _short(by_name.get("time_per_output_token")),
        _short(by_name.get("tokens_per_step")),
        f"{same.identical} of {same.compared}" if same.compared else NONE,
        " → ".join(dollars(value) for value in priced) if len(priced) == 2 else NONE,
    )


def _short(estimate: Estimate | None) -> str:
    return times(estimate.ratio) if estimate else NONE


def _table(comparison: Comparison, pair: Pair, *, colour: bool, width: int) -> str:
    title = line(f"{pair.variant} against {pair.baseline}")
    rows = [_row(comparison, pair, case) for case in pair.cases]
    try:
        from rich.box import HEAVY_HEAD, SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return _plain_table(title, HEADERS, rows, width=width)
    narrow = width < NARROW
    shown = [n for n, header in enumerate(HEADERS) if not narrow or (header and any(row[n] != NONE for row in rows))]
    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD if narrow else HEAVY_HEAD)
    for n in shown:
        left = HEADERS[n] in {"prompts", "", "verdict"}
        longest = 0 if left else max(len(word) for row in rows for word in row[n].split())
        table.add_column(HEADERS[n], justify="left" if left else "right", overflow="fold", min_width=longest)
    for row, case in zip(rows, pair.cases, strict=True):
        table.add_row(*(Text(row[n], style=COLOURS[case.verdict] if n == 2 else "") for n in shown))
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=colour, color_system="standard" if colour else None).print(table)
    return out.getvalue()


def _plain_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int) -> str:
    """Columns that do not fit follow below, beside the first one again: no line is wrapped by the terminal."""
    cells = [[line(text) for text in row] for row in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * size for size in widths])
    blocks = [[0]]
    for column in range(1, len(headers)):
        if len(blocks[-1]) > 1 and sum(widths[n] + len(GAP) for n in blocks[-1]) + widths[column] > width:
            blocks.append([0])
        blocks[-1].append(column)
    lines = (
        "\n".join(GAP.join(row[n].ljust(widths[n]) for n in shown).rstrip() for row in cells) + "\n" for shown in blocks
    )
    return "\n".join([line(title), *lines])
