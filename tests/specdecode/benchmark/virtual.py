"""Time that passes only while everybody waits, and the reference server in the client's own process and in that time.

Client and server run as they are, to the bytes of HTTP; only the kernel between them is left out. So what is measured
follows from the server's schedule alone, however busy the machine is.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import pytest
from specdecode.benchmark import client, fetch
from specdecode.benchmark.transport import Address, Sink

from benchmarks.reference.connection import Connection
from benchmarks.reference.server import STEP, Server
from benchmarks.reference.steps import StepTime


class VirtualTime:
    """Both clocks. `passed`: seconds since the beginning."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> float:
        return 1_000.0 + self.passed

    def wall(self) -> float:
        return 1_795_000_000.0 + self.passed


class _Selector(selectors.DefaultSelector):
    """Instead of waiting for a timer, it sets the clock forward. It waits for threads, which know no virtual time."""

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__()
        self.clock, self.threads = clock, 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout and self.threads:
            timeout = None
        if timeout is None or (found := super().select(0)):
            return super().select(None) if timeout is None else found
        self.clock.passed += timeout
        return []


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualTime) -> None:
        self.waits = _Selector(clock)
        super().__init__(self.waits)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., Any], *args: object
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self.waits.threads += 1
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: object) -> None:
        self.waits.threads -= 1


class _Socket:
    """The server's end of a connection. What it sends is with the client at once."""

    def __init__(self, number: int, sink: Sink) -> None:
        self.number, self.sink = number, sink

    def fileno(self) -> int:
        return self.number

    def setblocking(self, _: bool) -> None:
        pass

    def send(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self.sink.received, data, time.monotonic(), 0.0)

    sendall = send


class _Sends:
    """The client's end."""

    def __init__(self, server: InProcess, connection: Connection) -> None:
        self.server, self.connection = server, connection

    async def send(self, data: bytes) -> None:
        self.connection.buffer += data
        self.connection.arrived = time.monotonic()
        if request := self.connection.request():
            self.server.answer(self.connection, *request)

    def close(self) -> None:
        self.server.connections.pop(self.connection.sock.fileno(), None)


class InProcess(Server):
    """The reference server without its loop and its sockets: the event loop calls it."""

    def __init__(self, steps: StepTime) -> None:
        super().__init__(first_s=0.0, gap_s=0.0, jitter=0.0, seed=1, steps=steps)
        self.port = self.listener.getsockname()[1]
        self.epoll.close()

    def schedule(self, descriptor: int, at: float) -> None:
        loop = asyncio.get_running_loop()
        loop.call_at(at, *((self.step, at) if descriptor == STEP else (self.send_chunk, descriptor)))

    def connect(self, sink: Sink) -> _Sends:
        self.number += 1
        connection = Connection(_Socket(self.number, sink))
        self.connections[self.number] = connection
        return _Sends(self, connection)


class World:
    """Servers that the client reaches, and no others."""

    def __init__(self) -> None:
        self.servers: dict[int, InProcess] = {}

    @contextmanager
    def serving(self, steps: StepTime) -> Iterator[InProcess]:
        server = InProcess(steps)
        with server.listener:  # so that the port is its own
            self.servers[server.port] = server
            yield server

    async def connect(self, address: Address, sink: Sink) -> _Sends:
        return self.servers[address.port].connect(sink)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """All that this test does is in virtual time."""
    made, clock = World(), VirtualTime()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(time, "time", clock.wall)
    monkeypatch.setattr(asyncio.events, "new_event_loop", lambda: _Loop(clock))
    for module in (client, fetch):
        monkeypatch.setattr(module, "connect", made.connect)
    return made
