"""Sends one request on a connection of its own and records what came back and when."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from specdecode.benchmark.answer import Answer, AnswerError, error_in_body
from specdecode.benchmark.clock import Clock, LoopLag
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.http1 import HttpError, ResponseParser
from specdecode.benchmark.share import ALL, Share
from specdecode.benchmark.sse import EventTooLong, SseParser
from specdecode.benchmark.transport import connect
from specdecode.escape import clip, plain
from specdecode.records import Chunk, ErrorKind, RequestError, RequestRecord
from specdecode.untrusted import Unreadable, parse_json

MakeRecord = Callable[[], RequestRecord]
Deliver = Callable[[MakeRecord], None]
MAX_KEPT_BYTES = 1024 * 1024
"""Of an answer that is no event stream: enough for any error, and for a whole answer that was not streamed."""
PAUSE_S = 0.1
"""A request that fails sooner keeps its sender that long: a closed loop must not flood a server that refuses it."""


@dataclass(frozen=True, kw_only=True)
class PlannedRequest:
    """One request before it is sent."""

    case: str
    level: str
    index: int
    warmup: bool
    body: dict[str, Any]
    prompt: str
    """What is hashed into the record: the prompt text, or the messages as JSON."""
    input_tokens: int
    output_tokens: int
    timeout_s: float
    prompt_set: str | None = None
    """Set and id of the prompt, where it is one of a set."""
    prompt_id: str | None = None
    turn: int = 0


@dataclass(frozen=True, kw_only=True)
class Client:
    """Sends requests of one arm."""

    endpoint: Endpoint
    run_id: str
    variant: str
    round: int
    session: int
    clock: Clock
    loop_lag: LoopLag
    share: Share = ALL

    async def request(self, plan: PlannedRequest, deliver: Deliver, scheduled_s: float | None = None) -> None:
        """Send `plan`; `deliver` is called in every case, even when this task is cancelled.

        It gets a function that makes the record, to be called once and at leisure: with hundreds of streams, many of
        which end at once, making the records there and then would hold up the others.
        """
        exchange = _Exchange()
        started_at = time.time()
        attempted = time.monotonic()
        payload = self.endpoint.request_bytes("POST", self.endpoint.completions_path(plan.body), plan.body)
        error: RequestError | None = None
        connection = None
        try:
            async with asyncio.timeout(plan.timeout_s):
                try:
                    connection = await connect(self.endpoint.address, exchange)
                except OSError as failure:
                    error = _error(ErrorKind.CONNECT, f"cannot connect to {self.endpoint.url}: {failure}")
                else:
                    exchange.sent = time.monotonic()
                    try:
                        await connection.send(payload)
                    except OSError as failure:
                        exchange.closed(failure, time.monotonic())
                    await exchange.ended.wait()
                    error = exchange.error
        except TimeoutError:
            error = _error(ErrorKind.TIMEOUT, exchange.progress(plan.timeout_s))
        except asyncio.CancelledError:
            error = _error(ErrorKind.CANCELLED, "the benchmark was stopped")
            raise
        finally:
            if connection is not None:
                connection.close()
            sent = exchange.sent or attempted
            ended = time.monotonic()
            deliver(partial(self._record, plan, exchange, error, started_at, sent, ended, scheduled_s))
        if error is not None:
            await asyncio.sleep(max(0.0, attempted + PAUSE_S - ended))

    def _record(
        self,
        plan: PlannedRequest,
        exchange: _Exchange,
        error: RequestError | None,
        started_at: float,
        sent: float,
        ended: float,
        scheduled_s: float | None,
    ) -> RequestRecord:
        answer = exchange.answer
        answer.check_usage(plan.output_tokens)
        end = exchange.last_at if exchange.ended.is_set() and exchange.last_at else ended
        lag = max(exchange.lag, self.loop_lag.largest_since(sent))
        if error is None and not answer.chunks:
            error = _error(ErrorKind.EMPTY, "the answer ended without any text")
        if error is not None:
            error = error.model_copy(update={"message": self.endpoint.without_key(error.message)})
        return RequestRecord.model_construct(
            run_id=self.run_id,
            variant=self.variant,
            case=plan.case,
            round=self.round,
            level=plan.level,
            index=plan.index,
            turn=plan.turn,
            warmup=plan.warmup,
            started_at=started_at,
            scheduled_s=scheduled_s,
            sent_s=round(self.clock.since_start(sent), 9),
            end_s=round(end - sent, 9),
            chunks=tuple(
                [Chunk(at_s=round(at, 9), chars=n, tokens=t, reasoning_chars=r) for at, n, t, r in answer.chunks]
            ),
            requested_input_tokens=plan.input_tokens,
            requested_output_tokens=plan.output_tokens,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cached_tokens=answer.cached_tokens,
            drafted=answer.drafted,
            prompt_sha256=hashlib.sha256(plan.prompt.encode()).hexdigest(),
            prompt_set=plan.prompt_set,
            prompt_id=plan.prompt_id,
            output="".join(answer.parts),
            finish_reason=answer.finish_reason,
            error=error,
            client_lag_s=lag,
            time_doubt_s=lag if exchange.timed_by_read or exchange.merged else 0.0,
            doubtful_chunks=len(answer.chunks) if exchange.timed_by_read else exchange.merged,
            usage_problem=answer.usage_problem,
            events=answer.events,
            session=self.session,
            client=self.share.client,
            clients=self.share.clients,
        )


def _error(kind: ErrorKind, message: str, status: int | None = None) -> RequestError:
    return RequestError(kind=kind, message=clip(plain(message), 1000), http_status=status)


class _Exchange:
    """The answer's bytes on their way through HTTP, server-sent events and the completion (a transport.Sink)."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.ended = asyncio.Event()
        self.error: RequestError | None = None
        self.sent = 0.0
        self.last_at = 0.0
        self.lag = 0.0
        """Largest time that bytes lay in the kernel."""
        self.merged = 0
        """Chunks that came before the last one of their read: they may have arrived earlier than they are timed."""
        self.timed_by_read = False
        self._http = ResponseParser()
        self._sse: SseParser | None = None
        self._body = bytearray()

    def received(self, data: bytes, at: float, lag: float | None) -> None:
        if self.ended.is_set():
            return
        self.last_at = at
        if lag is None:
            self.timed_by_read = True
        elif lag > self.lag:
            self.lag = lag
        broken: HttpError | None = None
        try:
            body = self._http.feed(data)
        except HttpError as failure:
            body, broken = failure.body, failure
        try:
            if self._sse is None and self._http.status is not None:
                self._begin()
            if self._sse is None:
                self._body += body[: MAX_KEPT_BYTES - len(self._body)]
            elif body:
                before = len(self.answer.chunks)
                for event in self._sse.feed(body):
                    self.answer.take(event, at - self.sent)
                self.merged += max(0, len(self.answer.chunks) - before - 1)
        except EventTooLong as failure:
            self._end(_error(ErrorKind.PROTOCOL, str(failure)))
        except AnswerError as failure:
            self._end(_error(failure.kind, str(failure)))
        else:
            if self.answer.finished:
                self._end(None)
            elif broken is not None:
                self._end(_error(ErrorKind.PROTOCOL, str(broken)))
            elif self._http.complete:
                self._end_of_body(None)

    def closed(self, error: OSError | None, at: float) -> None:
        if self.ended.is_set():
            return
        self.last_at = at
        self._http.close()
        self._end_of_body(error)

    def progress(self, timeout_s: float) -> str:
        """How far the answer had come, for the message of a timeout."""
        if not self.sent:
            return f"no connection within {timeout_s:g} s"
        if not self.answer.chunks:
            return f"no text within {timeout_s:g} s"
        last = self.answer.chunks[-1][0]
        return f"not complete within {timeout_s:g} s: {len(self.answer.chunks)} chunks, the last after {last:.3f} s"

    def _begin(self) -> None:
        """The head is complete: an event stream is read as it comes, everything else is kept whole."""
        if self._http.status == 200 and "text/event-stream" in self._http.headers.get("content-type", ""):
            self._sse = SseParser()

    def _end_of_body(self, error: OSError | None) -> None:
        if self._sse is not None:
            try:
                for event in self._sse.finish():
                    self.answer.take(event, self.last_at - self.sent)
            except AnswerError as failure:
                self._end(_error(failure.kind, str(failure)))
                return
        status = self._http.status
        if self.answer.finished or (self.answer.whole and self._http.complete):
            self._end(None)
        elif error is not None:
            self._end(_error(ErrorKind.RESET, f"the connection broke: {error}"))
        elif status is None:
            self._end(_error(ErrorKind.RESET, "the server closed the connection before it answered"))
        elif status != 200:
            self._end(_error(ErrorKind.HTTP, f"status {status}: {error_in_body(bytes(self._body))}", status))
        elif self._sse is not None:
            chunks = len(self.answer.chunks)
            self._end(_error(ErrorKind.TRUNCATED, f"the stream ended after {chunks} chunks without saying it was done"))
        else:
            self._end(self._not_a_stream())

    def _not_a_stream(self) -> RequestError:
        try:
            message = parse_json(bytes(self._body))
        except Unreadable:
            message = None
        if isinstance(message, dict) and (message.get("error") or message.get("object") == "error"):
            return _error(ErrorKind.SERVER, error_in_body(bytes(self._body)))
        if not self._http.complete:
            return _error(ErrorKind.TRUNCATED, "the connection closed before the answer was complete")
        kind = self._http.headers.get("content-type", "no content type")
        return _error(ErrorKind.PROTOCOL, f"not an event stream ({kind}): {bytes(self._body[:200])!r}")

    def _end(self, error: RequestError | None) -> None:
        self.error = error
        self.ended.set()
