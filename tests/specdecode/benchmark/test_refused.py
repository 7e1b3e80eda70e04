"""A server that answers before it has read the request is heard at once, and no other connection suffers for it."""

import asyncio
import json
import socket
from contextlib import ExitStack
from dataclasses import replace

import pytest
from specdecode.benchmark.client import PlannedRequest
from specdecode.records import ErrorKind, RequestRecord

from tests.specdecode.benchmark.chaos import BODY, HEAD, TOKENS
from tests.specdecode.benchmark.making import client, keep_in, planned

UNREAD = 32 * 2**20
"""Bytes of a prompt: more than the kernel takes for a server that does not read."""
SAID = b'{"error": "too large!"}'
REFUSAL = b"HTTP/1.1 413 Payload Too Large\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(SAID)


def large(*, timeout_s: float = 60) -> PlannedRequest:
    plan = planned("m", timeout_s=timeout_s)
    return replace(plan, body={**plan.body, "messages": [{"role": "user", "content": "x" * UNREAD}]})


class Listener:
    """A server that does what the test says, a connection at a time."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._sock = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.url = f"http://127.0.0.1:{self._sock.getsockname()[1]}"

    async def taken(self) -> socket.socket:
        """A connection that has begun to send, and its first bytes read."""
        sock = self._stack.enter_context((await asyncio.to_thread(self._sock.accept))[0])
        await asyncio.to_thread(sock.recv, 4096)
        return sock


def read_whole(sock: socket.socket) -> None:
    """Read a request to its end: a JSON object."""
    last = b""
    while not last.endswith(b"}"):
        last = sock.recv(2**20)


@pytest.mark.parametrize("closing", ["stays open", "half closed", "reset"])
def test_a_refusal_of_a_request_that_is_still_being_written_is_that_refusal(closing: str) -> None:
    async def run() -> list[RequestRecord]:
        found: list[RequestRecord] = []
        with ExitStack() as stack:
            server = Listener(stack)
            asking = asyncio.create_task(client(server.url).request(large(), keep_in(found)))
            sock = await server.taken()
            sock.sendall(REFUSAL + SAID)
            if closing == "half closed":
                sock.shutdown(socket.SHUT_WR)
            elif closing == "reset":
                sock.close()
            await asking
        return found

    (record,) = asyncio.run(run())
    assert record.error is not None and record.error.kind is ErrorKind.HTTP, record.error
    assert (record.error.http_status, record.error.message) == (413, "status 413: too large!")


@pytest.mark.parametrize("ends", ["refused", "out of time", "cancelled"])
def test_a_connection_whose_request_was_not_written_leaves_the_next_one_alone(ends: str) -> None:
    """The next one gets its descriptor, and writes and reads on it."""

    async def run() -> list[RequestRecord]:
        found: list[RequestRecord] = []
        with ExitStack() as stack:
            deaf, good = Listener(stack), Listener(stack)
            plan = large(timeout_s=0.05 if ends == "out of time" else 60)
            asking = asyncio.create_task(client(deaf.url).request(plan, keep_in(found)))
            sock = await deaf.taken()
            descriptors = len(asyncio.get_running_loop()._selector.get_map())
            if ends == "refused":
                sock.sendall(REFUSAL + SAID)
                sock.shutdown(socket.SHUT_WR)
            elif ends == "cancelled":
                asking.cancel()
            while len(asyncio.get_running_loop()._selector.get_map()) == descriptors and not asking.done():
                await asyncio.sleep(0)
            next_one = asyncio.create_task(client(good.url).request(large(), keep_in(found)))
            answering = await good.taken()
            await asyncio.to_thread(read_whole, answering)
            answering.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
            await next_one
            await asyncio.gather(asking, return_exceptions=True)
        return found

    refused, answered = asyncio.run(run())
    kinds = {"refused": ErrorKind.HTTP, "out of time": ErrorKind.TIMEOUT, "cancelled": ErrorKind.CANCELLED}
    assert refused.error is not None and refused.error.kind is kinds[ends]
    assert answered.error is None and len(answered.chunks) == TOKENS, json.dumps(str(answered.error))
