from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from specdecode.benchmark.http1 import MAX_HEAD_BYTES, HttpError, ResponseParser
from specdecode.benchmark.sse import SseParser

ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
DATA = st.binary(max_size=30).map(lambda data: data.replace(b"\r", b".").replace(b"\n", b"."))


@given(events=st.lists(st.lists(DATA, min_size=1, max_size=3), max_size=5), end=ENDS, comment=st.booleans())
def test_events_are_what_the_standard_says(events: list[list[bytes]], end: bytes, comment: bool) -> None:
    body = b""
    for lines in events:
        body += b"".join(b"data: " + line + end for line in lines) + (b": ping" + end if comment else b"") + end
    assert SseParser().feed(body + b":" + end) == [b"\n".join(lines) for lines in events]


def test_an_unfinished_event_is_not_an_event() -> None:
    parser = SseParser()
    assert parser.feed(b"data: one\n\ndata: two\ndata: thr") == [b"one"]
    assert parser.finish() == [b"two"]


def test_a_carriage_return_alone_ends_a_line() -> None:
    parser = SseParser()
    assert parser.feed(b"data: 0\n\n") == [b"0"]
    assert parser.feed(b"data: a\rdata: b\n\n") == [b"a\nb"]


def test_fields_that_only_look_like_data() -> None:
    assert SseParser().feed(b"datax: 1\ndata\ndata:2\n data: 3\n\n") == [b"\n2"]


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


@given(body=st.binary(max_size=300), data=st.data(), framing=st.sampled_from(["chunked", "length", "close"]))
def test_http_body_under_any_borders(body: bytes, data: st.DataObject, framing: str) -> None:
    if framing == "chunked":
        cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
        parts = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        framed = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"
        raw = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + framed
    elif framing == "length":
        raw = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    else:
        raw = HEAD + b"\r\n" + body
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=20)))
    parser = ResponseParser()
    got = b"".join(parser.feed(raw[start:end]) for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True))
    assert got == body
    assert parser.close()
    assert parser.status == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        HEAD + b"no colon\r\n\r\n",
        HEAD + b"Content-Length: 1e3\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x10\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        b"H" * 70_000,
    ],
)
def test_what_is_not_http_is_refused(raw: bytes) -> None:
    with pytest.raises(HttpError):
        ResponseParser().feed(raw)


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("step", [61, 1000, 10**6])
@pytest.mark.parametrize(
    ("before", "line", "after"),
    [
        (b"", HEAD + b"A: ", b"\r\n\r\nab"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", HEAD + b"A: ", b"\r\n\r\nab"),
        (CHUNKED, b"2;", b"\r\nab\r\n0\r\n\r\n"),
        (CHUNKED + b"2\r\nab\r\n0\r\n", b"A: ", b"\r\n\r\n"),
    ],
)
def test_a_longest_line_is_the_same_whatever_the_reads(
    before: bytes, line: bytes, after: bytes, step: int, more: int
) -> None:
    raw = before + line.ljust(MAX_HEAD_BYTES + more, b"x") + after
    parser, body = ResponseParser(), b""
    with pytest.raises(HttpError, match="does not end") if more else nullcontext():
        for start in range(0, len(raw), step):
            body += parser.feed(raw[start : start + step])
    assert more or (body == b"ab" and parser.close())


def test_a_short_body_is_not_whole() -> None:
    parser = ResponseParser()
    parser.feed(HEAD + b"Content-Length: 10\r\n\r\nabc")
    assert not parser.close()
