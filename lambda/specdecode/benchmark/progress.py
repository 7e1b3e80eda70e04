"""What the user sees while the load runs: a live table on a terminal, lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from specdecode.benchmark.results import was_cancelled
from specdecode.escape import line
from specdecode.measures.distribution import quantile
from specdecode.measures.metrics.formulas import time_per_output_token, ttft
from specdecode.measures.metrics.metric import NoValue
from specdecode.records import RequestRecord

if TYPE_CHECKING:
    from rich.table import Table

LINE_EVERY_S = 10.0
REFRESHES_PER_S = 2
"""Refreshes of the table a second: drawing costs CPU time that the client needs."""


@contextmanager
def progress_for(stream: TextIO | None = None) -> Iterator[LoadProgress]:
    """A live table on a terminal if rich is installed, else lines."""
    stream = stream or sys.stderr
    if stream.isatty() and find_spec("rich") is not None:
        live = LiveProgress(stream)
        with live.table:
            yield live
    else:
        yield LoadProgress(stream)


@dataclass
class BlockProgress:
    """Running figures of one block."""

    variant: str
    case: str
    level: str
    requests: int | None
    finished: bool = False
    """No request is left."""
    elapsed_s: float = 0.0
    """Seconds in which a measured request that has ended was under way. The arms alternate: another arm's time is not
    in it."""
    ended: int = 0
    failed: int = 0
    warmups: int = 0
    tokens: int = 0
    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)
    _reached_s: float = float("-inf")

    def add(self, record: RequestRecord) -> None:
        if record.warmup:
            self.warmups += 1
            return
        self.ended += 1
        ends = record.sent_s + record.end_s
        self.elapsed_s += max(0.0, ends - max(record.sent_s, self._reached_s))
        self._reached_s = max(self._reached_s, ends)
        if record.error is not None:
            self.failed += 1
            return
        self.tokens += record.completion_tokens or 0
        for values, metric in ((self.ttft, ttft), (self.tpot, time_per_output_token)):
            with suppress(NoValue):
                values.append(metric.value(record))

    @property
    def name(self) -> str:
        return f"{self.variant}/{self.case}{f' ({self.level})' if self.level else ''}"

    @property
    def progress(self) -> str:
        """Requests that have ended, of how many."""
        return f"{self.ended}" if self.requests is None else f"{self.ended}/{self.requests}"

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Expected seconds, from the pace so far. None if nothing has ended yet or the end is not known."""
        if not self.ended or self.requests is None or self.finished:
            return None
        return self.elapsed_s / self.ended * max(self.requests - self.ended, 0)

    def line(self) -> str:
        parts = [f"{self.name}: {self.progress} requests", f"{self.tokens_per_s:.1f} tokens/s"]
        parts += [f"TTFT p50 {_milliseconds(self.ttft)}", f"TPOT p50 {_milliseconds(self.tpot)}"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.remaining_s:
            parts.append(f"about {self.remaining_s:.0f} s left")
        return ", ".join(parts)


def _milliseconds(values: list[float]) -> str:
    """Median in milliseconds, or a dash."""
    return f"{quantile(sorted(values), 0.5) * 1000:.2f} ms" if values else "-"


class LoadProgress:
    """One line when a block begins and ends, and every LINE_EVERY_S seconds between: for a pod's log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._running: dict[tuple[str, str], BlockProgress] = {}
        self.cancelled = 0
        """Requests that were under way when the benchmark was stopped."""
        self._last_line = time.monotonic()

    def message(self, text: str) -> None:
        """A message for the user."""
        print(line(text), file=self._stream, flush=True)

    def begin(self, variant: str, case: str, level: str, *, requests: int | None, measured: int) -> None:
        """A block begins. `level` is empty if there is only one. `measured` requests were measured before (resumed)."""
        left = None if requests is None else requests - measured
        block = BlockProgress(variant=variant, case=case, level=level, requests=left)
        self._running[variant, case] = block
        if measured:
            self.message(f"{block.name}: {measured} requests were measured before and are kept")

    def record(self, record: RequestRecord) -> None:
        """Count a request that ended, failed or not. One of a block that does not run counts nowhere."""
        if was_cancelled(record):
            self.cancelled += 1
        elif (block := self._running.get((record.variant, record.case))) is not None:
            block.add(record)
            self._tell(block, record)

    def _tell(self, block: BlockProgress, record: RequestRecord) -> None:
        if record.error is not None:
            self.message(f"{record.variant}/{record.case} request {record.index} failed: {record.error.message}")
        if time.monotonic() - self._last_line >= LINE_EVERY_S:
            self._last_line = time.monotonic()
            self.message(block.line())

    def end(self, variant: str, case: str) -> None:
        """The block's last request has ended."""
        block = self._running.pop((variant, case))
        block.finished = True
        self._ended(block)

    def _ended(self, block: BlockProgress) -> None:
        self.message(f"done {block.line()}")


class LiveProgress(LoadProgress):
    """A line of a table for each block, the running one moving."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(stream)
        self._blocks: list[BlockProgress] = []
        self.table = Live(console=Console(file=stream), get_renderable=self._table, refresh_per_second=REFRESHES_PER_S)

    def message(self, text: str) -> None:
        self.table.console.print(line(text), markup=False, highlight=False)

    def begin(self, variant: str, case: str, level: str, *, requests: int | None, measured: int) -> None:
        super().begin(variant, case, level, requests=requests, measured=measured)
        self._blocks.append(self._running[variant, case])

    def _tell(self, block: BlockProgress, record: RequestRecord) -> None:
        pass

    def _ended(self, block: BlockProgress) -> None:
        pass

    def _table(self) -> Table:
        from rich.table import Table

        table = Table("case", "arm", box=None, pad_edge=False)
        for title in ("requests", "tokens/s", "TTFT p50", "TPOT p50", "failed", "left"):
            table.add_column(title, justify="right")
        for block in self._blocks:
            table.add_row(
                f"{block.case} ({block.level})" if block.level else block.case,
                block.variant,
                block.progress if block.ended or not block.warmups else "warming up",
                f"{block.tokens_per_s:.1f}",
                _milliseconds(block.ttft),
                _milliseconds(block.tpot),
                str(block.failed),
                f"{remaining:.0f} s" if (remaining := block.remaining_s) else "",
            )
        return table
