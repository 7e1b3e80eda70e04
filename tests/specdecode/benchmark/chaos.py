"""A server on 127.0.0.1 that misbehaves on request: the model's name says how."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

TOKENS = 8
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


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
        b"data: [DONE]\n\n",
    ]


class Peer:
    """The server's side of one connection."""

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
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def stream(self, events: list[bytes], *, end: bool = True) -> None:
        await self.send(CHUNKED)
        for event in events:
            await self.chunk(event)
        if end:
            await self.send(b"0\r\n\r\n")

    async def reply(self, status: str, content: bytes, kind: str = "application/json") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
        await self.send(head.encode() + content)

    def reset(self) -> None:
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Behaviour = Callable[[Peer], Awaitable[None]]
BEHAVIOURS: dict[str, Behaviour] = {}


def behaviour(function: Behaviour) -> Behaviour:
    BEHAVIOURS[function.__name__.replace("_", "-")] = function
    return function


@behaviour
async def good(peer: Peer) -> None:
    await peer.stream(answer())


@behaviour
async def reset_at_once(peer: Peer) -> None:
    peer.reset()


@behaviour
async def closes_without_an_answer(peer: Peer) -> None:
    pass


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
async def cut_in_the_middle(peer: Peer) -> None:
    await peer.stream(answer()[:4], end=False)


@behaviour
async def ends_in_the_middle(peer: Peer) -> None:
    await peer.stream(answer()[:4])


@behaviour
async def cut_within_an_event(peer: Peer) -> None:
    await peer.stream([*answer()[:3], b'data: {"choices": [{"de'])


@behaviour
async def status_400(peer: Peer) -> None:
    await peer.reply("400 Bad Request", b'{"error": {"message": "too long", "code": 400}}')


@behaviour
async def status_404_as_vllm_writes_it(peer: Peer) -> None:
    await peer.reply("404 Not Found", b'{"object": "error", "message": "no such model", "code": 404}')


@behaviour
async def status_429(peer: Peer) -> None:
    await peer.reply("429 Too Many Requests", b"slow down", "text/plain")


