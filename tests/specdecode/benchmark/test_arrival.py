"""A chunk's time is when it arrived, also when this process was busy with something else."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import socket
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from specdecode.benchmark import client as of_client
from specdecode.benchmark import transport
from specdecode.benchmark.exchange import Exchange
from specdecode.measures.plausibility import WATCH_S
from specdecode.records import RequestRecord

from benchmarks.reference.connection import SO_TIMESTAMPNS
from tests.specdecode.benchmark.chaos import CHUNKED, delta, usage
from tests.specdecode.benchmark.making import client, keep_in, planned

BUSY_S = 0.3
CLOCKS_S = 0.01
"""What the wall clock, of which the kernel's stamps are, may have been set in between."""


@pytest.fixture(scope="module", autouse=True)
def _stamps() -> Iterator[None]:
    """The kernel begins to stamp soon after the first socket asks for it, and ends with the last."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as asks:
        if sys.platform == "linux":
            asks.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        asks.connect(listener.getsockname())
        with listener.accept()[0] as sends:
            for _ in range(1000):
                sends.sendall(b"x")
                if asks.recvmsg(16, socket.CMSG_SPACE(16))[1]:
                    break
                time.sleep(0.05)
            else:
                pytest.skip("this kernel does not time what it receives")
            yield


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Watched(Exchange):
    """The client's reader, which says when it has read."""

    last: Watched

    def __init__(self) -> None:
        super().__init__()
        self.read = asyncio.Event()
        Watched.last = self

    def received(self, data: bytes, at: float, lag: float | None) -> None:
        super().received(data, at, lag)
        self.read.set()

    async def until(self, chunks: int) -> None:
        while len(self.answer.chunks) < chunks:
            self.read.clear()
            await self.read.wait()


@dataclass
class Server:
    """Sends chunks when the test says so, and knows within which times each arrived in the client's kernel."""

    sock: socket.socket
    before: list[float] = field(default_factory=list)
    there: list[float] = field(default_factory=list)

    def send(self) -> None:
        """The next chunk. Returns when the other end's kernel has acknowledged it: nobody has read it yet."""
        self.before.append(time.monotonic())
        self.sock.sendall(chunk(delta(f"{len(self.before)} ")))
        while struct.unpack("i", fcntl.ioctl(self.sock, termios.TIOCOUTQ, b"\0" * 4))[0]:
            time.sleep(0.001)
        self.there.append(time.monotonic())


@dataclass(frozen=True)
class Measured:
    record: RequestRecord
    server: Server
    at: list[float]
    """The chunks' times on the clock of the server."""
    read_at: float
    """When the client was no longer busy."""


def measure(while_busy: Callable[[Server], None], *, chunks: int, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """The first chunk comes to a client at leisure, then this process does nothing but `while_busy`."""
    monkeypatch.setattr(of_client, "Exchange", Watched)
    records: list[RequestRecord] = []

    async def run() -> tuple[Server, float]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            sender = client(f"http://127.0.0.1:{listener.getsockname()[1]}")
            watching = asyncio.create_task(sender.loop_lag.watch())
            request = asyncio.create_task(sender.request(planned("m", timeout_s=250), keep_in(records)))
            accepted = await asyncio.to_thread(listener.accept)
        with accepted[0] as sock:
            await asyncio.to_thread(sock.recv, 65536)
            server = Server(sock)
            sock.sendall(CHUNKED)
            server.send()
            await Watched.last.until(1)
            began = time.monotonic()
            while_busy(server)
            read_at = time.monotonic()
            await Watched.last.until(chunks)
            while not sender.loop_lag.largest_since(began):
                await asyncio.sleep(0)
            tail = delta(finish="length", usage=usage(chunks)) + b"data: [DONE]\n\n"
            sock.sendall(chunk(tail) + b"0\r\n\r\n")
            await request
        watching.cancel()
        return server, read_at

    server, read_at = asyncio.run(run())
    assert records[0].error is None, records[0].error
    assert not Watched.last.timed_by_read
    assert Watched.last.sent is not None
    at = [each.at_s + Watched.last.sent for each in records[0].chunks]
    return Measured(record=records[0], server=server, at=at, read_at=read_at)


def test_a_busy_client_does_not_make_a_server_late(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(server: Server) -> None:
        server.send()
        time.sleep(BUSY_S)

    found = measure(busy, chunks=2, monkeypatch=monkeypatch)
    server, record = found.server, found.record
    assert server.before[1] - CLOCKS_S <= found.at[1] <= server.there[1] + CLOCKS_S
    assert record.client_lag_s >= BUSY_S - CLOCKS_S, "though it was read so much later"
    assert record.time_doubt_s == 0 and record.doubtful_chunks == 0


def test_a_client_that_loses_its_core_between_two_clocks_does_not_make_a_server_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loses = itertools.cycle((True, False))

    def wall() -> float:
        if next(loses):
            time.sleep(BUSY_S)
        return time.time()

    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=time.monotonic, time=wall))
    found = measure(Server.send, chunks=2, monkeypatch=monkeypatch)
    assert found.server.before[0] - CLOCKS_S <= found.at[0] <= found.server.there[0] + CLOCKS_S
    assert found.server.before[1] - CLOCKS_S <= found.at[1] <= found.server.there[1] + CLOCKS_S


