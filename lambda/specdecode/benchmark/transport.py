"""One connection, one request, and the time at which each byte of the answer reached this machine.

Plain connections are read with `recvmsg` and the kernel's receive time stamp (SO_TIMESTAMPNS). So a chunk's time is its
arrival, not the moment at which this process read it. If the kernel gives no time stamp, and over TLS, it is the time
of the read. The difference of the two is the client's own lag, measured on every read (ADR 197).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import Protocol, cast
from urllib.parse import urlsplit

READ_SIZE = 64 * 1024
"""Most bytes of a read. A larger buffer comes from mmap, which takes ten times as long as the read itself."""
_SO_TIMESTAMPNS = 35
"""Linux's SO_TIMESTAMPNS (asm-generic/socket.h); the Python module does not name it. Elsewhere 35 is another option, or
none, and a chunk's time is that of the program's wake-up."""
_TIMESPEC = struct.Struct("@ll")
_ANCILLARY_SIZE = socket.CMSG_SPACE(_TIMESPEC.size)
_MAX_BELIEVABLE_LAG_S = 60.0
_SAME_MOMENT_S = 1e-4
"""Two clocks that were read within this time were read at one moment; a read takes less than a microsecond."""
_MOST_READS = 5


class Sink(Protocol):
    """Receives the bytes of an answer. All times are `time.monotonic()`."""

    def received(self, data: bytes, at: float, lag: float | None) -> None:
        """Bytes arrived at `at` and were read `lag` seconds later. `lag` None: `at` is the time of the read."""

    def closed(self, error: OSError | None, at: float) -> None:
        """The connection ended, in order (None) or with an error. Nothing follows."""


@dataclass(frozen=True)
class Address:
    """Address of an endpoint."""

    host: str
    port: int
    tls: ssl.SSLContext | None = field(default=None, compare=False)

    @classmethod
    def of(cls, url: str) -> Address:
        """Address of an http(s) URL. Raises ValueError, which never repeats a name or password that the URL holds."""
        if "@" in url:
            raise ValueError(
                "an endpoint's URL holds a name or a password (before @): leave it out and give the server's key in "
                "OPENAI_API_KEY, which is sent as its Authorization header and stored nowhere"
            )
        parts = urlsplit(url)
        if parts.query or parts.fragment:
            raise ValueError(
                f"{url.partition('?')[0].partition('#')[0]}?…: an endpoint's URL has no query and no fragment; "
                "give the server's key in OPENAI_API_KEY"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an http:// or https:// URL: write http://localhost:8000, for example")
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        return cls(host=parts.hostname, port=parts.port or (443 if tls else 80), tls=tls)


class Connection(Protocol):
    """A connection to a server, open until it is closed."""

    def send(self, data: bytes) -> None:
        """Begin to write; to be called once. What cannot be written ends the connection: the sink is told."""

    def close(self) -> None:
        """Let go of the connection at once, also of what is not written yet."""


async def connect(address: Address, sink: Sink) -> Connection:
    """Open a connection whose bytes go to `sink`. Raises OSError (ssl.SSLError is one)."""
    loop = asyncio.get_running_loop()
    if address.tls is not None:
        at = address.host, address.port
        return (await loop.create_connection(lambda: _TlsConnection(sink), *at, ssl=address.tls))[1]
    error: OSError | None = None
    for family, kind, protocol, _, target in await _resolve(loop, address):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if sys.platform == "linux":
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            await loop.sock_connect(sock, target)
        except OSError as failure:
            sock.close()
            error = failure
        except BaseException:
            sock.close()
            raise
        else:
            return _PlainConnection(loop, sock, sink)
    raise error or OSError(f"{address.host} has no address")


_Resolved = list[tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]]


async def _resolve(loop: asyncio.AbstractEventLoop, address: Address) -> _Resolved:
    """Addresses of a host; numeric ones without a thread."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, address.host)
            return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address.host, address.port))]
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return [(int(family), int(kind), protocol, name, target) for family, kind, protocol, name, target in found]


class _PlainConnection:
    """A non-blocking socket on the loop's selector. It reads while it writes: a server may refuse a request that it has
    not read to its end. Nothing of it is with the loop when its descriptor is closed, as another connection gets it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, sink: Sink) -> None:
        self._loop, self._sock, self._sink = loop, sock, sink
        self._open = True
        self._unsent = memoryview(b"")
        self._unsendable: OSError | None = None
        loop.add_reader(sock.fileno(), self._readable)

    def send(self, data: bytes) -> None:
        self._unsent = memoryview(data)
        self._writable()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()

    def _writable(self) -> None:
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:  # what the server said before it closed can still be read, then the end
            self._unsent, self._unsendable = memoryview(b""), error
        if self._unsent:
            self._loop.add_writer(self._sock.fileno(), self._writable)
        else:
            self._loop.remove_writer(self._sock.fileno())

    def _readable(self) -> None:
        try:
            data, ancillary, _, _ = self._sock.recvmsg(READ_SIZE, _ANCILLARY_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        now, wall = _both_clocks()
        if not data:
            self._end(None)
            return
        if ancillary and wall is not None:
            seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
            lag = wall - (seconds + nanoseconds * 1e-9)
            if 0.0 <= lag <= _MAX_BELIEVABLE_LAG_S:  # not so when the wall clock was set in between
                self._sink.received(data, now - lag, lag)
                return
        self._sink.received(data, now, None)

    def _end(self, error: OSError | None) -> None:
        self.close()
        self._sink.closed(error or self._unsendable, time.monotonic())


def _both_clocks() -> tuple[float, float | None]:
    """The monotonic and the wall clock at one moment, in seconds. The wall clock is None if this process lost its core
    between the two each time: bytes would seem to have come earlier by as much.
    """
    for _ in range(_MOST_READS):
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        if after - before <= _SAME_MOMENT_S:
            return after, wall
    return after, None


class _TlsConnection(asyncio.Protocol):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._sink.received(data, time.monotonic(), None)

    def connection_lost(self, exc: Exception | None) -> None:
        error = exc if isinstance(exc, OSError) else OSError(str(exc)) if exc else None
        self._sink.closed(error, time.monotonic())
