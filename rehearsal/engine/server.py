"""The HTTP server. Requests and engine steps share one thread: between two steps the event loop serves the clients."""

import asyncio
import hmac
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from aiohttp import web

from rehearsal.engine.completions import AnswerBody, drafts_of
from rehearsal.engine.errors import RequestRefused
from rehearsal.engine.metrics import CONTENT_TYPE
from rehearsal.engine.protocol import GenerateRequest, Kind, parse_request, parse_tokenize
from rehearsal.engine.sequence import Sequence, StepOutput
from rehearsal.engine.start_up import Engine
from rehearsal.engine.tokenizer import TextStream

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
OPEN_PATHS = ("/health", "/metrics")
"""Paths that need no API key. In vLLM too the key guards /v1 only."""


class EngineServer:
    """Routes, and the task that steps the engine while there is work. `engine` is None until it is loaded."""

    def __init__(self, *, model_name: str, api_key: str | None) -> None:
        self.engine: Engine | None = None
        self._model_name = model_name
        self._api_key = api_key
        self._started = int(time.time())
        self._outputs: dict[Sequence, asyncio.Queue[StepOutput]] = {}
        self._work = asyncio.Event()

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._guard], client_max_size=16 * 2**20)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/v1/completions", partial(self._generate, kind="completions"))
        app.router.add_post("/v1/chat/completions", partial(self._generate, kind="chat"))
        return app

    async def run(self) -> None:
        """Step the engine as long as there is work. If a step fails, this task ends with its exception."""
        while True:
            await self._work.wait()
            engine = self._loaded()
            while not engine.scheduler.idle:
                for sequence, output in engine.scheduler.step():
                    self._outputs[sequence].put_nowait(output)
                await asyncio.sleep(0)
            self._work.clear()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the API key. Refusals have the words of vLLM 0.32: OpenAI's format, except those of the key and the
        path.
        """
        try:
            if self._api_key is not None and request.path not in OPEN_PATHS:
                given = request.headers.get("Authorization", "")
                if not hmac.compare_digest(given.encode(), f"Bearer {self._api_key}".encode()):
                    return web.json_response({"error": "Unauthorized"}, status=401)
            return await handler(request)
        except RequestRefused as error:
            return _error(str(error), status=error.status, kind=error.kind, param=error.param)
        except web.HTTPException as error:
            return web.json_response({"detail": error.reason}, status=error.status)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.engine is not None else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._loaded().metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    async def _models(self, _: web.Request) -> web.Response:
        model = {
            "id": self._model_name,
            "object": "model",
            "created": self._started,
            "owned_by": "vllm",
            "root": self._model_name,
            "parent": None,
            "max_model_len": self._loaded().window,
        }
        return web.json_response({"object": "list", "data": [model]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        engine = self._loaded()
        ids = parse_tokenize(await _json(request), model=self._model_name, tokenizer=engine.tokenizer, bos=engine.bos)
        return web.json_response({"count": len(ids), "max_model_len": engine.window, "tokens": ids})

    async def _generate(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        engine = self._loaded()
        body = await _json(request)
        parsed = parse_request(
            kind, body, model=self._model_name, tokenizer=engine.tokenizer, bos=engine.bos, window=engine.window
        )
        answer = AnswerBody(parsed, model=self._model_name)
        sequence = self._sequence_of(parsed)
        if parsed.stream:
            return await self._stream(request, parsed, answer, sequence)
        parts = [output async for output in self._outputs_of(sequence)]
        return web.json_response(
            answer.whole(
                "".join(part.text for part in parts),
                finish_reason=parts[-1].finish_reason,
                stop_reason=parts[-1].stop_reason,
                completion_tokens=sum(len(part.tokens) for part in parts),
                drafts=self._drafts_of(sequence),
                read=None
                if parsed.prompt_logprobs is None
                else engine.reader.logprobs(parsed.prompt, parsed.prompt_logprobs),
            )
        )

    async def _stream(
        self, request: web.Request, parsed: GenerateRequest, answer: AnswerBody, sequence: Sequence
    ) -> web.StreamResponse:
        """Server-sent events: one for each step of the engine, with all tokens that the step accepted."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        count = 0
        async with aclosing(self._outputs_of(sequence)) as outputs:
            await response.prepare(request)
            async for output in outputs:
                if count == 0 and parsed.kind == "chat":
                    await response.write(_event(answer.role_chunk()))
                count += len(output.tokens)
                chunk = answer.step_chunk(
                    output.text,
                    finish_reason=output.finish_reason,
                    stop_reason=output.stop_reason,
                    completion_tokens=count,
                )
                await response.write(_event(chunk))
        if parsed.include_usage:
            await response.write(_event(answer.usage_chunk(count, self._drafts_of(sequence))))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    def _sequence_of(self, request: GenerateRequest) -> Sequence:
        engine = self._loaded()
        text = TextStream(tokenizer=engine.tokenizer, stop=request.sampling.stop, skip_prefix=request.pending)
        return Sequence(
            prompt_tokens=len(request.prompt),
            tokens=list(request.prompt),
            sampling=request.sampling,
            text=text,
            eos=engine.eos,
        )

    def _drafts_of(self, sequence: Sequence) -> dict[str, Any] | None:
        """The counts of an answer's drafts; None if the answer has none."""
        k = self._loaded().told_drafts
        return drafts_of(sequence, k) if k else None

    async def _outputs_of(self, sequence: Sequence) -> AsyncGenerator[StepOutput, None]:
        """The outputs of one request, step by step. If the caller leaves early (the client has gone), the request is
        aborted.
        """
        engine = self._loaded()
        queue = self._outputs[sequence] = asyncio.Queue()
        engine.scheduler.add(sequence)
        self._work.set()
        try:
            while True:
                output = await queue.get()
                yield output
                if output.finish_reason is not None:
                    return
        finally:
            engine.scheduler.abort(sequence)
            del self._outputs[sequence]

    def _loaded(self) -> Engine:
        if self.engine is None:
            raise RequestRefused("The model is not loaded yet.", status=503, kind="ServiceUnavailableError")
        return self.engine


async def _json(request: web.Request) -> Any:
    try:
        return await request.json()
    except (ValueError, UnicodeDecodeError) as error:
        raise RequestRefused(f"The request body is no JSON: {error}") from error


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def _error(message: str, *, status: int, kind: str, param: str | None) -> web.Response:
    return web.json_response(
        {"error": {"message": message, "type": kind, "param": param, "code": status}}, status=status
    )
