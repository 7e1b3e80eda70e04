"""Makes the bodies of requests, sends each request on a connection of its own, and makes its record."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from specdecode.benchmark.answer import Answer
from specdecode.benchmark.clients import ALL, LoadSlice
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.exchange import Exchange, failure
from specdecode.benchmark.prompts import Prompt
from specdecode.benchmark.transport import connect
from specdecode.experiment.workload import Workload
from specdecode.measures.plausibility import WATCH_S
from specdecode.records import Chunk, ErrorKind, RequestError, RequestRecord

MakeRecord = Callable[[], RequestRecord]
Deliver = Callable[[MakeRecord], None]
PAUSE_S = 0.1
"""Least time of a failed request: a closed loop must not flood a server that refuses its requests."""
_NOTABLE_LAG_S = 0.001


class LoopLag:
    """Measures delays of the event loop: if its tick is late, everything else in the loop is late too."""

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque(maxlen=4096)

    async def watch(self) -> None:
        """Run beside the load until cancelled."""
        while True:
            expected = time.monotonic() + WATCH_S
            await asyncio.sleep(WATCH_S)
            now = time.monotonic()
            if now - expected > _NOTABLE_LAG_S:
                self._late.append((now, now - expected))

    def largest_since(self, monotonic: float) -> float:
        """Largest delay noticed since then, in seconds; 0 below a millisecond."""
        return max((late for at, late in self._late if at >= monotonic), default=0.0)


@dataclass(frozen=True, kw_only=True)
class BodyDialect:
    """What a server accepts beyond the OpenAI API. The probe finds it out."""

    running_usage: bool = True
    """`stream_options.continuous_usage_stats`: usage with every chunk, so that each chunk's tokens are known."""
    usage: bool = True
    """`stream_options.include_usage`."""
    exact_length: bool = True
    """`ignore_eos` and `min_tokens`."""


def request_body(
    *,
    model: str,
    prompt: Prompt,
    index: int,
    workload: Workload,
    dialect: BodyDialect,
    output_tokens: int | None = None,
) -> dict[str, Any]:
    """Body of request `index`. It is the same in all arms except for `model` and the dialect."""
    tokens = output_tokens or prompt.output_tokens or workload.output_tokens
    body: dict[str, Any] = {"model": model, "stream": True, "max_tokens": tokens, "temperature": workload.temperature}
    if workload.endpoint == "chat":
        body["messages"] = list(prompt.chat)
    else:
        body["prompt"] = prompt.text
    if dialect.usage:
        body["stream_options"] = {"include_usage": True}
        if dialect.running_usage:
            body["stream_options"]["continuous_usage_stats"] = True
    if workload.temperature > 0:
        body["seed"] = workload.seed + index
    if workload.ignore_eos and dialect.exact_length:
        body["ignore_eos"] = True
        body["min_tokens"] = tokens
    if workload.thinking is not None and "messages" in body:
        body["chat_template_kwargs"] = {"enable_thinking": workload.thinking}
    return body


def _not_whole(answer: Answer) -> RequestError | None:
    """Why an answer that the server ended in order is no whole one. vLLM and the OpenAI API give a `finish_reason` with
    every whole one.
    """
    if not answer.chunks:
        return failure(ErrorKind.EMPTY, "the answer ended without any text")
    if not answer.whole:
        return failure(ErrorKind.TRUNCATED, "the server ended its answer without a finish_reason: it may be cut off")
    return None


@dataclass(frozen=True, kw_only=True)
class PlannedRequest:
    """One request before it is sent."""

    case: str
    level: str
    index: int
    warmup: bool
    body: dict[str, Any]
    prompt: Prompt
    timeout_s: float
    portion: int = 0


@dataclass(frozen=True, kw_only=True)
class Client:
    """Sends requests of one arm."""

    endpoint: Endpoint
    run_id: str
    variant: str
    round: int
    session: int
    origin: float
    """The run's second 0 on the monotonic clock."""
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
        path = "/v1/chat/completions" if "messages" in plan.body else "/v1/completions"
        payload = self.endpoint.request_bytes("POST", path, plan.body)
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
                    connection.send(payload)
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
            sent = attempted if exchange.sent is None else exchange.sent
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
        answer.check_usage(plan.body["max_tokens"], exact=bool(plan.body.get("ignore_eos")))
        end = ended if exchange.last_at is None or not exchange.ended.is_set() else exchange.last_at
        lag = max(exchange.lag, self.loop_lag.largest_since(sent))
        error = error or _not_whole(answer)
        if error is not None:
            error = error.model_copy(update={"message": self.endpoint.without_key(error.message)})
        return RequestRecord.model_construct(
            run_id=self.run_id,
            variant=self.variant,
            case=plan.case,
            round=self.round,
            level=plan.level,
            index=plan.index,
            turn=plan.prompt.turn,
            warmup=plan.warmup,
            started_at=started_at,
            scheduled_s=scheduled_s,
            sent_s=round(sent - self.origin, 9),
            end_s=round(end - sent, 9),
            chunks=tuple(
                [Chunk(at_s=round(at, 9), chars=n, tokens=t, reasoning_chars=r) for at, n, t, r in answer.chunks]
            ),
            requested_input_tokens=plan.prompt.input_tokens,
            requested_output_tokens=plan.body["max_tokens"],
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cached_tokens=answer.cached_tokens,
            reasoning_tokens=answer.reasoning_tokens,
            drafted=answer.drafted,
            prompt_sha256=plan.prompt.sha256,
            prompt_set=plan.prompt.set,
            prompt_id=plan.prompt.id,
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
