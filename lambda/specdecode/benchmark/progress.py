"""What the user sees while the load runs."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Protocol, TextIO

from specdecode.benchmark.block_progress import BlockProgress
from specdecode.escape import line
from specdecode.records import RequestRecord

LINE_EVERY_S = 10.0


class LoadProgress(Protocol):
    """Gets the events of a load."""

    def message(self, text: str) -> None:
        """A message for the user."""

    def begin(self, variant: str, case: str, level: str, *, requests: int | None, measured: int) -> None:
        """A block begins. `level` in words, empty if there is only one. `measured` requests were measured before
        (resumed).
        """

    def record(self, record: RequestRecord) -> None:
        """A request ended."""

    def end(self, variant: str, case: str) -> None:
        """The block's last request has ended."""


@contextmanager
def progress_for(stream: TextIO | None = None) -> Iterator[LoadProgress]:
    """A live table on a terminal if rich is installed, else lines."""
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
