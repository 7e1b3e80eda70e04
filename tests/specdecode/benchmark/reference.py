"""The reference server in virtual time."""

import asyncio
import heapq
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from specdecode.benchmark.transport import Sink

from benchmarks.reference.connection import Connection
from benchmarks.reference.server import STEP, Server
from tests.specdecode.benchmark.virtual import ToClient, ToServer, World


class _Socket:
    """The server's end of a connection, as far as it uses one."""

    def __init__(self, number: int, sink: Sink) -> None:
        self.number, self.to_client = number, ToClient(sink)

    def fileno(self) -> int:
        return self.number

    def setblocking(self, _: bool) -> None:
        pass

    def send(self, data: bytes) -> None:
        self.to_client.write(data)

    sendall = send


class InProcess(Server):
    """The event loop calls it, in the place of its own loop and sockets."""

    def __init__(self, world: World, **schedule: Any) -> None:
        super().__init__(**{"first_s": 0.05, "gap_s": 0.02, "jitter": 0.2, "seed": 1, **schedule})
        self.epoll.close()
        self.listener.close()
        self.world, self.listening = world, world.add(self.connect)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listening.port}"

    def schedule(self, descriptor: int, at: float) -> None:
        super().schedule(descriptor, at)
        asyncio.get_running_loop().call_at(at, self.due)

    def due(self) -> None:
        while self.heap and self.heap[0][0] <= time.monotonic() + 1e-6:
            at, _, descriptor = heapq.heappop(self.heap)
            if descriptor == STEP:
                self.step(at)
            else:
                self.send_chunk(descriptor)

    def connect(self, sink: Sink) -> ToServer:
        self.number += 1
        connection = Connection(_Socket(self.number, sink))
        self.connections[self.number] = connection

        def receive(data: bytes) -> None:
            connection.buffer += data
            connection.arrived = time.monotonic()
            if request := connection.request():
                self.answer(connection, *request)

        return ToServer(receive, connection.sock.to_client)

    def while_the_client_stalls(self, seconds: float) -> None:
        """Go on for so long while the event loop stands still."""
        clock = self.world.clock
        end = clock.passed + seconds
        while self.heap and (wait := self.heap[0][0] - clock.monotonic()) <= end - clock.passed:
            clock.passed += max(0.0, wait)
            self.due()
        clock.passed = end


@contextmanager
def serving(world: World, **schedule: Any) -> Iterator[InProcess]:
    server = InProcess(world, **schedule)
    yield server
    server.listening.close()
