"""The part of a level that one client sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Share:
    """The part of client `client` of `clients`. With one client, everything."""

    client: int = 0
    clients: int = 1

    def streams(self, concurrency: int) -> int:
        """Number of this client's streams in a closed loop. Streams are dealt in turn."""
        return len(range(self.client, concurrency, self.clients))

    def of(self, arrivals: Sequence[T], *, concurrency: int | None) -> list[T]:
        """The `arrivals` that this client sends. Together the clients send each once.

        Closed loop: equally many for each stream of `concurrency`, so that a client with one stream more sends more.
        Open loop (None): every nth arrival of the process that a single client would send.
        """
        slots = concurrency or self.clients
        return [each for number, each in enumerate(arrivals) if number % slots % self.clients == self.client]


ALL = Share()
"""The share of a client that is alone."""
