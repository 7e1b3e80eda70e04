"""A chunk's time is when it arrived, also when this process was busy with something else."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest
from specdecode.records import RequestRecord

from tests.specdecode.benchmark.chaos import CHUNKED, delta, usage
from tests.specdecode.benchmark.making import client, keep_in, planned

BUSY_S = 0.3


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Server(threading.Thread):
    """Sends a chunk at each of `offsets` after the request came, from a thread, and records when it did."""

    def __init__(self, offsets: tuple[float, ...]) -> None:
        super().__init__(daemon=True)
        self.offsets = offsets
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.sent: list[float] = []

    def run(self) -> None:
        sock, _ = self.listener.accept()
        with sock, self.listener:
            sock.recv(65536)
            began = time.monotonic()
            sock.sendall(CHUNKED)
            for number, offset in enumerate(self.offsets):
                time.sleep(max(0.0, began + offset - time.monotonic()))
                self.sent.append(time.monotonic() - began)
                sock.sendall(chunk(delta(f"{number} ")))
            tail = delta(finish="length", usage=usage(len(self.offsets))) + b"data: [DONE]\n\n"
            time.sleep(0.4)
            sock.sendall(chunk(tail) + b"0\r\n\r\n")


def measure(*offsets: float) -> tuple[RequestRecord, list[float]]:
    server = Server(offsets)
    server.start()
    records: list[RequestRecord] = []

    async def run() -> None:
        asyncio.get_running_loop().call_later(0.3, time.sleep, BUSY_S)  # busy from 0.3 s to 0.6 s
        url = f"http://127.0.0.1:{server.listener.getsockname()[1]}"
        sender = client(url)
        watching = asyncio.create_task(sender.loop_lag.watch())
        await sender.request(planned("m"), keep_in(records))
        watching.cancel()

    asyncio.run(run())
    assert records[0].error is None, records[0].error
    return records[0], server.sent


def test_a_busy_client_does_not_make_a_server_late() -> None:
    record, sent = measure(0.05, 0.4)
    if record.client_lag_s == 0:
        pytest.skip("this kernel does not time what it receives")
    assert [c.at_s for c in record.chunks] == pytest.approx(sent, abs=0.1)
    assert 0.15 < record.client_lag_s < 0.5
    assert record.time_doubt_s == 0 and record.doubtful_chunks == 0


def test_chunks_that_are_read_together_are_doubtful() -> None:
    record, sent = measure(0.05, 0.35, 0.45)
    if record.client_lag_s == 0:
        pytest.skip("this kernel does not time what it receives")
    assert record.chunks[2].at_s == pytest.approx(sent[2], abs=0.1)
    assert record.chunks[1].at_s >= sent[1]
    assert record.time_doubt_s >= record.chunks[1].at_s - sent[1]
    assert record.time_doubt_s > 0.1 and record.doubtful_chunks == 1


def test_a_chunk_read_soon_after_another_was_missed_is_doubtful_too() -> None:
    """The last chunk of a read lay for 10 ms only, the one before it for 250 ms."""
    record, sent = measure(0.05, 0.15, 0.39)
    if record.client_lag_s == 0:
        pytest.skip("this kernel does not time what it receives")
    assert record.time_doubt_s >= record.chunks[1].at_s - sent[1] - 0.06
