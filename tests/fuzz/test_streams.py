"""Bytes from servers: whatever they are and wherever reads cut them, the same events, in bounded time and memory."""

import asyncio
import json
import random
import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from specdecode.benchmark import answer, sse
from specdecode.benchmark.endpoint import MAX_BODY_BYTES, _WholeBody
from specdecode.benchmark.exchange import Exchange
from specdecode.benchmark.http1 import HttpError, ResponseParser
from specdecode.benchmark.sse import EventTooLong, SseParser
from specdecode.records import RequestError, RequestRecord

from tests.fuzz.profile import RNGS, fuzz, soon
from tests.specdecode.benchmark.making import client as a_client
from tests.specdecode.benchmark.making import planned

LINES = [
    *(b"data: ", b"data:", b"data", b"event: x", b": comment", b"id: 1", b"retry: 10", b"\xef\xbb\xbf", b"", b"datum"),
    *(b"\xc3", b"\xa9", b"\xf0\x9f", b"\x98\x80", b"\x00", b"\xff" * 3, b" ", b"data: [DONE]", b"x" * 300),
]
ENDS = [b"\n", b"\r\n", b"\r", b"", b"\n\n", b"\r\n\r\n", b"\n\r"]
VALUES = [
    *(None, True, 0, -1, 1, 10**30, 1e308, float("nan"), "", "a", "é😀", "\ud800", "\x1b[2J", [], {}, ["x"], {"a": 1}),
    "length", "\u2028", "x" * 3000, [[[[]]]],
]  # fmt: skip
KEYS = [
    *("choices", "delta", "content", "text", "reasoning_content", "reasoning", "finish_reason", "usage", "error"),
    *("prompt_tokens", "completion_tokens", "message", "object", "role", "index", "id"),
]


def stream(rng: random.Random) -> bytes:
    return b"".join(rng.choice(LINES) + rng.choice(ENDS) for _ in range(rng.randrange(25)))


def pieces(rng: random.Random, body: bytes) -> list[bytes]:
    """`body` cut anywhere, or into single bytes."""
    if rng.random() < 0.2:
        return [body[at : at + 1] for at in range(len(body))]
    cuts = sorted(rng.choices(range(len(body) + 1), k=rng.randrange(12)))
    return [body[start:end] for start, end in pairwise([0, *cuts, len(body)])]


def events(parts: list[bytes]) -> list[bytes] | str:
    parser = SseParser()
    found: list[bytes] = []
    try:
        for part in parts:
            found += parser.feed(part)
        return found + parser.finish()
    except EventTooLong as error:
        return str(error)


@fuzz(60)
@given(RNGS)
def test_events_do_not_depend_on_where_reads_end(rng: random.Random) -> None:
    for _ in range(4):
        body = stream(rng)
        with soon():
            assert events(pieces(rng, body)) == events(pieces(rng, body)) == events([body])


@fuzz(20)
@given(RNGS)
def test_an_event_that_never_ends_costs_bounded_memory(rng: random.Random) -> None:
    line = rng.choice([b"data: x\n", b"data\n", b"data: " + b"x" * 999 + b"\r", b"x" * 1000, b"data:" + b"\xff" * 70])
    limit, sse.MAX_EVENT_BYTES = sse.MAX_EVENT_BYTES, 20_000
    parser = SseParser()
    try:
        with soon():
            for _ in range(30):
                parser.feed(line * rng.randrange(1, 60))
                assert parser._size + len(parser._tail) <= 20_000 + len(line)
            for _ in range(400):
                parser.feed(line)
        raise AssertionError("it was never refused")
    except EventTooLong:
        pass
    finally:
        sse.MAX_EVENT_BYTES = limit


def message(rng: random.Random, depth: int = 0) -> object:
    if depth < 3 and rng.random() < 0.7:
        keys = rng.choices(KEYS, k=rng.randrange(1, 5))
        made = {key: message(rng, depth + 1) for key in keys}
        if depth == 0 and rng.random() < 0.9:
            made["choices"] = [message(rng, 1) for _ in range(rng.randrange(3))]
        return made
    return rng.choice(VALUES)


def good(rng: random.Random) -> bytes:
    text = rng.choice(["t ", "é😀", "\u2028", "\ud800", "\x1b[31m"])
    return json.dumps(
        {"choices": [{"delta": {"content": text}, "finish_reason": rng.choice([None, "stop", 5])}]}
    ).encode()


