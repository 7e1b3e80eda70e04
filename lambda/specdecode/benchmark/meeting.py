"""Clients that load together begin and end each level together. They leave notes in a place that all of them see (ADR
192).

Client 0 leads: it waits for the others, warms the server up, reads its counters and sets the beginning. There is no
server: a restarted client reads the notes and knows what it missed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from specdecode.benchmark.place import Place, PlaceError
from specdecode.records.record import Count, Seconds

POLL_S = 0.5
"""Seconds between two looks for a note: this costs half a cent of S3's GETs for each client and hour."""
LEAD_S = 2.0
"""Seconds from the note to the beginning that it sets: time for a look of each client, and for a slow answer of S3."""
PATIENCE_S = 600.0
"""Seconds that client 0 waits for another client: a new pod needs a minute or two, on a new node about five."""
CLOCKS_S = 0.1
"""Difference from which two clocks count as not set. Amazon's time service keeps the clocks of its instances within 1
ms (EC2 user guide, "Precision clock and time synchronization"); pods of one node share a clock."""
Model = TypeVar("Model", bound=BaseModel)


class NotTogether(Exception):
    """The clients cannot load together. The message says which, why, and what to do."""


class _Note(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Begun(_Note):
    """Facts that all clients of a Job share."""

    session: Count
    epoch: Seconds
    """Wall clock at the run's second 0."""


class Arrived(_Note):
    """A client is ready for a block."""

    already: Count
    """Number of its requests that were measured before."""
    left: Count


class Start(_Note):
    """Beginning of a block."""

    at: Seconds
    said_at: Seconds
    """Both times are client 0's wall clock."""


class Ended(_Note):
    """All requests of a client's share have ended."""


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """State of a client that arrives at a block."""

    already: int
    left: int
    """Requests measured before, and requests left: this client's own. Client 0 has the sums of all clients."""
    late: bool = False
    """The block had begun: this client was restarted since."""


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """Client `client`'s view of the notes of one Job."""

    place: Place
    client: int

    @property
    def leads(self) -> bool:
        return self.client == 0

    async def begin(self, own: Begun) -> Begun:
        """The note of client 0. Client 0 reads its own note too, if it was restarted. Raises NotTogether."""
        if self.leads and await self._read("begun.json", Begun) is None:
            await self._write("begun.json", own)
        return await self._wait("begun.json", Begun)

    async def arrive(self, block: str, own: Arrived, clients: int) -> Arrival:
        """Tell the others that this client is ready for a block of `clients`. Client 0 waits for all. Raises
        NotTogether.

        A block begins when all clients are there. So if it has begun, this client was there before and was restarted.
        """
        began_before = await self._read(f"{block}/start.json", Start) is not None
        await self._write(f"{block}/arrived.{self.client}.json", own)
        if began_before or not self.leads:
            return Arrival(already=own.already, left=own.left, late=began_before)
        others = await self._all(f"{block}/arrived", Arrived, clients, within=PATIENCE_S)
        every = [own, *others]
        return Arrival(already=sum(each.already for each in every), left=sum(each.left for each in every))

    async def start(self, block: str, *, lead_s: float = LEAD_S) -> float:
        """Wait until the block begins. Returns how many seconds ago it began; 0 if it begins now.

        Client 0 sets the beginning. Raises NotTogether, also if the clocks differ.
        """
        if self.leads and await self._read(f"{block}/start.json", Start) is None:
            now = time.time()
            await self._write(f"{block}/start.json", Start(at=now + lead_s, said_at=now))
        begins = await self._wait(f"{block}/start.json", Start)
        if (behind_s := begins.said_at - time.time()) > CLOCKS_S:
            raise NotTogether(
                f"the clock of client {self.client} is {behind_s:.1f} s or more behind that of client 0, so that the "
                "clients cannot begin together: set the clocks of the nodes (chrony or another NTP client)"
            )
        await asyncio.sleep(max(0.0, begins.at - time.time()))
        return max(0.0, time.time() - begins.at)

    async def end(self, block: str, clients: int, *, within: float) -> None:
        """Tell the others that this client's share has ended. Client 0 waits for all, at most `within` seconds. Raises
        NotTogether.
        """
        await self._write(f"{block}/ended.{self.client}.json", Ended())
        if self.leads:
            await self._all(f"{block}/ended", Ended, clients, within=within)

    async def _all(self, name: str, kind: type[Model], clients: int, *, within: float) -> Sequence[Model]:
        """The notes of all clients but this one."""
        until = time.monotonic() + within
        others = [other for other in range(clients) if other != self.client]
        return [await self._wait(f"{name}.{other}.json", kind, until=until, whose=other) for other in others]

    async def _wait(self, name: str, kind: type[Model], *, until: float = math.inf, whose: int = 0) -> Model:
        """A note, as soon as it is there. A wait for client 0 has no `until`: client 0 may be busy with smaller loads,
        and the Job's deadline ends the wait.
        """
        while True:
            try:
                if (found := await self._read(name, kind)) is not None:
                    return found
            except NotTogether:
                if time.monotonic() >= until:
                    raise
            if time.monotonic() >= until:
                note = name.rpartition("/")[2].partition(".")[0]
                raise NotTogether(
                    f"client {whose} did not come ({note}), and client 0 waits no longer: see whether its pod waits "
                    "for room on the node, or keeps failing; a larger workload.streams_per_client needs fewer clients"
                )
            await asyncio.sleep(POLL_S)

    async def _read(self, name: str, kind: type[Model]) -> Model | None:
        try:
            content = await asyncio.to_thread(self.place.get, name)
            return None if content is None else kind.model_validate_json(content)
        except (PlaceError, ValidationError) as error:
            raise NotTogether(f"the note {name} of the other clients cannot be read: {error}") from None

    async def _write(self, name: str, note: BaseModel) -> None:
        try:
            await asyncio.to_thread(self.place.write, name, note.model_dump_json().encode())
        except PlaceError as error:
            raise NotTogether(f"the other clients cannot be told: {error}") from None
