"""Sends requests, each on a connection of its own, and makes their records."""

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from specdecode.benchmark.clients import ALL, LoadSlice
from specdecode.benchmark.clock import Clock, LoopLag
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.exchange import Exchange, failure
from specdecode.benchmark.transport import connect
from specdecode.records import Chunk, ErrorKind, RequestError, RequestRecord

MakeRecord = Callable[[], RequestRecord]
Deliver = Callable[[MakeRecord], None]
PAUSE_S = 0.1
"""Least time of a failed request: a closed loop must not flood a server that refuses its requests."""


@dataclass(frozen=True, kw_only=True)
class PlannedRequest:
    """One request before it is sent."""

    case: str
    level: str
    index: int
    warmup: bool
    body: dict[str, Any]
    prompt: str
    """The prompt text, or the messages as JSON. The record has its hash."""
    input_tokens: int
    output_tokens: int
    timeout_s: float
    prompt_set: str | None = None
    """Set and id of the prompt. None if it comes from no set."""
    prompt_id: str | None = None
    turn: int = 0
    portion: int = 0


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
    load_slice: LoadSlice = ALL

    async def request(self, plan: PlannedRequest, deliver: Deliver, scheduled_s: float | None = None) -> None:
        """Send `plan`. `deliver` is called in every case, even if this task is cancelled.

        `deliver` gets a function that makes the record. It is to be called once, and later: hundreds of streams may
        end at once, and making their records at that moment would delay the streams that are still open.
        `scheduled_s`: second of the run at which the request was due (open loop); None in a closed loop.
        """
        exchange = Exchange()
        started_at = time.time()
        attempted = time.monotonic()
        payload = self.endpoint.request_bytes("POST", self.endpoint.completions_path(plan.body), plan.body)
        error: RequestError | None = None
        connection = None
        try:
            async with asyncio.timeout(plan.timeout_s):
                try:
                    connection = await connect(self.endpoint.address, exchange)
                except OSError as problem:
                    error = failure(ErrorKind.CONNECT, f"cannot connect to {self.endpoint.url}: {problem}")
                else:
                    exchange.sent = time.monotonic()
                    try:
                        await connection.send(payload)
                    except OSError as problem:
                        exchange.closed(problem, time.monotonic())
                    await exchange.ended.wait()
                    error = exchange.error
        except TimeoutError:
            error = failure(ErrorKind.TIMEOUT, exchange.progress(plan.timeout_s))
        except asyncio.CancelledError:
            error = failure(ErrorKind.CANCELLED, "the benchmark was stopped")
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
        exchange: Exchange,
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
            error = failure(ErrorKind.EMPTY, "the answer ended without any text")
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
            reasoning_tokens=answer.reasoning_tokens,
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
            portion=plan.portion,
            session=self.session,
            client=self.load_slice.client,
            clients=self.load_slice.clients,
        )
