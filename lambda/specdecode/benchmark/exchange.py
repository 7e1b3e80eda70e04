"""Reads the bytes of one answer as they come: what they say, when each chunk came, and how the answer ended."""

import asyncio

from specdecode.benchmark.answer import Answer, AnswerError, error_in_body
from specdecode.benchmark.http1 import HttpError, ResponseParser
from specdecode.benchmark.sse import EventTooLong, SseParser
from specdecode.escape import clip, plain
from specdecode.records import ErrorKind, RequestError
from specdecode.untrusted import Unreadable, parse_json

EVENTS = "text/event-stream"
MAX_KEPT_BYTES = 1024 * 1024
"""Bytes kept of an answer that is no event stream: enough for an error, or for an answer that was not streamed."""


def failure(kind: ErrorKind, message: str, status: int | None = None) -> RequestError:
    """An error whose message is safe to show."""
    return RequestError(kind=kind, message=clip(plain(message), 1000), http_status=status)


class Exchange:
    """Reads one answer: bytes -> HTTP -> server-sent events -> completion (a `transport.Sink`)."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.ended = asyncio.Event()
        self.error: RequestError | None = None
        self.sent: float | None = None
        """When the request was sent, on the clock of `transport.Sink`. None: not yet."""
        self.last_at: float | None = None
        """When the last byte of the answer, or its end, came. None: nothing came after the request was sent."""
        self.lag = 0.0
        """Longest time, in seconds, that bytes lay in the kernel before they were read."""
        self.merged = 0
        """Chunks that one read brought together with a later chunk: they may have arrived before the time they have."""
        self.timed_by_read = False
        self._http = ResponseParser()
        self._sse: SseParser | None = None
        self._body = bytearray()

    def received(self, data: bytes, at: float, lag: float | None) -> None:
        if self.ended.is_set():
            return
        if self.sent is None or (self.last_at is None and at < self.sent):
            self._end(failure(ErrorKind.PROTOCOL, "the server answered before it was asked"))
            return
        self.last_at = at = self._not_before(at)
        if lag is None:
            self.timed_by_read = True
        elif lag > self.lag:
            self.lag = lag
        broken: HttpError | None = None
        try:
            body = self._http.feed(data)
        except HttpError as problem:
            body, broken = problem.body, problem
        try:
            if self._sse is None and self._http.status == 200 and EVENTS in self._content_type:
                self._sse = SseParser()  # an event stream is parsed as it comes; the start of any other body is kept
            if self._sse is None:
                self._body += body[: MAX_KEPT_BYTES - len(self._body)]
            elif body:
                before = len(self.answer.chunks)
                for event in self._sse.feed(body):
                    if not self.answer.finished:  # what comes after the end counts no more if the same read brings it
                        self.answer.take(event, at - self.sent)
                self.merged += max(0, len(self.answer.chunks) - before - 1)
        except EventTooLong as problem:
            self._end(failure(ErrorKind.PROTOCOL, str(problem)))
        except AnswerError as problem:
            self._end(failure(problem.kind, str(problem)))
        else:
            if self.answer.finished:
                self._end(None)
            elif broken is not None:
                self._end(failure(ErrorKind.PROTOCOL, str(broken)))
            elif self._http.complete:
                self._end_of_body(None)

    def closed(self, error: OSError | None, at: float) -> None:
        if self.ended.is_set():
            return
        if self.sent is not None:
            self.last_at = self._not_before(at)
        self._http.close()
        self._end_of_body(error)

    def progress(self, timeout_s: float) -> str:
        """How much of the answer has come, for the message of a timeout."""
        if self.sent is None:
            return f"no connection within {timeout_s:g} s"
        if not self.answer.chunks:
            return f"no text within {timeout_s:g} s"
        last = self.answer.chunks[-1][0]
        return f"not complete within {timeout_s:g} s: {len(self.answer.chunks)} chunks, the last after {last:.3f} s"

    def _not_before(self, at: float) -> float:
        """`at`, and not before earlier bytes: the kernel tells a read by the wall clock, to some microseconds."""
        return at if self.last_at is None else max(self.last_at, at)

    @property
    def _content_type(self) -> str:
        return self._http.headers.get("content-type", "no content type")

    def _end_of_body(self, error: OSError | None) -> None:
        if self._sse is not None and self.last_at is not None and self.sent is not None:
            try:
                for event in self._sse.finish():
                    self.answer.take(event, self.last_at - self.sent)
            except AnswerError as problem:
                self._end(failure(problem.kind, str(problem)))
                return
        status = self._http.status
        if self.answer.finished or (self.answer.whole and self._http.complete):
            self._end(None)
        elif error is not None:
            self._end(failure(ErrorKind.RESET, f"the connection broke: {error}"))
        elif status is None:
            self._end(failure(ErrorKind.RESET, "the server closed the connection before it answered"))
        elif status != 200:
            self._end(failure(ErrorKind.HTTP, f"status {status}: {error_in_body(bytes(self._body))}", status))
        elif self._sse is not None:
            chunks = len(self.answer.chunks)
            what = f"the stream ended after {chunks} chunks without saying it was done"
            self._end(failure(ErrorKind.TRUNCATED, what))
        else:
            self._end(self._not_a_stream())

    def _not_a_stream(self) -> RequestError:
        try:
            message = parse_json(bytes(self._body))
        except Unreadable:
            message = None
        if isinstance(message, dict) and (message.get("error") or message.get("object") == "error"):
            return failure(ErrorKind.SERVER, error_in_body(bytes(self._body)))
        if not self._http.complete:
            return failure(ErrorKind.TRUNCATED, "the connection closed before the answer was complete")
        what = f"not an event stream ({self._content_type}): {bytes(self._body[:200])!r}"
        return failure(ErrorKind.PROTOCOL, what)

    def _end(self, error: RequestError | None) -> None:
        self.error = error
        self.ended.set()
