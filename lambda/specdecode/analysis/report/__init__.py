"""The comparison for people and machines: HTML, Markdown, CSV, terminal; JSON is `Comparison.json_document()`."""

from specdecode.analysis.report.files import documents, write_report
from specdecode.analysis.report.html import render_html, render_trend
from specdecode.analysis.report.markdown import render_markdown
from specdecode.analysis.report.table import render_csv
from specdecode.analysis.report.terminal import render_terminal

__all__ = [
    "documents",
    "render_csv",
    "render_html",
    "render_markdown",
    "render_terminal",
    "render_trend",
    "write_report",
]
