"""Models of the files of vLLM's `bench serve`, AIPerf and GuideLLM: the fields that are read, checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from specdecode.analysis.other_tools.llmperf_results import MAX_TIMESTAMP, Figure, ImportProblem, lacks
from specdecode.untrusted import Unreadable, parse_json, read_file

Text = Annotated[str, StringConstraints(max_length=500)]
Tokens = Annotated[int, Field(ge=0, le=2**31)]
SECONDS = {"sec": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
Model = TypeVar("Model", bound=BaseModel)


class Lenient(BaseModel):
    """Reads the fields that it knows. A newer version of a tool may write more."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Vllm(Lenient):
    """Output of `vllm bench serve --save-result`. The lists need --save-detailed."""

    model_id: Text
    completed: Tokens
    failed: Tokens = 0
    date: Text = ""
    duration: Figure
    max_concurrency: Annotated[int, Field(ge=1, le=100_000)] | None = None
    request_rate: Text | float | None = None
    total_output_tokens: Tokens
    mean_ttft_ms: Figure
    ttfts: tuple[Figure, ...] = ()
    latencies: tuple[Figure, ...] = ()
    itls: tuple[tuple[Figure, ...], ...] = ()
    output_lens: tuple[Tokens, ...] = ()
    input_lens: tuple[Tokens, ...] = ()
    errors: tuple[str, ...] = ()


class Value(Lenient):
    """A figure of AIPerf with its unit."""

    value: Figure
    unit: Text


class AiperfMetrics(Lenient):
    """Figures of one request."""

    time_to_first_token: Value | None = None
    request_latency: Value | None = None
    usage_completion_tokens: Value | None = None
    output_sequence_length: Value | None = None
    input_sequence_length: Value | None = None


class AiperfPhase(Lenient):
    """Which part of the run a request belongs to."""

    benchmark_phase: Text = "profiling"


class AiperfRecord(Lenient):
    """A line of profile_export.jsonl."""

    metadata: AiperfPhase = AiperfPhase()
    metrics: AiperfMetrics = AiperfMetrics()
    error: Any = None


class GuidellmRequest(Lenient):
    """A request that ended well."""

    time_to_first_token_ms: Figure | None = None
    request_latency: Figure
    output_tokens: Tokens | None = None
    prompt_tokens: Tokens | None = None
    request_args: str | None = None


class GuidellmRequests(Lenient):
    """Requests of one benchmark, by how they ended."""

    successful: tuple[GuidellmRequest, ...]
    errored: tuple[Any, ...] | None = None
    incomplete: tuple[Any, ...] | None = None


class GuidellmConfig(Lenient):
    """How the load was made."""

    strategy: dict[str, Any] = Field(default_factory=dict)
    sample_size: int | None = None


class GuidellmBenchmark(Lenient):
    """One load."""

    config: GuidellmConfig = GuidellmConfig()
    requests: GuidellmRequests
    start_time: Figure = 0.0
    duration: Figure


def read(model: type[Model], document: Any, file: Path, tool: str) -> Model:
    """`document` as `model`. Raises ImportProblem, which names the file and every field that is wrong."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise ImportProblem(f"{file}: no result of {tool}, {lacks(error)}") from None


def lines(file: Path, model: type[Model], tool: str) -> Iterator[Model]:
    """Each line of a JSON Lines file."""
    try:
        text = read_file(file)
    except Unreadable as error:
        raise ImportProblem(f"{file}: {error}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield read(model, parse_json(line), file, tool)
            except (Unreadable, ImportProblem) as error:
                raise ImportProblem(f"{file}, line {number}: {error}") from None


def seconds(file: Path, value: Value) -> float:
    """A figure with a unit of time, in seconds."""
    if value.unit not in SECONDS:
        raise ImportProblem(f"{file}: {value.unit!r} is no unit of time; known are {', '.join(SECONDS)}")
    return value.value * SECONDS[value.unit]


def inside(value: Any, *keys: str) -> Any:
    """Value under these keys. None if there is nothing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def first(value: Any) -> Any:
    """The first of a list. None if there is none."""
    return value[0] if isinstance(value, list) and value else None


def number(value: Any) -> float:
    """A figure that may be missing: then 0."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value <= 1e12 else 0.0


def count(value: Any) -> int | None:
    """A count that may be missing."""
    return value if isinstance(value, int) and value > 0 else None


def moment(text: str, form: str) -> float:
    """Seconds since the epoch for a time as a tool writes it (taken for UTC). 0 if it is no time."""
    try:
        found = datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return found if 0 <= found <= MAX_TIMESTAMP else 0.0


def asked_model(requests: Sequence[GuidellmRequest]) -> str:
    """The model that GuideLLM's requests name."""
    for request in requests[:1]:
        try:
            found = inside(json.loads(request.request_args or "null"), "body", "model")
        except ValueError:
            found = None
        if isinstance(found, str):
            return found[:500]
    return "unknown"
