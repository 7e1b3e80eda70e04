"""The life of a server process: listen, load, serve until a signal, leave."""

import asyncio
import signal
import sys
from contextlib import suppress

from aiohttp import web

from rehearsal.engine.config import ServeSettings
from rehearsal.engine.errors import EngineSettingsError
from rehearsal.engine.server import EngineServer
from rehearsal.engine.start_up import load_engine

SHUTDOWN_SECONDS = 0.5
"""Longest wait for open connections after a signal, in seconds. Then streams are cut."""


async def serve(settings: ServeSettings) -> int:
    """Serve until SIGTERM or SIGINT (status 0). If the engine fails, its exception is raised. /health answers 503 while
    the models are loaded or compiled. Raises EngineSettingsError.
    """
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = EngineServer(model_name=settings.served_model_name, api_key=settings.api_key)
    runner = web.AppRunner(
        server.application(), access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS
    )
    await runner.setup()
    tasks = [asyncio.create_task(stopped.wait()), asyncio.create_task(_load_and_run(settings, server, runner))]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        await runner.cleanup()
    _log("stopped")
    return 0


async def _load_and_run(settings: ServeSettings, server: EngineServer, runner: web.AppRunner) -> None:
    site = web.TCPSite(runner, settings.host, settings.port)
    try:
        await site.start()
    except OSError as error:
        raise EngineSettingsError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from error
    _log(f"Initializing a V1 LLM engine (v0+rehearsal) with config: {_configuration(settings)}")
    _log(f"loading {settings.model}")
    server.engine = await asyncio.to_thread(load_engine, settings)
    host, port = runner.addresses[0][:2]
    _log(f"{server.engine.summary}; serving {settings.served_model_name} on http://{host}:{port}")
    await server.run()


def _configuration(settings: ServeSettings) -> str:
    """As vLLM's VllmConfig says it."""
    drafts = settings.speculative
    speculative = None
    if drafts:
        method, model, num_spec_tokens = (
            drafts.method or "draft_model",
            str(drafts.model),
            drafts.num_speculative_tokens,
        )
        speculative = f"SpeculativeConfig({method=}, {model=}, {num_spec_tokens=})"
    told = {
        "model": repr(str(settings.model)),
        "speculative_config": speculative,
        "tokenizer": repr(str(settings.model)),
        "dtype": "torch.float32",
        "max_seq_len": settings.max_model_len,
        "tensor_parallel_size": settings.tensor_parallel_size,
        "served_model_name": settings.served_model_name,
        "enable_prefix_caching": False,
        "enable_chunked_prefill": False,
    }
    return ", ".join(f"{name}={value}" for name, value in told.items())


def _log(text: str) -> None:
    print(f"INFO vllm serve: {text}", file=sys.stderr, flush=True)
