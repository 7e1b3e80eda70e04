"""The live table on a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from specdecode.benchmark.block_progress import BlockProgress, milliseconds
from specdecode.escape import line
from specdecode.records import RequestRecord

REFRESHES_PER_S = 2
"""Refreshes a second: drawing costs CPU time that the client needs."""


class LiveProgress:
    """A line for each block, the running one moving (a progress.Progress)."""

    def __init__(self, stream: TextIO) -> None:
        self._blocks: list[BlockProgress] = []
        self._running: dict[tuple[str, str], BlockProgress] = {}
        self._live = Live(console=Console(file=stream), get_renderable=self._table, refresh_per_second=REFRESHES_PER_S)

    def __enter__(self) -> LiveProgress:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def message(self, text: str) -> None:
        self._live.console.print(line(text), markup=False, highlight=False)

    def begin(self, variant: str, case: str, level: str, *, requests: int | None, measured: int) -> None:
        left = None if requests is None else requests - measured
        block = BlockProgress(variant=variant, case=case, level=level, requests=left)
        self._blocks.append(block)
        self._running[variant, case] = block

    def record(self, record: RequestRecord) -> None:
        block = self._running.get((record.variant, record.case))
        if block is not None:
            block.add(record)

    def end(self, variant: str, case: str) -> None:
        self._running.pop((variant, case)).finish()

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for title in ("case", "arm"):
            table.add_column(title)
        for title in ("requests", "tokens/s", "TTFT p50", "TPOT p50", "failed", "left"):
            table.add_column(title, justify="right")
        for block in self._blocks:
            of = "" if block.requests is None else f"/{block.requests}"
            remaining = block.remaining_s
            table.add_row(
                f"{block.case} ({block.level})" if block.level else block.case,
                block.variant,
                f"{block.ended}{of}" if block.ended or not block.warmups else "warming up",
                f"{block.tokens_per_s:.1f}",
                milliseconds(block.ttft),
                milliseconds(block.tpot),
                str(block.failed),
                f"{remaining:.0f} s" if remaining else "",
            )
        return table
