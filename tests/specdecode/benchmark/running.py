"""Runs a benchmark against paced servers and reads what it left."""

import asyncio
import io
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.loading import Options
from specdecode.benchmark.progress import LoadProgress
from specdecode.benchmark.runner import Benchmark, Outcome
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.records import RequestRecord

from tests.specdecode.benchmark.pace import Pace, paced_server


def benchmark(spec: BenchmarkSpec, options: Options, *urls: str) -> Benchmark:
    """The benchmark of servers, one an arm."""
    endpoints = {arm.variant: Endpoint.of(url) for arm, url in zip(spec.arms, urls, strict=True)}
    return Benchmark(spec, endpoints, options, LoadProgress(io.StringIO()))


def run(spec: BenchmarkSpec, options: Options, *servers: Pace | AbstractAsyncContextManager[str] | str) -> Outcome:
    """The benchmark against a server for each arm: one of a pace, one to start, or an address."""

    async def measure() -> Outcome:
        async with AsyncExitStack() as stack:
            starting = [paced_server(server) if isinstance(server, Pace) else server for server in servers]
            urls = [each if isinstance(each, str) else await stack.enter_async_context(each) for each in starting]
            return await benchmark(spec, options, *urls).run()

    return asyncio.run(measure())


def records(folder: Path, variant: str = "base", name: str = "case") -> list[RequestRecord]:
    lines = (folder / "raw" / variant / f"{name}.jsonl").read_text().splitlines()
    return [RequestRecord.model_validate_json(line) for line in lines]
