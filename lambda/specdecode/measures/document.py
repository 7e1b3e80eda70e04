"""The page of formulas, from the classes: `python -m specdecode.measures.document docs/metrics.md`."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from specdecode.measures.accounting import MODES, accounting_of
from specdecode.measures.metrics import BLOCK_METRICS, REQUEST_METRICS, SAMPLE_METRICS, Metric

BEGIN, END = "<!-- formulas: written by specdecode.measures.document -->", "<!-- end of formulas -->"
_GROUPS: tuple[tuple[str, tuple[type[Metric], ...]], ...] = (
    ("One value for each completed request", REQUEST_METRICS),
    ("Many values for each completed request", SAMPLE_METRICS),
    ("One value for all requests of an arm and case", BLOCK_METRICS),
)


def document() -> str:
    """Markdown between the two marks, both included."""
    lines = [BEGIN]
    for title, metrics in _GROUPS:
        lines += ["", f"## {title}"]
        for metric in metrics:
            lines += ["", f"### `{metric.tag}`: {metric.title}", "", f"    {metric.formula}", ""]
            lines += [f"Unit: {metric.unit}; {metric.direction}.", "", inspect.cleandoc(metric.__doc__ or "")]
    lines += ["", "## Token accounting", "", "| mode | what it counts and divides by |", "|---|---|"]
    lines += [
        f"| `{mode}` | {accounting_of(mode, retokenize=len if mode != 'usage' else None).description} |"
        for mode in MODES
    ]
    return "\n".join([*lines, "", END])


def main(path: Path) -> None:
    """Replace the formulas in `path`."""
    text = path.read_text()
    before, _, rest = text.partition(BEGIN)
    path.write_text(before + document() + rest.partition(END)[2])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
