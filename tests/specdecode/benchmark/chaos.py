"""A server on 127.0.0.1 that misbehaves on request: the model's name says how."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

TOKENS = 8
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def sse(message: object) -> bytes:
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def delta(text: str | None = None, *, finish: str | None = None, usage: dict | None = None, **extra: object) -> bytes:
    content = {} if text is None else {"content": text}
    message = {"choices": [{"index": 0, "delta": {**content, **extra}, "finish_reason": finish}]}
    return sse(message if usage is None else {**message, "usage": usage})


def usage(tokens: int) -> dict:
    return {"prompt_tokens": 5, "completion_tokens": tokens}


def answer(tokens: int = TOKENS, *, counted: int | None = None) -> list[bytes]:
    """A well-behaved stream, event by event."""
    counted = tokens if counted is None else counted
    return [
        delta("", role="assistant"),
        *(delta(f"t{number} ") for number in range(tokens)),
        delta(finish="length"),
        sse({"choices": [], "usage": usage(counted)}),
        DONE,
    ]


def chunked(data: bytes) -> bytes:
    return b"%x\r\n" % len(data) + data + b"\r\n"


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def body(self) -> tuple[str, dict]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        length = [line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-length")]
        content = await self._reader.readexactly(int(length[0])) if length else b""
        return head.split(" ")[1], json.loads(content) if content else {}

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def chunk(self, data: bytes) -> None:
        await self.send(chunked(data))

    async def stream(self, events: list[bytes], *, end: bool = True) -> None:
        await self.send(CHUNKED)
        for event in events:
            await self.chunk(event)
        if end:
            await self.send(b"0\r\n\r\n")

    async def reply(self, status: str, content: bytes) -> None:
        kind = "application/json" if content.startswith(b"{") else "text/plain"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
        await self.send(head.encode() + content)

    def reset(self) -> None:
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


def _usage_is(found: object) -> list[bytes]:
    return [*answer()[:-2], sse({"choices": [], "usage": found}), DONE]


def _counts_while_it_runs(*counts: int) -> list[bytes]:
    return [*(delta("x", usage=usage(n)) for n in counts), delta(finish="length", usage=usage(counts[-1])), DONE]


def _padded(*before: bytes) -> list[bytes]:
    return [piece for event in answer()[:-2] for piece in (*before, event)] + answer()[-2:]


BODY = b"".join(answer())
UNENDED = b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n'
STREAMS: dict[str, list[bytes]] = {
    "good": answer(),
    "ends-in-the-middle": answer()[:4],
    "done-without-a-reason": [event for event in answer() if b'"length"' not in event],
    "cut-within-an-event": [*answer()[:3], b'data: {"choices": [{"de'],
    "malformed-json": [answer()[1], b"data: {'choices': []}\n\n", *answer()[2:]],
    "json-that-is-no-object": [b"data: 17\n\n", *answer()],
    "event-without-choices": [sse({"hello": "world"}), *answer()],
    "delta-that-is-no-object": [sse({"choices": [{"delta": "text"}]}), *answer()],
    "invalid-utf8": [UNENDED % b"\xff\xfe", *answer()],
    "surrogate-bytes": [UNENDED % b"\xed\xa0\x80", *answer()],
    "lone-surrogate-escape": [UNENDED % rb"\ud83d", *answer()[2:]],
    "error-in-the-stream": [*answer()[:4], sse({"error": {"message": "engine died", "code": 500}}), DONE],
    **{
        f"ends-by-{why}": [*answer()[:-3], delta(finish=why), *answer()[-2:]] for why in ("error", "abort", "cancelled")
    },
    "no-text": [delta("", role="assistant"), delta(finish="stop"), DONE],
    "only-done": [DONE],
    "no-usage": [event for event in answer() if b"usage" not in event],
    "usage-too-small": answer(counted=3),
    "usage-too-large": answer(counted=4000),
    "usage-negative": answer(counted=-8),
    "usage-as-text": _usage_is({"prompt_tokens": "5", "completion_tokens": "8"}),
    "usage-as-number": _usage_is(8),
    "empty-deltas": _padded(delta(""), delta()),
    "keep-alive-comments": _padded(b": ping\n\n", b"event: x\nid: 1\nretry: 5\n"),
    "reasoning": [
        answer()[0],
        *(delta(reasoning_content="hm "), delta(reasoning="ah "), delta("so ", reasoning_content="thus ")),
        *answer(4, counted=8)[1:],
    ],
    "one-giant-chunk": [delta("word " * 300_000), *answer()[-3:]],
    "carriage-returns": [event.replace(b"\n", b"\r\n") for event in answer()],
    "running-usage": [
        *(delta(text, usage=usage(n)) for text, n in (("a", 1), ("bcd", 4), ("e", 4), ("fgh", 8))),
        delta(finish="length", usage=usage(8)),
        DONE,
    ],
    "running-usage-huge-in-the-middle": _counts_while_it_runs(1, 2**53, TOKENS),
    "running-usage-of-a-part": [
        *(delta("x", usage=usage(n)) for n in (1, 2, 3)),
        delta(finish="length", usage=usage(3)),
        *answer()[-2:],
    ],
    "running-usage-of-0": [*(delta("x", usage=usage(0)) for _ in range(TOKENS)), *answer()[-3:]],
    "running-usage-huge-to-the-end": _counts_while_it_runs(1, 2**31, 2**31 + 1),
}
"""What comes as a stream that is ended in order."""
REPLIES = {
    "status-400": ("400 Bad Request", b'{"error": {"message": "too long", "code": 400}}'),
    "status-404-as-vllm-writes-it": ("404 Not Found", b'{"object": "error", "message": "no such model", "code": 404}'),
    "status-429": ("429 Too Many Requests", b"slow down"),
    "error-object-in-a-200": ("200 OK", b'{"error": {"message": "out of memory"}}'),
    "page-in-a-200": ("200 OK", b"<html>login</html>"),
    "does-not-stream": ("200 OK", b'{"choices": [{"message": {"content": "all at once"}}]}'),
}
SENT = {
    "closes-without-an-answer": b"",
    "status-503-cut-short": b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 1000\r\n\r\nno capac",
    "not-http": b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    "bad-chunk-size": CHUNKED + b"zz\r\n",
    "cut-in-the-middle": CHUNKED + b"".join(chunked(event) for event in answer()[:4]),
    "all-in-one-read": CHUNKED + chunked(BODY) + b"0\r\n\r\n",
    "content-length": HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
    "until-close": HEAD + b"\r\n" + BODY,
    "until-close-without-done": HEAD + b"\r\n" + b"".join(answer()[:-1]),
    "after-a-continue": b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + chunked(BODY) + b"0\r\n\r\n",
}
"""What is sent byte for byte before the connection is closed."""
Behaviour = Callable[[Peer], Awaitable[None]]
BEHAVIOURS: dict[str, Behaviour] = {
    **{name: partial(Peer.stream, events=events) for name, events in STREAMS.items()},
    **{name: partial(Peer.reply, status=status, content=content) for name, (status, content) in REPLIES.items()},
    **{name: partial(Peer.send, data=data) for name, data in SENT.items()},
}


def behaviour(function: Behaviour) -> Behaviour:
    BEHAVIOURS[function.__name__.replace("_", "-")] = function
    return function


@behaviour
async def reset_at_once(peer: Peer) -> None:
    peer.reset()


@behaviour
async def stalls_before_the_head(peer: Peer) -> None:
    await asyncio.sleep(30)


@behaviour
async def stalls_before_the_first(peer: Peer) -> None:
    await peer.send(CHUNKED)
    await asyncio.sleep(30)


@behaviour
async def stalls_in_the_middle(peer: Peer) -> None:
    await peer.stream(answer()[:4], end=False)
    await asyncio.sleep(30)


@behaviour
async def babbles_comments_for_ever(peer: Peer) -> None:
    await peer.send(CHUNKED)
    while True:
        await peer.chunk(b": still here\n\n")
        await asyncio.sleep(0.02)


@behaviour
async def reset_in_the_middle(peer: Peer) -> None:
    await peer.stream(answer()[:4], end=False)
    await asyncio.sleep(0.05)
    peer.reset()


@behaviour
async def byte_by_byte(peer: Peer) -> None:
    for byte in CHUNKED + f"{len(BODY):X};ext=1\r\n".encode() + BODY + b"\r\n0\r\nTrailer: x\r\n\r\n":
        await peer.send(bytes([byte]))
        await asyncio.sleep(0)


@behaviour
async def stays_open_after_done(peer: Peer) -> None:
    await peer.stream(answer(), end=False)
    await asyncio.sleep(30)


@asynccontextmanager
async def chaos_server() -> AsyncIterator[str]:
    """Yields the server's URL."""
    tasks: set[asyncio.Task] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        peer = Peer(reader, writer)
        try:
            path, body = await peer.body()
            if path == "/v1/models":
                await peer.reply("200 OK", json.dumps({"data": [{"id": name} for name in BEHAVIOURS]}).encode())
            elif path == "/metrics":
                await peer.reply("404 Not Found", b"")
            else:
                await BEHAVIOURS[body["model"]](peer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
