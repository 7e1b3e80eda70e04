"""The clients of a benchmark, as seen by one of them. Most benchmarks have one client."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from specdecode.benchmark.clock import Clock
from specdecode.benchmark.meeting import LEAD_S, PATIENCE_S, Arrival, Arrived, Begun, Meeting
from specdecode.benchmark.share import Share
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.experiment.workload import Level


@dataclass(frozen=True, kw_only=True)
class Barrier:
    """Makes the clients of a block begin and end it together."""

    block: str
    share: Share
    arrival: Arrival
    meeting: Meeting | None
    timeout_s: float
    """Timeout of a request, in seconds: the last request of another client may take that much longer."""

    @property
    def leads(self) -> bool:
        """Whether this client warms the server up and reads its counters. Not if it came late: it
        would count a part.
        """
        return self.share.client == 0 and not self.arrival.late

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
        await self.meeting.end(self.block, self.share.clients, within=PATIENCE_S + self.timeout_s + took)


@dataclass(frozen=True, kw_only=True)
class Clients:
    """The clients of a benchmark, as seen by this one. Without `meeting` it is alone, whatever the load."""

    spec: BenchmarkSpec
    meeting: Meeting | None = None

    @property
    def client(self) -> int:
        return self.meeting.client if self.meeting else 0

    def share(self, level: Level) -> Share | None:
        """Part of a level that this client sends. None if the level takes fewer clients and this one has no part."""
        clients = self.spec.clients(level) if self.meeting else 1
        return Share(client=self.client, clients=clients) if self.client < clients else None

    async def begin(self, *, session: int, already_s: float) -> tuple[int, Clock]:
        """Number of the session, and the run's clock: the same for all clients. Raises NotTogether.

        Each client reads the wall clock once. After that all use the monotonic clock.
        """
        if self.meeting is None or self.spec.most_clients == 1:
            return session, Clock(already_s=already_s)
        begun = await self.meeting.begin(Begun(session=session, epoch=time.time() - already_s))
        return begun.session, Clock(already_s=time.time() - begun.epoch)

    async def barrier(self, share: Share, *, variant: str, case: str, level: Level, already: int, left: int) -> Barrier:
        """Arrive at a block. This client has measured `already` of its requests and has `left` to send. Raises
        NotTogether.
        """
        block = f"{variant}/{case}/{level.name}"
        arrival, meeting = Arrival(already=already, left=left), self.meeting
        if share.clients == 1:
            meeting = None
        elif meeting is not None:
            arrival = await meeting.arrive(block, Arrived(already=already, left=left), share.clients)
        timeout_s = self.spec.workload.timeout_s
        return Barrier(block=block, share=share, arrival=arrival, meeting=meeting, timeout_s=timeout_s)

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
                found.append(f"{level}: measured by {clients} clients together; it sends all requests, without a look.")
        return found
