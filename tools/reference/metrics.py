"""The formulas in docs/reference/metrics.md, from the registry of the metrics."""

from typing import Any

from specdecode.measures.accounting import MODES, Accounting
from specdecode.measures.metrics import BLOCK_METRICS, REQUEST_METRICS, SAMPLE_METRICS
from specdecode.measures.metrics.metric import Metric

from tools.reference import between, table

_GROUPS: tuple[tuple[str, tuple[Metric[Any, Any], ...]], ...] = (
    ("One value for each completed request", REQUEST_METRICS),
    ("Many values for each completed request", SAMPLE_METRICS),
    ("One value for all requests of an arm and case", BLOCK_METRICS),
)


def render() -> str:
    """Every metric, and the modes of token accounting."""
    lines: list[str] = []
    for title, metrics in _GROUPS:
        lines += [f"## {title}", ""]
        for metric in metrics:
            lines += [f"### `{metric.tag}`: {metric.title}", "", f"    {metric.formula}", ""]
            lines += [f"Unit: {metric.unit}; {metric.direction} is better.", "", metric.definition, ""]
    modes = [(f"`{mode}`", Accounting(mode, retokenize=len if mode != "usage" else None).description) for mode in MODES]
    return "\n".join([*lines, "## Token accounting", "", table(("mode", "what it counts and divides by"), modes)])


def replaced(text: str) -> str:
    """`text` of docs/reference/metrics.md with the current formulas."""
    return between(text, "formulas", render())
