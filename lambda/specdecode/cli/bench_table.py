"""The figures of a benchmark as a table in plain text: arms side by side, case by case."""

from __future__ import annotations

from collections.abc import Callable

from specdecode.analysis import Comparison
from specdecode.escape import line
from specdecode.measures.arm_case import ArmCase

_Cell = Callable[[ArmCase], str]


def figures_table(comparison: Comparison) -> str:
    """A row for each arm and case, with medians over its requests."""
    header = [title for title, _ in _COLUMNS]
    cases = [case.name for case in comparison.experiment.workload.cases]
    arms = sorted(comparison.arms, key=lambda arm: cases.index(arm.case))
    rows = [[cell(arm) for _, cell in _COLUMNS] for arm in arms]
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(_aligned(text, width, at) for at, (text, width) in enumerate(zip(row, widths, strict=True)))
        for row in [header, *rows]
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _aligned(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column < 2 else text.rjust(width)


def _median(tag: str, *, scale: float, digits: int) -> _Cell:
    def cell(arm: ArmCase) -> str:
        value = arm.metrics[tag].p50 if tag in arm.metrics else None
        return "-" if value is None else f"{value * scale:.{digits}f}"

    return cell


def _number(tag: str, *, digits: int) -> _Cell:
    def cell(arm: ArmCase) -> str:
        value = arm.totals.get(tag)
        return "-" if value is None else f"{value:.{digits}f}"

    return cell


_COLUMNS: tuple[tuple[str, _Cell], ...] = (
    ("case", lambda arm: line(arm.case)),
    ("arm", lambda arm: line(arm.variant)),
    ("ok/sent", lambda arm: f"{arm.completed}/{arm.requests}"),
    ("TTFT ms", _median("ttft", scale=1000, digits=2)),
    ("TPOT ms", _median("time_per_output_token", scale=1000, digits=3)),
    ("E2E s", _median("end_to_end_latency", scale=1, digits=3)),
    ("request tok/s", _median("request_output_throughput", scale=1, digits=1)),
    ("server tok/s", _number("output_throughput", digits=1)),
    ("tok/step", _median("tokens_per_step", scale=1, digits=2)),
    ("accepted", _number("acceptance_rate", digits=3)),
    ("output tok", _median("output_tokens", scale=1, digits=0)),
)
