"""A well-behaved server on 127.0.0.1 with a pace of its own: `first_s` to the first token, `gap_s` between chunks."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.specdecode.benchmark.chaos import Peer, delta, sse, usage

UNDECIDED = (0.002, 0.03), (0.03, 0.002)
"""Waits of two arms by which now one is much faster and now the other: no verdict at any look."""


@dataclass
class Pace:
    first_s: float = 0.0
    in_turn_s: tuple[float, ...] = (0.0,)
    """What each request waits besides, one after the other and again from the first."""
    gap_s: float = 0.0
    chunk_tokens: tuple[int, ...] = (1, 3, 4)
    slots: int = 1000
    """Requests served at a time; the others wait."""
    refuses: tuple[str, ...] = ()
    """Fields that the server answers with a 400."""
    metrics: str | Callable[[int], str] = ""
    """The text, or what makes it of the number of requests so far."""
    letter: str = "w"
    """What its answers are made of."""
    breaks: tuple[str, ...] = ()
    """Questions whose answer breaks off."""
    bodies: list[dict] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0


@asynccontextmanager
async def paced_server(pace: Pace) -> AsyncIterator[str]:
    slots = asyncio.Semaphore(pace.slots)

    async def complete(peer: Peer, body: dict) -> None:
        refused = [name for name in pace.refuses if name in body or name in body.get("stream_options", {})]
        if refused:
            await peer.reply("400 Bad Request", json.dumps({"error": {"message": f"unknown {refused}"}}).encode())
            return
        pace.bodies.append(body)
        pace.prompts.append(body.get("prompt") or body["messages"][-1]["content"])
        pace.arrivals.append(time.monotonic())
        pace.under_way += 1
        pace.most_under_way = max(pace.most_under_way, pace.under_way)
        try:
            async with slots:
                await answer(peer, body)
        finally:
            pace.under_way -= 1

    async def answer(peer: Peer, body: dict) -> None:
        running = body.get("stream_options", {}).get("continuous_usage_stats", False)
        await peer.stream([], end=False)
        if pace.prompts[-1] in pace.breaks:
            raise ConnectionResetError
        await asyncio.sleep(pace.first_s + pace.in_turn_s[len(pace.prompts) % len(pace.in_turn_s)])
        total = 0
        for number, tokens in enumerate(pace.chunk_tokens):
            if number:
                await asyncio.sleep(pace.gap_s)
            total += tokens
            await peer.chunk(delta(pace.letter * tokens, usage=usage(total) if running else None))
        await peer.chunk(delta(finish="length"))
        if body.get("stream_options", {}).get("include_usage"):
            await peer.chunk(sse({"choices": [], "usage": usage(total)}))
        await peer.chunk(b"data: [DONE]\n\n")
        await peer.send(b"0\r\n\r\n")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        try:
            path, body = await peer.body()
            if path == "/v1/models":
                await peer.reply("200 OK", b'{"data": [{"id": "good"}]}')
            elif path == "/metrics":
                text = pace.metrics(len(pace.prompts)) if callable(pace.metrics) else pace.metrics
                await peer.reply("200 OK" if text else "404 Not Found", text.encode())
            else:
                await complete(peer, body)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
