"""Makes and stores records during the load, one at a time, so that open streams are read in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from specdecode.benchmark.client import MakeRecord
from specdecode.records import RequestRecord

BACKLOG = 1024
"""Most records that wait before the recorder stops yielding to the streams. If more streams than this end together, the
client is too slow, and the waiting records would fill its memory."""


class Recorder:
    """Call `add` from anywhere in the loop. `keep` gets each record in order, at the latest when `running` ends."""

    def __init__(self, keep: Callable[[RequestRecord], None]) -> None:
        self._keep = keep
        self._waiting: deque[MakeRecord] = deque()
        self._added = asyncio.Event()

    def add(self, make: MakeRecord) -> None:
        self._waiting.append(make)
        self._added.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Recorder]:
        """Store records while the context is open. Records that wait at its end, or when it is cancelled, are stored
        then.
        """
        task = asyncio.create_task(self._work())
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            while self._waiting:
                self._keep(self._waiting.popleft()())

    async def _work(self) -> None:
        while True:
            await self._added.wait()
            self._added.clear()
            while self._waiting:
                self._keep(self._waiting.popleft()())
                if len(self._waiting) <= BACKLOG:
                    await asyncio.sleep(0)
