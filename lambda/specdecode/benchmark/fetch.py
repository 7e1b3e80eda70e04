"""A small request with a whole answer: `/v1/models`, `/metrics`, `/tokenize`."""

import asyncio
from dataclasses import dataclass
from typing import Any

from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.http1 import HttpError, ResponseParser
from specdecode.benchmark.transport import connect

MAX_BODY_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes


TIMEOUT_S = 10.0
"""For a whole answer."""


async def fetch(
    endpoint: Endpoint, path: str, body: dict[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
) -> Reply:
    """The whole answer to a GET, or to a POST of `body`. Raises OSError (TimeoutError is one) if no whole HTTP answer
    comes in time.
    """
    sink = _WholeBody()
    async with asyncio.timeout(timeout_s):
        connection = await connect(endpoint.address, sink)
        try:
            await connection.send(endpoint.request_bytes("GET" if body is None else "POST", path, body))
            await sink.ended.wait()
        finally:
            connection.close()
    if sink.error is not None or sink.http.status is None:
        raise OSError(f"{endpoint.url}{path}: {sink.error or 'closed without an answer'}")
    return Reply(status=sink.http.status, body=bytes(sink.body))


class _WholeBody:
    """Collects an answer (a transport.Sink)."""

    def __init__(self) -> None:
        self.http = ResponseParser()
        self.body = bytearray()
        self.ended = asyncio.Event()
        self.error: Exception | None = None

    def received(self, data: bytes, at: float, lag: float | None) -> None:
        try:
            self.body += self.http.feed(data)
        except HttpError as error:
            self.error = error
            self.ended.set()
        if len(self.body) > MAX_BODY_BYTES:
            self.error = OSError(f"the answer is longer than {MAX_BODY_BYTES} bytes")
            self.body.clear()
            self.ended.set()
        if self.http.complete:
            self.ended.set()

    def closed(self, error: OSError | None, at: float) -> None:
        if not self.http.close() and self.error is None:
            self.error = error or OSError("the answer is cut short")
        self.ended.set()
