"""Small makers that several tests of the benchmark share."""

import time
from collections.abc import Sequence

from specdecode.benchmark.client import Client, Deliver, LoopLag, PlannedRequest
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.prompts import Prompt
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkSpec
from specdecode.experiment.workload import PromptKind, TestCase, Workload
from specdecode.records import Chunk, ErrorKind, RequestError, RequestRecord


def client(url: str, *, variant: str = "base") -> Client:
    return Client(
        endpoint=Endpoint.of(url),
        run_id="run",
        variant=variant,
        round=0,
        session=0,
        origin=time.monotonic(),
        loop_lag=LoopLag(),
    )


def keep_in(records: list[RequestRecord]) -> Deliver:
    return lambda make: records.append(make())


def planned(model: str, *, index: int = 0, timeout_s: float = 120, output_tokens: int = 8) -> PlannedRequest:
    messages = [{"role": "user", "content": "hi"}]
    return PlannedRequest(
        case="case",
        level="c1",
        index=index,
        warmup=False,
        body={"model": model, "stream": True, "messages": messages, "max_tokens": output_tokens},
        prompt=Prompt(text="hi", input_tokens=1),
        timeout_s=timeout_s,
    )


def record(
    times: Sequence[float] = (0.1, 0.2),
    *,
    tokens: int | None = None,
    chunk_tokens: Sequence[int | None] | None = None,
    end: float | None = None,
    error: ErrorKind | None = None,
    **fields: object,
) -> RequestRecord:
    """A record whose chunks arrived at `times`, one character each."""
    per_chunk = chunk_tokens or [None] * len(times)
    given = {
        "run_id": "run",
        "variant": "base",
        "case": "case",
        "index": 0,
        "started_at": 1_795_000_000.0,
        "sent_s": 0.0,
        "end_s": end if end is not None else (times[-1] if times else 0.0),
        "chunks": tuple(Chunk(at_s=at, chars=1, tokens=n) for at, n in zip(times, per_chunk, strict=True)),
        "requested_input_tokens": 64,
        "requested_output_tokens": 600,
        "prompt_tokens": 64,
        "completion_tokens": len(times) if tokens is None else tokens,
        "prompt_sha256": "0" * 64,
        "output": "x" * max(len(times), tokens or 0),
        "finish_reason": "length",
        "error": None if error is None else RequestError(kind=error, message="broken"),
        "events": len(times),
    }
    return RequestRecord.model_validate({**given, **fields})


def case(name: str = "case", *, text: str = "hello", kind: PromptKind = PromptKind.TEXT) -> TestCase:
    return TestCase(name=name, label=name, kind=kind, text=text, structured=True)


def spec(*, arms: Sequence[str] = ("base",), model: str = "good", **workload: object) -> BenchmarkSpec:
    given = {"cases": (case(),), "input_tokens": 64, "output_tokens": 8, "requests": 4, "timeout_s": 120}
    return BenchmarkSpec(
        run_id="run",
        experiment="experiment",
        wave=0,
        round=0,
        model=model,
        arms=tuple(BenchmarkArm(variant=name, label=name.upper()) for name in arms),
        workload=Workload.model_validate({**given, **workload}),
    )
