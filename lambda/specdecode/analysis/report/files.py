"""The files of a report: name and content of each form."""

from __future__ import annotations

from pathlib import Path

from specdecode.analysis.report.html import render_html
from specdecode.analysis.report.markdown import render_markdown
from specdecode.analysis.report.table import render_csv
from specdecode.analysis.results.comparison import Comparison


def documents(comparison: Comparison) -> dict[str, str]:
    """File name -> content, as they lie in a run's folder."""
    return {
        "report.json": comparison.json_document(),
        "report.html": render_html(comparison),
        "report.md": render_markdown(comparison),
        "report.csv": render_csv(comparison),
    }


def write_report(comparison: Comparison, folder: Path) -> Path:
    """Write every form into `folder` (made if need be); returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in documents(comparison).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "report.html"
