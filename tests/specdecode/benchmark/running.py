"""Runs a benchmark against paced servers and reads what it left."""

import asyncio
import io
from contextlib import AsyncExitStack
from pathlib import Path

from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.outcome import Options, Outcome
from specdecode.benchmark.progress import LoadProgress
from specdecode.benchmark.runner import Benchmark
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.records import RequestRecord

from tests.specdecode.benchmark.pace import Pace, paced_server


def run(spec: BenchmarkSpec, options: Options, *paces: Pace) -> Outcome:
    """The benchmark against one paced server an arm."""

    async def measure() -> Outcome:
        async with AsyncExitStack() as stack:
            urls = [await stack.enter_async_context(paced_server(pace)) for pace in paces]
            endpoints = {arm.variant: Endpoint.of(url) for arm, url in zip(spec.arms, urls, strict=True)}
            return await Benchmark(spec, endpoints, options, LoadProgress(io.StringIO())).run()

    return asyncio.run(measure())


def records(folder: Path, variant: str = "base", name: str = "case") -> list[RequestRecord]:
    lines = (folder / "raw" / variant / f"{name}.jsonl").read_text().splitlines()
    return [RequestRecord.model_validate_json(line) for line in lines]
