"""The comparison for people and machines: HTML, Markdown, CSV, terminal; JSON is `Comparison.json_document()`."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from specdecode.analysis.report.csv_rows import render_csv
from specdecode.analysis.report.html import render_html, render_trend
from specdecode.analysis.report.terminal import all_of, render_markdown, render_terminal
from specdecode.analysis.results.comparison import Comparison
from specdecode.untrusted import Unreadable, WrongInput, parse_json, quoted, read_file

__all__ = [
    "FORMS",
    "all_of",
    "documents",
    "render_csv",
    "render_html",
    "render_markdown",
    "render_terminal",
    "render_trend",
    "write_report",
]


FORMS: dict[str, Callable[[Comparison], str]] = {
    "report.json": Comparison.json_document,
    "report.html": render_html,
    "report.md": render_markdown,
    "report.csv": render_csv,
}
"""File in a run's folder -> what makes it."""


def documents(comparison: Comparison) -> dict[str, str]:
    """File name -> content, as they lie in a run's folder."""
    return {name: made(comparison) for name, made in FORMS.items()}


def write_report(comparison: Comparison, folder: Path) -> Path:
    """Write every form into `folder` (made if need be); returns the page's path. Raises WrongInput if another run's
    report lies there.
    """
    with suppress(Unreadable):
        there = parse_json(read_file(folder / "report.json"))
        if isinstance(there, dict) and there.get("run_id", comparison.run_id) != comparison.run_id:
            raise WrongInput(f"{folder}: the report of {quoted(there['run_id'])} lies there: name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in documents(comparison).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "report.html"
