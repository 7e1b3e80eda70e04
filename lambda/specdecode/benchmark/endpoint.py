"""One OpenAI-compatible server: its address and its key; and a small request with a whole answer."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from specdecode import __version__
from specdecode.benchmark.http1 import HttpError, ResponseParser
from specdecode.benchmark.transport import Address, connect

_TELLING = 8
"""Least number of leading characters of a key that are hidden: fewer reveal nothing."""
MAX_BODY_BYTES = 16 * 1024 * 1024
TIMEOUT_S = 10.0
"""For a whole answer."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An arm's server. `url` is with or without `/v1` and the API's path, as people copy it."""

    url: str
    address: Address
    root: str
    """Path before `/v1`."""
    api_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, *, api_key: str | None = None) -> Endpoint:
        """Raises ValueError for what is no http(s) URL, and for a key that no header can hold."""
        address = Address.of(url)
        root = re.sub(r"(/v1)?(/(chat/)?completions|/models)?$", "", urlsplit(url).path.rstrip("/"))
        if api_key and not re.fullmatch(r"[!-~]+", api_key):
            raise ValueError(f"the API key for {url} holds a space, a line break or a letter beyond ASCII: correct it")
        return cls(url=url, address=address, root=root, api_key=api_key)

    def without_key(self, text: str) -> str:
        """`text` of the server, safe to store and show: some servers repeat the refused key, whole or cut."""
        for length in range(len(self.api_key or ""), _TELLING - 1, -1):
            text = text.replace(str(self.api_key)[:length], "…")
        return text

    def request_bytes(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        """A whole HTTP/1.1 request on a connection of its own."""
        content = b"" if body is None else json.dumps(body).encode()
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        head = [
            f"{method} {self.root}{path} HTTP/1.1",
            f"Host: {host}:{self.address.port}",
            f"User-Agent: specdecode/{__version__}",
            "Accept: text/event-stream, application/json;q=0.9, */*;q=0.1",
            "Connection: close",
        ]
        if self.api_key:
            head.append(f"Authorization: Bearer {self.api_key}")
        if body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + content


class Reply(NamedTuple):
    status: int
    body: bytes


async def fetch(
    endpoint: Endpoint,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    most: int = MAX_BODY_BYTES,
) -> Reply:
    """The answer to a GET, or to a POST of `body`. Raises OSError (TimeoutError) if no whole one comes in time, or it
    is longer than `most` bytes.
    """
    sink = _WholeBody(most)
    async with asyncio.timeout(timeout_s):
        connection = await connect(endpoint.address, sink)
        try:
            connection.send(endpoint.request_bytes("GET" if body is None else "POST", path, body))
            await sink.ended.wait()
        finally:
            connection.close()
    if sink.error is not None or sink.http.status is None:
        raise OSError(f"{endpoint.url}{path}: {sink.error or 'closed without an answer'}")
    return Reply(status=sink.http.status, body=bytes(sink.body))


class _WholeBody:
    """Collects an answer (a transport.Sink)."""

    def __init__(self, most: int = MAX_BODY_BYTES) -> None:
        self._most = most
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
        if len(self.body) > self._most:
            self.error = OSError(f"the answer is longer than {self._most:,} bytes")
            self.body.clear()
            self.ended.set()
        if self.http.complete:
            self.ended.set()

    def closed(self, error: OSError | None, at: float) -> None:
        if not self.http.close() and self.error is None:
            self.error = error or OSError("the answer is cut short")
        self.ended.set()
