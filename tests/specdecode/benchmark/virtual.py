"""Time that passes only while everybody waits, and connections within this process.

Client and server run as they are, down to the bytes of HTTP. Only the kernel between them is left out. So what is
measured follows from what the server does alone, however busy the machine is.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from specdecode.benchmark import client, endpoint
from specdecode.benchmark.transport import Address, Sink

Serve = Callable[[asyncio.StreamReader, Any], Awaitable[None]]
"""What `asyncio.start_server` takes."""


@dataclass
class Clock:
    """Both clocks. `passed`: seconds since the beginning."""

    passed: float = 0.0

    def monotonic(self) -> float:
        return 1_000.0 + self.passed

    def wall(self) -> float:
        return 1_795_000_000.0 + self.passed


class _Selector(selectors.DefaultSelector):
    """Sets the clock forward where others wait for a timer. It waits for threads, which know no virtual time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock, self.threads = clock, 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or (timeout and self.threads):
            return super().select(None)
        if found := super().select(0):
            return found
        self.clock.passed += timeout
        return []


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Clock) -> None:
        self.waits = _Selector(clock)
        super().__init__(self.waits)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self.waits.threads += 1
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: object) -> None:
        self.waits.threads -= 1


@dataclass
class ToClient:
    """A server's end: what it writes is with the client at once, and read as soon as the loop comes to it."""

    sink: Sink
    buffer: bytes = b""
    at: float = 0.0
    closed: bool = False
    """By one of the two."""
    transport: SimpleNamespace = field(init=False)

    def __post_init__(self) -> None:
        self.transport = SimpleNamespace(abort=lambda: self._end(ConnectionResetError("reset by the server")))

    def write(self, data: bytes) -> None:
        if not self.buffer:
            asyncio.get_running_loop().call_soon(self._read)
        self.buffer, self.at = self.buffer + data, time.monotonic()

    async def drain(self) -> None:
        await asyncio.sleep(0)
        if self.closed:
            raise ConnectionResetError

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self._end, None)

    def get_extra_info(self, name: str) -> Any:
        return SimpleNamespace(setsockopt=lambda *_: None)

    def _read(self) -> None:
        data, self.buffer = self.buffer, b""
        if data and not self.closed:
            self.sink.received(data, self.at, time.monotonic() - self.at)

    def _end(self, error: OSError | None) -> None:
        self._read()
        if not self.closed:
            self.closed = True
            self.sink.closed(error, time.monotonic())


@dataclass
class ToServer:
    """A client's end (a `transport.Connection`)."""

    receive: Callable[[bytes], None]
    other: ToClient

    def send(self, data: bytes) -> None:
        self.receive(data)

    def close(self) -> None:
        self.other.closed = True


@dataclass
class Listening:
    """What `asyncio.start_server` gives."""

    world: World
    port: int

    @property
    def sockets(self) -> list[Any]:
        return [SimpleNamespace(getsockname=lambda: ("127.0.0.1", self.port))]

    def close(self) -> None:
        self.world.servers.pop(self.port, None)


@dataclass
class World:
    clock: Clock = field(default_factory=Clock)
    servers: dict[int, Callable[[Sink], ToServer]] = field(default_factory=dict)
    handled: set[asyncio.Task[None]] = field(default_factory=set)

    def listen(self, serve: Serve) -> Listening:
        def accept(sink: Sink) -> ToServer:
            reader, writer = asyncio.StreamReader(), ToClient(sink)
            self.handled.add(asyncio.ensure_future(serve(reader, writer)))
            return ToServer(reader.feed_data, writer)

        return self.add(accept)

    def add(self, accept: Callable[[Sink], ToServer]) -> Listening:
        port = 20_000 + len(self.servers)
        self.servers[port] = accept
        return Listening(self, port)

    async def start_server(self, serve: Serve, host: str, port: int) -> Listening:
        return self.listen(serve)

    async def connect(self, address: Address, sink: Sink) -> ToServer:
        if address.port not in self.servers:
            raise ConnectionRefusedError(f"nobody listens on {address.port}")
        return self.servers[address.port](sink)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """All that this test does is in virtual time."""
    made = World()
    monkeypatch.setattr(time, "monotonic", made.clock.monotonic)
    monkeypatch.setattr(time, "time", made.clock.wall)
    monkeypatch.setattr(asyncio.events, "new_event_loop", lambda: _Loop(made.clock))
    monkeypatch.setattr(asyncio, "start_server", made.start_server)
    for module in (client, endpoint):
        monkeypatch.setattr(module, "connect", made.connect)
    return made
