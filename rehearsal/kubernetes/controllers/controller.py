"""The base of controllers: a `reconcile` that runs after every change of the kinds that it watches."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable

from rehearsal.kubernetes.etcd import Change
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.resources import Resource

logger = logging.getLogger(__name__)


class Controller(ABC):
    """Changes that come while it works are seen together in the next round. An idle controller costs nothing."""

    watches: tuple[Resource, ...] = ()

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.store = cluster.store
        self._awake = asyncio.Event()
        self._awake.set()
        self._timer: asyncio.TimerHandle | None = None
        self.store.subscribe(self._on_change)

    def _on_change(self, change: Change) -> None:
        if change.resource in self.watches:
            self._awake.set()

    def wake(self) -> None:
        """Reconcile as soon as the loop is free, once for any number of calls."""
        self._awake.set()

    def wake_in(self, seconds: float) -> None:
        """Reconcile after `seconds` at the latest, even if nothing changes."""
        loop = asyncio.get_running_loop()
        due = loop.time() + max(seconds, 0.0)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self._ring)

    def _ring(self) -> None:
        """Until then a timer that is overdue counts: a long `reconcile` may ask for a later one meanwhile."""
        self._timer = None
        self._awake.set()

    async def run(self) -> None:
        while True:
            await self._awake.wait()
            self._awake.clear()
            try:
                self.reconcile()
            except Exception:
                logger.exception("%s failed", type(self).__name__)
                self.wake_in(1.0)
            await asyncio.sleep(0)

    @abstractmethod
    def reconcile(self) -> None:
        """Bring the state closer to what the objects demand."""


def start(controllers: Iterable[Controller]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(c.run(), name=type(c).__name__) for c in controllers]
