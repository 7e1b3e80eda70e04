"""The HTTP layers that client_http.py compares: each sends a request and hands on the body with the time of arrival."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

Take = Callable[[bytes, float], None]
Exchange = Callable[[str, dict, Take], Awaitable[None]]


def aiohttp_layer() -> Exchange:
    import aiohttp

    session: aiohttp.ClientSession | None = None

    async def exchange(url: str, body: dict, take: Take) -> None:
        nonlocal session
        if session is None:
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        async with session.post(f"{url}/v1/completions", json=body) as response:
            async for data in response.content.iter_any():
                take(data, time.monotonic())

    return exchange


def protocol_layer(make_parser: Callable[[Callable[[bytes], None]], Callable[[bytes], bool]]) -> Exchange:
    from specdecode.benchmark.endpoint import Endpoint

    class Protocol(asyncio.Protocol):
        def __init__(self, take: Take, ended: asyncio.Future) -> None:
            self.ended, self.at = ended, 0.0
            self.feed = make_parser(lambda body: take(body, self.at))

        def data_received(self, data: bytes) -> None:
            self.at = time.monotonic()
            if self.feed(data) and not self.ended.done():
                self.ended.set_result(None)

    async def exchange(url: str, body: dict, take: Take) -> None:
        loop = asyncio.get_running_loop()
        endpoint, ended = Endpoint.of(url), loop.create_future()
        transport, _ = await loop.create_connection(
            lambda: Protocol(take, ended), endpoint.address.host, endpoint.address.port
        )
        transport.write(endpoint.request_bytes("POST", "/v1/completions", body))
        await ended
        transport.close()

    return exchange


def httptools_parser(take: Callable[[bytes], None]) -> Callable[[bytes], bool]:
    import httptools

    class Callbacks:
        complete = False

        def on_body(self, body: bytes) -> None:
            take(body)

        def on_message_complete(self) -> None:
            self.complete = True

    callbacks = Callbacks()
    parser = httptools.HttpResponseParser(callbacks)

    def feed(data: bytes) -> bool:
        parser.feed_data(data)
        return callbacks.complete

    return feed


def own_parser(take: Callable[[bytes], None]) -> Callable[[bytes], bool]:
    from specdecode.benchmark.http1 import ResponseParser

    parser = ResponseParser()

    def feed(data: bytes) -> bool:
        body = parser.feed(data)
        if body:
            take(body)
        return parser.complete

    return feed


def kernel_layer() -> Exchange:
    from specdecode.benchmark.endpoint import Endpoint
    from specdecode.benchmark.transport import connect

    class Sink:
        def __init__(self, take: Take) -> None:
            self.at, self.ended = 0.0, asyncio.Event()
            self.feed = own_parser(lambda body: take(body, self.at))

        def received(self, data: bytes, at: float, lag: float | None) -> None:
            self.at = at
            if self.feed(data):
                self.ended.set()

        def closed(self, error: OSError | None, at: float) -> None:
            self.ended.set()

    async def exchange(url: str, body: dict, take: Take) -> None:
        endpoint, sink = Endpoint.of(url), Sink(take)
        connection = await connect(endpoint.address, sink)
        await connection.send(endpoint.request_bytes("POST", "/v1/completions", body))
        await sink.ended.wait()
        connection.close()

    return exchange


def layer(name: str) -> Exchange:
    match name:
        case "aiohttp":
            return aiohttp_layer()
        case "httptools":
            import httptools  # noqa: F401

            return protocol_layer(httptools_parser)
        case "protocol":
            return protocol_layer(own_parser)
        case _:
            return kernel_layer()