def body(rng: random.Random) -> bytes:
    made = []
    for _ in range(rng.randrange(8)):
        kind = rng.random()
        data = good(rng) if kind < 0.5 else json.dumps(message(rng)).encode() if kind < 0.85 else stream(rng)
        made.append(b"data: " + data + rng.choice([b"\n\n", b"\r\n\r\n", b"\n"]))
    made.insert(
        rng.randrange(len(made) + 1) if rng.random() < 0.2 else len(made), rng.choice([b"", b"data: [DONE]\n\n"])
    )
    return b"".join(made)


def framed(rng: random.Random, content: bytes) -> bytes:
    """A response, mostly right: chunked, with a length or until the end; sizes and lengths wrong now and then."""
    status = rng.choice([b"200 OK", b"200 OK", b"200", b"503 Slow", b"100 Continue", b"204 No", b"999 x", b"20"])
    kind = rng.choice([b"text/event-stream", b"text/event-stream; charset=utf-8", b"application/json", b"\xff"])
    head = b"HTTP/1.1 " + status + b"\r\nContent-Type: " + kind + b"\r\n"
    wrong = rng.random() < 0.3
    match rng.randrange(3):
        case 0:
            parts = pieces(rng, content)
            sizes = [len(part) + (rng.choice([0, 1, -1, 10**6]) if wrong else 0) for part in parts]
            chunks = [b"%x\r\n%s\r\n" % (max(size, 0), part) for size, part in zip(sizes, parts, strict=True) if part]
            return (
                head
                + b"Transfer-Encoding: chunked\r\n\r\n"
                + b"".join(chunks)
                + rng.choice([b"0\r\n\r\n", b"", b"zz\r\n"])
            )
        case 1:
            length = (
                rng.choice([b"0", b"-1", b"9" * 30, b"9" * 5000, b"1e3", b"\xb2", b"5"])
                if wrong
                else b"%d" % len(content)
            )
            return head + b"Content-Length: " + length + b"\r\n\r\n" + content
        case _:
            return rng.choice([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]) + head + b"\r\n" + content


def record_of(exchange: Exchange) -> RequestRecord:
    now = exchange.last_at = time.monotonic()
    made = a_client("http://127.0.0.1:1")._record(planned("m"), exchange, exchange.error, 0.0, now, now + 1, None)
    line = made.model_dump_json()
    line.encode("utf-8")
    assert RequestRecord.model_validate_json(line) == made
    return made


def exchanged(parts: list[bytes]) -> tuple[str, str | None, int | None, RequestError | None]:
    async def run() -> tuple[str, str | None, int | None, RequestError | None]:
        exchange = Exchange()
        exchange.sent = 0.0
        for part in parts:
            exchange.received(part, 0.5, None)
        exchange.closed(None, 0.6)
        assert exchange.ended.is_set()
        made = record_of(exchange)
        return made.output, made.finish_reason, made.completion_tokens, made.error

    return asyncio.run(run())


@fuzz(40)
@given(RNGS)
def test_any_response_becomes_one_record_whatever_the_reads(rng: random.Random) -> None:
    for _ in range(3):
        raw = framed(rng, body(rng))
        raw = raw if rng.random() < 0.8 else raw[: rng.randrange(len(raw))]
        with soon():
            assert exchanged([part for part in pieces(rng, raw) if part]) == exchanged([raw] if raw else [])


@fuzz(40)
@given(st.binary(max_size=400), RNGS)
def test_any_bytes_are_a_response_or_an_error(raw: bytes, rng: random.Random) -> None:
    with soon():
        exchanged([part for part in pieces(rng, b"HTTP/1.1 200 OK\r\n" * rng.randrange(2) + raw) if part])


@fuzz(60)
@given(RNGS)
def test_a_whole_answer_is_bounded(rng: random.Random) -> None:
    async def run() -> None:
        sink = _WholeBody()
        for part in pieces(rng, framed(rng, body(rng))):
            sink.received(part, 0.0, None)
        sink.closed(None, 0.0)
        assert sink.ended.is_set()
        assert len(sink.body) <= MAX_BODY_BYTES

    with soon():
        asyncio.run(run())


@fuzz(30)
@given(st.binary(max_size=120))
def test_a_parser_refuses_with_its_own_error_only(raw: bytes) -> None:
    parser = ResponseParser()
    with soon():
        try:
            parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + raw)
            parser.close()
        except HttpError:
            pass


@fuzz(30)
@given(st.binary(max_size=300))
def test_the_error_in_a_body_is_short_text(raw: bytes) -> None:
    for data in (raw, b'{"error": ' + raw + b"}", b"[" * 100_000):
        with soon():
            assert len(answer.error_in_body(data)) <= 600
