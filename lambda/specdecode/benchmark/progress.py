"""What a person sees while the load runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Protocol, TextIO

from specdecode.escape import line
from specdecode.measures.distribution import quantile
from specdecode.measures.metrics import NoValue, RequestMetric, TimePerOutputToken, TimeToFirstToken
from specdecode.records import RequestRecord

LINE_EVERY_S = 10.0


class LoadProgress(Protocol):
    """Is told what happens."""

    def message(self, text: str) -> None:
        """Something that a reader should know."""

    def begin(self, variant: str, case: str, level: str, *, requests: int | None, measured: int) -> None:
        """A block begins, at a `level` in words (empty: there is one); `measured` of its requests were measured before
        (resumed).
        """

    def record(self, record: RequestRecord) -> None:
        """A request ended."""

    def end(self, variant: str, case: str) -> None:
        """The block's last request has ended."""


@dataclass
class BlockProgress:
    """Running figures of one block."""

    variant: str
    case: str
    level: str
    requests: int | None
    began: float = field(default_factory=time.monotonic)
    finished: float | None = None
    ended: int = 0
    failed: int = 0
    warmups: int = 0
    tokens: int = 0
    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)

    def add(self, record: RequestRecord) -> None:
        if record.warmup:
            self.warmups += 1
            self.began = time.monotonic()
            return
        self.ended += 1
        if record.error is not None:
            self.failed += 1
            return
        self.tokens += record.completion_tokens or 0
        for values, metric in ((self.ttft, TimeToFirstToken), (self.tpot, TimePerOutputToken)):
            _append(values, metric, record)

    @property
    def name(self) -> str:
        return f"{self.variant}/{self.case}{f' ({self.level})' if self.level else ''}"

    def finish(self) -> None:
        """Stop the clock."""
        self.finished = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Of the measured part: from the end of the warm-up."""
        return (self.finished or time.monotonic()) - self.began

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Expected, from the pace so far; None where there is none yet or no end is known."""
        if not self.ended or self.requests is None or self.finished is not None:
            return None
        return self.elapsed_s / self.ended * max(self.requests - self.ended, 0)

    def line(self) -> str:
        of = "" if self.requests is None else f"/{self.requests}"
        parts = [f"{self.name}: {self.ended}{of} requests", f"{self.tokens_per_s:.1f} tokens/s"]
        parts += [f"TTFT p50 {milliseconds(self.ttft)}", f"TPOT p50 {milliseconds(self.tpot)}"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.remaining_s:
            parts.append(f"about {self.remaining_s:.0f} s left")
        return ", ".join(parts)


def _append(values: list[float], metric: type[RequestMetric], record: RequestRecord) -> None:
    try:
        values.append(metric.value(record))
    except NoValue:
        return


def milliseconds(values: list[float]) -> str:
    """Median in milliseconds, or a dash."""
    return f"{quantile(sorted(values), 0.5) * 1000:.2f} ms" if values else "-"


@contextmanager
def progress_for(stream: TextIO | None = None) -> Iterator[LoadProgress]:
    """A live table where a person looks at a terminal (and rich is installed), lines everywhere else."""
    stream = stream or sys.stderr
    if stream.isatty() and find_spec("rich") is not None:
        from specdecode.benchmark.live import LiveProgress

        with LiveProgress(stream) as live:
            yield live
    else:
        yield PlainProgress(stream)


class PlainProgress:
    """One line when a block begins and ends, and every LINE_EVERY_S seconds between: for a pod's log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._blocks: dict[tuple[str, str], BlockProgress] = {}
        self._last_line = time.monotonic()

    def message(self, text: str) -> None:
        print(line(text), file=self._stream, flush=True)

    def begin(self, variant: str, case: str, level: str, *, requests: int | None, measured: int) -> None:
        left = None if requests is None else requests - measured
        block = BlockProgress(variant=variant, case=case, level=level, requests=left)
        self._blocks[variant, case] = block
        if measured:
            self.message(f"{block.name}: {measured} requests were measured before and are kept")

    def record(self, record: RequestRecord) -> None:
        block = self._blocks.get((record.variant, record.case))
        if block is None:
            return
        block.add(record)
        if record.error is not None:
            self.message(f"{record.variant}/{record.case} request {record.index} failed: {record.error.message}")
        if time.monotonic() - self._last_line >= LINE_EVERY_S:
            self._last_line = time.monotonic()
            self.message(block.line())

    def end(self, variant: str, case: str) -> None:
        block = self._blocks.pop((variant, case))
        block.finish()
        self.message(f"done {block.line()}")
