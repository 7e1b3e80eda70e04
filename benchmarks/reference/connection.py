"""A client's connection to the reference server: requests with the time at which the kernel had them."""

from __future__ import annotations

import json
import socket
import struct
import time
from dataclasses import dataclass

from benchmarks.reference.stream import Stream

SO_TIMESTAMPNS = 35
"""Linux, asm-generic/socket.h: each message comes with the time of its arrival."""


@dataclass
class Connection:
    sock: socket.socket
    buffer: bytes = b""
    arrived: float = 0.0
    """Monotonic time at which the newest bytes came into the kernel."""
    closed: bool = False
    stream: Stream | None = None
    """The answer that is being sent."""

    def receive(self) -> None:
        """Take what has come."""
        try:
            data, ancillary, _, _ = self.sock.recvmsg(1 << 20, socket.CMSG_SPACE(16))
        except OSError:
            data, ancillary = b"", []
        if not data:
            self.closed = True
            return
        now, lag = time.monotonic(), 0.0
        if ancillary:
            seconds, nanoseconds = struct.unpack("@ll", ancillary[0][2])
            lag = time.time() - (seconds + nanoseconds * 1e-9)
        self.arrived = now - lag
        self.buffer += data

    def request(self) -> tuple[str, bytes] | None:
        """Path and body of the next request. None if it is not complete yet."""
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return None
        lines = head.split(b"\r\n")
        length = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length")), 0)
        if len(body) < length:
            return None
        self.buffer = body[length:]
        return head.split(b" ")[1].decode(), body[:length]

    def reply(self, document: object, *, status: str = "200 OK") -> None:
        """Send one JSON document."""
        content = json.dumps(document).encode()
        self.sock.setblocking(True)
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        self.sock.sendall(head.encode() + content)
        self.sock.setblocking(False)