@behaviour
async def status_503_cut_short(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 1000\r\n\r\nno capac")


@behaviour
async def not_http(peer: Peer) -> None:
    await peer.send(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")


@behaviour
async def bad_chunk_size(peer: Peer) -> None:
    await peer.send(CHUNKED + b"zz\r\n")


@behaviour
async def malformed_json(peer: Peer) -> None:
    await peer.stream([answer()[1], b"data: {'choices': []}\n\n", *answer()[2:]])


@behaviour
async def json_that_is_no_object(peer: Peer) -> None:
    await peer.stream([b"data: 17\n\n", *answer()])


@behaviour
async def event_without_choices(peer: Peer) -> None:
    await peer.stream([sse({"hello": "world"}), *answer()])


@behaviour
async def delta_that_is_no_object(peer: Peer) -> None:
    await peer.stream([sse({"choices": [{"delta": "text"}]}), *answer()])


@behaviour
async def invalid_utf8(peer: Peer) -> None:
    await peer.stream([b'data: {"choices": [{"delta": {"content": "\xff\xfe"}}]}\n\n', *answer()])


@behaviour
async def surrogate_bytes(peer: Peer) -> None:
    await peer.stream([b'data: {"choices": [{"delta": {"content": "\xed\xa0\x80"}}]}\n\n', *answer()])


@behaviour
async def error_in_the_stream(peer: Peer) -> None:
    await peer.stream([*answer()[:4], sse({"error": {"message": "engine died", "code": 500}}), b"data: [DONE]\n\n"])


@behaviour
async def error_object_in_a_200(peer: Peer) -> None:
    await peer.reply("200 OK", b'{"error": {"message": "out of memory"}}')


@behaviour
async def page_in_a_200(peer: Peer) -> None:
    await peer.reply("200 OK", b"<html>login</html>", "text/html")


@behaviour
async def does_not_stream(peer: Peer) -> None:
    await peer.reply("200 OK", b'{"choices": [{"message": {"content": "all at once"}}]}')


@behaviour
async def no_text(peer: Peer) -> None:
    await peer.stream([delta("", role="assistant"), delta(finish="stop"), b"data: [DONE]\n\n"])


@behaviour
async def only_done(peer: Peer) -> None:
    await peer.stream([b"data: [DONE]\n\n"])


@behaviour
async def no_usage(peer: Peer) -> None:
    await peer.stream([event for event in answer() if b"usage" not in event])


@behaviour
async def usage_too_small(peer: Peer) -> None:
    await peer.stream(answer(counted=3))


@behaviour
async def usage_too_large(peer: Peer) -> None:
    await peer.stream(answer(counted=4000))


@behaviour
async def usage_negative(peer: Peer) -> None:
    await peer.stream(answer(counted=-8))


@behaviour
async def usage_as_text(peer: Peer) -> None:
    events = answer()
    events[-2] = sse({"choices": [], "usage": {"prompt_tokens": "5", "completion_tokens": "8"}})
    await peer.stream(events)


@behaviour
async def usage_as_number(peer: Peer) -> None:
    events = answer()
    events[-2] = sse({"choices": [], "usage": 8})
    await peer.stream(events)


@behaviour
async def empty_deltas(peer: Peer) -> None:
    events = answer()
    padded = [piece for event in events[:-2] for piece in (delta(""), delta(), event)]
    await peer.stream([*padded, *events[-2:]])


@behaviour
async def keep_alive_comments(peer: Peer) -> None:
    await peer.stream([piece for event in answer() for piece in (b": ping\n\n", b"event: x\nid: 1\nretry: 5\n", event)])


@behaviour
async def reasoning(peer: Peer) -> None:
    events = answer(4)
    thoughts = [delta(reasoning_content="hm "), delta(reasoning="ah "), delta("so ", reasoning_content="thus ")]
    events[-2] = sse({"choices": [], "usage": usage(8)})
    await peer.stream([events[0], *thoughts, *events[1:]])


@behaviour
async def one_giant_chunk(peer: Peer) -> None:
    text = "word " * 300_000
    await peer.stream(
        [delta(text), delta(finish="length"), sse({"choices": [], "usage": usage(8)}), b"data: [DONE]\n\n"]
    )


@behaviour
async def all_in_one_read(peer: Peer) -> None:
    body = b"".join(answer())
    await peer.send(CHUNKED + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")


@behaviour
async def byte_by_byte(peer: Peer) -> None:
    body = b"".join(answer())
    for byte in CHUNKED + f"{len(body):X};ext=1\r\n".encode() + body + b"\r\n0\r\nTrailer: x\r\n\r\n":
        await peer.send(bytes([byte]))
        await asyncio.sleep(0)


@behaviour
async def content_length(peer: Peer) -> None:
    body = b"".join(answer())
    await peer.send(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)


@behaviour
async def until_close(peer: Peer) -> None:
    await peer.send(HEAD + b"\r\n" + b"".join(answer()))


@behaviour
async def until_close_without_done(peer: Peer) -> None:
    await peer.send(HEAD + b"\r\n" + b"".join(answer()[:-1]))


@behaviour
async def carriage_returns(peer: Peer) -> None:
    await peer.stream([event.replace(b"\n", b"\r\n") for event in answer()])


@behaviour
async def after_a_continue(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    await peer.stream(answer())


@behaviour
async def stays_open_after_done(peer: Peer) -> None:
    await peer.stream(answer(), end=False)
    await asyncio.sleep(30)


@behaviour
async def running_usage(peer: Peer) -> None:
    texts = [("a", 1), ("bcd", 4), ("e", 4), ("fgh", 8)]
    events = [delta(text, usage=usage(count)) for text, count in texts]
    await peer.stream([*events, delta(finish="length", usage=usage(8)), b"data: [DONE]\n\n"])


async def _lies_while_it_runs(peer: Peer, *counts: int) -> None:
    events = [delta("x", usage=usage(count)) for count in counts]
    await peer.stream([*events, delta(finish="length", usage=usage(counts[-1])), b"data: [DONE]\n\n"])


@behaviour
async def running_usage_huge_in_the_middle(peer: Peer) -> None:
    await _lies_while_it_runs(peer, 1, 2**53, TOKENS)


@behaviour
async def running_usage_huge_to_the_end(peer: Peer) -> None:
    await _lies_while_it_runs(peer, 1, 2**31, 2**31 + 1)


@behaviour
async def lone_surrogate_escape(peer: Peer) -> None:
    await peer.stream([b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\n\n', *answer()[2:]])


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