def test_chunks_that_are_read_together_are_doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(server: Server) -> None:
        server.send()
        server.send()
        time.sleep(BUSY_S)

    found = measure(busy, chunks=3, monkeypatch=monkeypatch)
    server, record = found.server, found.record
    assert found.at[1] == found.at[2] and found.at[2] <= server.there[2] + CLOCKS_S
    assert found.at[1] >= server.before[2] - CLOCKS_S, "the time of the later one"
    assert record.time_doubt_s >= BUSY_S - CLOCKS_S and record.doubtful_chunks == 1


def test_a_chunk_read_soon_after_another_was_missed_is_doubtful_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last chunk of a read came at its end, the one before it lay all the while."""

    def busy(server: Server) -> None:
        server.send()
        time.sleep(BUSY_S)
        server.send()

    found = measure(busy, chunks=3, monkeypatch=monkeypatch)
    server, record = found.server, found.record
    wrong_by = found.at[1] - server.there[1]
    assert wrong_by >= BUSY_S - CLOCKS_S
    assert record.time_doubt_s >= wrong_by - WATCH_S and record.doubtful_chunks == 1


@pytest.mark.parametrize("after", [b'data: {"error": {"message": "boom"}}\n\n', b"data: no JSON\n\n", delta("more")])
def test_what_follows_the_end_of_a_stream_counts_in_no_read(after: bytes) -> None:
    stream = delta("hi") + b"data: [DONE]\n\n" + after
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + stream
    for parts in ([raw], [raw[at : at + 1] for at in range(len(raw))]):
        exchange = Exchange()
        exchange.sent = 0.0
        for part in parts:
            exchange.received(part, 0.5, None)
        assert exchange.ended.is_set() and exchange.error is None
        assert "".join(exchange.answer.parts) == "hi"


class Asked:
    """A connection, to be closed."""

    def send(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass


EARLY = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + delta("hi")


@pytest.mark.parametrize("comes", [lambda sink: sink.received(EARLY, 1.0, None), lambda sink: sink.closed(None, 1.0)])
def test_what_comes_before_the_request_is_sent_has_no_time(
    comes: Callable[[Exchange], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the end of a TLS handshake, before the connection is there to send on."""

    async def connect(address: object, sink: Exchange) -> Asked:
        comes(sink)
        return Asked()

    monkeypatch.setattr(of_client, "connect", connect)
    records: list[RequestRecord] = []
    asyncio.run(client("http://127.0.0.1:1").request(planned("m"), keep_in(records)))
    assert records[0].error is not None and not records[0].chunks
    assert 0 <= records[0].end_s < records[0].sent_s + 60


def test_a_step_of_the_wall_clock_within_an_answer_is_no_answer_before_it_was_asked() -> None:
    exchange = Exchange()
    exchange.sent = 10.0
    for at in (10.5, 8.6):
        exchange.received(EARLY if at == 10.5 else delta("more"), at, 0.002)
    assert exchange.error is None and [chunk[0] for chunk in exchange.answer.chunks] == [0.5, 0.5]


def test_bytes_that_lay_there_before_the_request_was_sent_are_no_answer() -> None:
    exchange = Exchange()
    exchange.sent = 10.0
    exchange.received(EARLY, 9.999, 0.002)
    assert exchange.error is not None and exchange.error.message == "the server answered before it was asked"
    assert not exchange.answer.chunks and exchange.last_at is None


def test_no_chunk_comes_before_an_earlier_one() -> None:
    """The wall clock, of which the kernel's stamps are, may be set back between two reads."""
    exchange = Exchange()
    exchange.sent = 10.0
    for at, data in ((10.2, EARLY), (10.1, delta("you")), (10.3, delta("there"))):
        exchange.received(data, at, 0.001)
    assert [chunk[0] for chunk in exchange.answer.chunks] == pytest.approx([0.2, 0.2, 0.3])
