"""The figures of a benchmark as a table in plain text: arms side by side, case by case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_Cell = Callable[[dict[str, Any]], str]


def summary_table(summary: dict[str, Any]) -> str:
    """One line an arm and case, with medians over its requests."""
    header = [title for title, _ in _COLUMNS]
    rows = [[cell(block) for _, cell in _COLUMNS] for block in _ordered(summary["blocks"])]
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(_aligned(text, width, at) for at, (text, width) in enumerate(zip(row, widths, strict=True)))
        for row in [header, *rows]
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _ordered(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    cases = list(dict.fromkeys(block["case"] for block in blocks))
    arms = list(dict.fromkeys(block["variant"] for block in blocks))
    return sorted(blocks, key=lambda block: (cases.index(block["case"]), arms.index(block["variant"]), block["round"]))


def _aligned(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column < 2 else text.rjust(width)


def _median(tag: str, *, scale: float, digits: int) -> _Cell:
    def cell(block: dict[str, Any]) -> str:
        metric = block["metrics"].get(tag)
        return "-" if metric is None else f"{metric['p50'] * scale:.{digits}f}"

    return cell


def _number(tag: str, *, digits: int) -> _Cell:
    def cell(block: dict[str, Any]) -> str:
        value = block["metrics"].get(tag)
        return "-" if value is None else f"{value:.{digits}f}"

    return cell


_COLUMNS: tuple[tuple[str, _Cell], ...] = (
    ("case", lambda block: block["case"]),
    ("arm", lambda block: block["variant"]),
    ("ok/sent", lambda block: f"{block['requests']['completed']}/{block['requests']['started']}"),
    ("TTFT ms", _median("ttft", scale=1000, digits=2)),
    ("TPOT ms", _median("time_per_output_token", scale=1000, digits=3)),
    ("E2E s", _median("end_to_end_latency", scale=1, digits=3)),
    ("request tok/s", _median("request_output_throughput", scale=1, digits=1)),
    ("server tok/s", _number("output_throughput", digits=1)),
    ("tok/step", _median("tokens_per_step", scale=1, digits=2)),
    ("accepted", _number("acceptance_rate", digits=3)),
    ("output tok", _median("output_tokens", scale=1, digits=0)),
)
