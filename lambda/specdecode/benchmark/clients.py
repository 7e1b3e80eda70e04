"""The clients that measure a load, as one of them sees it: who sends what, and how they begin and end it together.

Most loads have one client. How many a load takes is decided in specdecode.experiment.sizing. Several clients leave
notes in a place that all of them see. Client 0 leads: it waits for the others, warms the server up, reads its counters
and sets the beginning. There is no server: a restarted client reads the notes and knows what it missed.

Why it is so: ADR 188.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from specdecode.benchmark.place import Place, PlaceError
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.experiment.workload import Level
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
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class LoadSlice:
    """The part of client `client` of `clients`. With one client, everything."""

    client: int = 0
    clients: int = 1

    def streams(self, concurrency: int) -> int:
        """Number of this client's streams in a closed loop. Streams are dealt one by one."""
        return len(range(self.client, concurrency, self.clients))

    def of(self, arrivals: Sequence[T], *, concurrency: int | None) -> list[T]:
        """The `arrivals` that this client sends. Together the clients send each once.

        Closed loop: equally many for each stream of `concurrency`, so that a client with one stream more sends more.
        Open loop (None): every nth arrival of the process that a single client would send.
        """
        slots = concurrency or self.clients
        return [each for number, each in enumerate(arrivals) if number % slots % self.clients == self.client]


ALL = LoadSlice()
"""What a client sends that is alone."""


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
    """A client is ready for a block. Client 0 sums up the notes of all clients."""

    already: Count
    """Number of its requests that were measured before."""
    left: Count
    late: bool = False
    """The block had begun: this client was restarted since. No note says it."""


class Start(_Note):
    """Beginning of a block."""

    at: Seconds
    said_at: Seconds
    """Both times are client 0's wall clock."""


class Ended(_Note):
    """All requests of a client's slice have ended."""


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

    async def arrive(self, block: str, own: Arrived, clients: int) -> Arrived:
        """Tell the others that this client is ready for a block of `clients`. Client 0 waits for all and returns the
        sum. Raises NotTogether.

        A block begins when all clients are there. So if it has begun, this client was there before and was restarted.
        """
        began_before = await self._read(f"{block}/start.json", Start) is not None
        await self._write(f"{block}/arrived.{self.client}.json", own)
        if began_before or not self.leads:
            return own.model_copy(update={"late": began_before})
        every = [own, *await self._all(f"{block}/arrived", Arrived, clients, within=PATIENCE_S)]
        return Arrived(already=sum(each.already for each in every), left=sum(each.left for each in every))

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
        """Tell the others that this client has ended. Client 0 waits for all, `within` seconds. Raises NotTogether."""
        await self._write(f"{block}/ended.{self.client}.json", Ended())
        if self.leads:
            await self._all(f"{block}/ended", Ended, clients, within=within)

    async def _all(self, name: str, kind: type[Model], clients: int, *, within: float) -> Sequence[Model]:
        """The notes of all clients but this one."""
        until = time.monotonic() + within
        others = [other for other in range(clients) if other != self.client]
        return [await self._wait(f"{name}.{other}.json", kind, until=until, whose=other) for other in others]

    async def _wait(self, name: str, kind: type[Model], *, until: float = math.inf, whose: int = 0) -> Model:
        """A note, as soon as it is there. A wait for client 0 has no `until`: the Job's deadline ends it."""
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


@dataclass(frozen=True, kw_only=True)
class Barrier:
    """Makes the clients of a block begin and end it together."""

    block: str
    load_slice: LoadSlice
    arrival: Arrived
    meeting: Meeting | None
    timeout_s: float
    """Timeout of a request, in seconds: the last request of another client may take that much longer."""

    @property
    def leads(self) -> bool:
        """Whether it warms the server up and reads its counters. Not if it came late: it would count a part."""
        return self.load_slice.client == 0 and not self.arrival.late

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Enter the context when all clients begin; leave it when all have ended. Raises NotTogether."""
        if self.meeting is None:
            yield
            return
        await self.meeting.start(self.block, lead_s=LEAD_S if self.arrival.left else 0.0)
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        await self.meeting.end(self.block, self.load_slice.clients, within=PATIENCE_S + self.timeout_s + took)


@dataclass(frozen=True, kw_only=True)
class Clients:
    """The clients of a benchmark, as seen by this one. Without `meeting` it is alone, whatever the load."""

    spec: BenchmarkSpec
    meeting: Meeting | None = None

    @property
    def client(self) -> int:
        return self.meeting.client if self.meeting else 0

    def load_slice(self, level: Level) -> LoadSlice | None:
        """Part of a level that this client sends. None if the level takes fewer clients and this one has no part."""
        clients = self.spec.clients(level) if self.meeting else 1
        return LoadSlice(client=self.client, clients=clients) if self.client < clients else None

    async def begin(self, *, session: int, already_s: float) -> tuple[int, float]:
        """The session and the run's second 0 (monotonic clock), the same for all clients. Raises NotTogether."""
        if self.meeting is not None and self.spec.most_clients > 1:
            begun = await self.meeting.begin(Begun(session=session, epoch=time.time() - already_s))
            session, already_s = begun.session, time.time() - begun.epoch
        return session, time.monotonic() - already_s

    async def barrier(
        self, load_slice: LoadSlice, *, variant: str, case: str, level: Level, already: int, left: int
    ) -> Barrier:
        """Arrive at a block with `already` requests measured and `left` to send. Raises NotTogether."""
        block = f"{variant}/{case}/{level.name}"
        arrival, meeting = Arrived(already=already, left=left), self.meeting if load_slice.clients > 1 else None
        if meeting is not None:
            arrival = await meeting.arrive(block, arrival, load_slice.clients)
        timeout_s = self.spec.workload.timeout_s
        return Barrier(block=block, load_slice=load_slice, arrival=arrival, meeting=meeting, timeout_s=timeout_s)

    def told(self) -> list[str]:
        """Notes on the levels that take several clients: a sentence each."""
        found = []
        for level in self.spec.workload.levels:
            clients, most = self.spec.clients(level), self.spec.workload.streams_per_client
            if clients > 1 and self.meeting is None:
                found.append(
                    f"{level} is more than one client is known to measure truthfully ({most} at a time): see whether "
                    "its times are marked as doubtful."
                )
            elif clients > 1:
                found.append(f"{level}: measured by {clients} clients together; it cannot end early.")
        return found
