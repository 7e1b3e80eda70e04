"""The run's clock, and the delays of this process."""

import asyncio
import time
from collections import deque

from specdecode.measures.plausibility import WATCH_S

_NOTABLE_LAG_S = 0.001
_KEPT = 4096


class Clock:
    """Seconds since the run began, on the monotonic clock."""

    def __init__(self, *, already_s: float = 0.0) -> None:
        self.origin = time.monotonic() - already_s
        """`already_s`: age of a resumed run, in seconds."""

    def since_start(self, monotonic: float) -> float:
        return monotonic - self.origin

    def now(self) -> float:
        return time.monotonic() - self.origin


class LoopLag:
    """Measures delays of the event loop: if its tick is late, everything else in the loop is late too."""

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    async def watch(self) -> None:
        """Run beside the load until cancelled."""
        while True:
            expected = time.monotonic() + WATCH_S
            await asyncio.sleep(WATCH_S)
            now = time.monotonic()
            if now - expected > _NOTABLE_LAG_S:
                self._late.append((now, now - expected))

    def largest_since(self, monotonic: float) -> float:
        """Largest delay noticed since then, in seconds; 0 below a millisecond."""
        return max((late for at, late in self._late if at >= monotonic), default=0.0)
