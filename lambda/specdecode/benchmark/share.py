"""Which part of a level one client sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Share:
    """The part of client `client` of `clients`: all of it where there is one."""

    client: int = 0
    clients: int = 1

    def streams(self, concurrency: int) -> int:
        """Of a closed loop: how many of its streams are this client's. They are dealt in turn."""
        return len(range(self.client, concurrency, self.clients))

    def of(self, arrivals: Sequence[T], *, concurrency: int | None) -> list[T]:
        """Those of `arrivals` that this client sends. Together the clients send each once.

        Closed loop: as many for each stream of `concurrency`, so that a client with one stream more has more to send.
        Open loop (None): every so many of one process of arrivals, the same that a single client would send.
        """
        slots = concurrency or self.clients
        return [each for number, each in enumerate(arrivals) if number % slots % self.clients == self.client]


ALL = Share()
"""Of a single client."""
