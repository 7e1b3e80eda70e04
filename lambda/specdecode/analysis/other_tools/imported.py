"""What is read from other tools' files: an arm as its tool measured it, and how a file is read.

What LLMPerf's figures mean (ray-project/llmperf f1d6bed): output tokens are the text counted again with a Llama
tokenizer (begin-of-sequence token included), whatever the model's own; `inter_token_latency_s` is end-to-end latency
over streamed chunks, unless the Neuron patches were applied; a throughput's 99th percentile is its best request.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from specdecode.experiment.base import Frozen
from specdecode.experiment.workload import MOST_AT_A_TIME
from specdecode.measures.distribution import Summary, summarize
from specdecode.measures.plausibility import AGREE, LENGTHS
from specdecode.records.record import MOST_COUNTED, measured
from specdecode.untrusted import Unreadable, in_words, parse_json, quoted, read_file

LLMPERF = "LLMPerf (token_benchmark_ray.py)"
VLLM, AIPERF, GUIDELLM = "vllm bench serve", "AIPerf", "GuideLLM"
MEANS = {
    VLLM: "its mean_itl_ms is the time between chunks, and with speculation a chunk holds several tokens: it says the "
    "opposite of the truth and is not used; its throughput is over the whole run, with the time in which the load "
    "rises and falls; requests that waited for a free place (--max-concurrency) did so before their time began",
    AIPERF: "its inter_token_latency is the time per output token after the first, its inter_chunk_latency is the time "
    "between chunks and is not used; the TTFT of a request on a new connection holds the time to connect; without "
    "--use-server-token-count its tokens are counted again by a tokenizer at the client",
    GUIDELLM: "its time_per_output_token_ms is the whole latency divided by all tokens: it contains the time "
    "to the first token and is not used; its inter_token_latency_ms is what is called time per output token here",
}
"""Tool -> what its own figures mean, for whoever compares them with these."""
FIELDS = {
    "ttft_s": "ttft",
    "end_to_end_latency_s": "end_to_end_latency",
    "inter_token_latency_s": "inter_token_latency",
    "request_output_throughput_token_per_s": "request_output_throughput",
    "number_output_tokens": "output_tokens",
    "number_input_tokens": "input_tokens",
    "time_per_output_token_s": "time_per_output_token",
}
Request = dict[str, float]
"""A completed request: field, as LLMPerf calls it (FIELDS) -> value."""
MOST_FIGURE = 1e12
MOST_REQUESTS = 10_000_000
Figure = Annotated[float, Field(ge=0, le=MOST_FIGURE), AfterValidator(measured)]
MAX_TIMESTAMP = 4_102_444_800
"""The year 2100."""
Moment = Annotated[float, Field(ge=0, le=MAX_TIMESTAMP)]
"""Seconds since the epoch."""
MOST_SHOWN = 60
MOST_LINES = 200_000
Model = TypeVar("Model", bound=BaseModel)


class ImportProblem(ValueError):
    """The files are no LLMPerf results; the message lists every problem and what to do."""


class ImportedArm(Frozen):
    """One arm as a tool measured it: LLMPerf's summary with its single responses, or another tool's requests."""

    name: str
    tool: str = LLMPERF
    model: str
    max_tokens: int
    """`mean_output_tokens`: what the server was asked for at most; of other tools the most that it made."""
    concurrency: int | None
    """None if the files do not say it."""
    completed: int
    errors: int
    metrics: dict[str, Summary]
    """Figures of the requests (of LLMPerf: of its summary) under this project's names, not corrected."""
    stated: dict[str, Summary] = Field(default_factory=dict)
    """The tool's own statistics, by the same names."""
    overall_throughput: float | None = None
    timestamp: float = 0.0
    """When it was measured, seconds since the epoch; 0 if the file does not say."""
    conditions: dict[str, str] = Field(default_factory=dict)
    """How it was measured: load, lengths and sampling, as the file has them."""
    requests: tuple[Request, ...] = ()

    def value(self, metric: str, statistic: str) -> float | None:
        """One figure, None if the file has none."""
        summary = self.metrics.get(metric)
        return getattr(summary, statistic) if summary else None

    def best_known(self, metric: str) -> tuple[str, float] | None:
        """The best statistic of a figure that the file has: median, else mean, else the 99th percentile."""
        for statistic in ("p50", "mean", "p99"):
            if (found := self.value(metric, statistic)) is not None:
                return statistic, found
        return None

    @property
    def weights(self) -> str:
        """Name of the model without the folders that it lies in."""
        return self.model.rstrip("/").rpartition("/")[2].lower()

    @property
    def load_is_said(self) -> bool:
        """Whether the files say how many requests ran at a time, or how they came."""
        return self.concurrency is not None or any(key in self.conditions for key in ("request_rate", "rate", "type"))

    @property
    def counted(self) -> float | None:
        """Output tokens a request by LLMPerf's count."""
        found = self.best_known("output_tokens")
        return found[1] if found else None

    @property
    def tokens(self) -> float:
        """Output tokens a request, corrected: a count above what was asked for is another tokenizer's."""
        counted = self.counted
        return float(self.max_tokens) if counted is None or counted > self.max_tokens else counted

    @property
    def total_tokens(self) -> float:
        """Output tokens of all completed requests, corrected: request by request if the file lists them."""
        each = [request.get("number_output_tokens") for request in self.requests]
        known = [min(found, float(self.max_tokens)) for found in each if found is not None]
        return sum(known) if known and len(known) == self.completed else self.tokens * self.completed

    @property
    def itl_formula(self) -> Literal["neuron", "stock", "unknown"]:
        """Which formula `inter_token_latency_s` follows: (e2e - ttft)/(tokens - 1), or e2e/chunks."""
        found = [self.best_known(metric) for metric in ("inter_token_latency", "end_to_end_latency", "ttft")]
        itl, e2e, ttft = (item[1] if item else None for item in found)
        if itl is None or e2e is None or ttft is None or not self.counted or self.counted < 2:
            return "unknown"
        patched = (e2e - ttft) / (self.counted - 1.0)
        return "neuron" if abs(itl - patched) < AGREE * abs(patched) else "stock"


def completed_request(ttft_s: float, latency_s: float, output_tokens: int, input_tokens: int) -> Request:
    """A request of seconds, and of tokens by the count that the tool used."""
    found: Request = {
        "ttft_s": ttft_s,
        "end_to_end_latency_s": latency_s,
        "number_output_tokens": float(output_tokens),
        "number_input_tokens": float(input_tokens),
    }
    if latency_s > 0:
        found["request_output_throughput_token_per_s"] = output_tokens / latency_s
    if output_tokens > 1:
        found["time_per_output_token_s"] = (latency_s - ttft_s) / (output_tokens - 1)
    return found


def own_statistics(
    completed: int, columns: Mapping[str, Mapping[str, Any]], *, scale: float = 1.0
) -> dict[str, Summary]:
    """A tool's own statistics: metric -> statistic -> value * `scale`. Raises ImportProblem for one beyond bounds."""
    found = {}
    for metric, column in columns.items():
        known = {name: value * scale for name, value in column.items() if isinstance(value, int | float)}
        if wrong := next((name for name, value in known.items() if not 0 <= value <= MOST_FIGURE), None):
            raise ImportProblem(f"its {wrong} {metric} of {known[wrong]:g} s is no measurement")
        if known:
            told = {name: measured(value) for name, value in known.items()}
            found[metric] = Summary.model_validate({"n": completed, **told})
    return found


def tool_arm(
    name: str,
    tool: str,
    requests: Sequence[Request],
    *,
    model: str,
    concurrency: int | None,
    completed: int,
    failed: int,
    took_s: float,
    tokens: float,
    timestamp: float,
    conditions: dict[str, Any],
    stated: dict[str, Summary],
) -> ImportedArm:
    """An arm of the requests that its tool lists; without them of the tool's own statistics."""
    if not requests and not stated:
        raise ImportProblem(
            f"{name}: {tool} completed no request that has a time to its first token and a count of tokens"
        )
    if completed + failed > MOST_REQUESTS:
        raise ImportProblem(f"{name}: {completed + failed:,} requests: {tool} measures no more than {MOST_REQUESTS:,}")
    columns = {metric: [each[field] for each in requests if field in each] for field, metric in FIELDS.items()}
    longest = round(max(columns["output_tokens"], default=tokens / max(1, completed)))
    for length, metric in zip(LENGTHS, ("input_tokens", "output_tokens"), strict=True):
        mean = sum(columns[metric]) / max(1, len(columns[metric]))
        conditions = {**conditions, length: f"{mean:.1f}".removesuffix(".0") if mean else None}
    return ImportedArm(
        name=name,
        tool=tool,
        model=model,
        max_tokens=min(max(1, longest), MOST_COUNTED),
        concurrency=None if concurrency is None else min(concurrency, MOST_AT_A_TIME),
        completed=completed,
        errors=failed,
        metrics={key: summarize(values) for key, values in columns.items() if values} if requests else stated,
        stated=stated,
        overall_throughput=tokens / took_s if took_s > 0 else None,
        timestamp=timestamp,
        conditions={key: str(value)[:MOST_SHOWN] for key, value in conditions.items() if value is not None},
        requests=tuple(requests),
    )


def read_json(file: Path) -> Any:
    """A JSON file of any kind. Raises ImportProblem."""
    try:
        return parse_json(read_file(file))
    except Unreadable as error:
        several = ": a file of --append-result? Give one with one result" if "Extra data" in str(error) else ""
        raise ImportProblem(f"{file}: {error}{several}") from None


def read(model: type[Model], document: Any, file: Path, tool: str) -> Model:
    """`document` as `model`. Raises ImportProblem, which names the file and every field that is wrong."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise ImportProblem(f"{file}: no result of {tool}, {lacks(error)}") from None


def lacks(error: ValidationError) -> str:
    """`it lacks a, b` and what is wrong with the other fields."""
    found = error.errors(include_url=False)
    missing = [".".join(map(str, item["loc"])) for item in found if item["type"] == "missing"]
    wrong = [unusable(item["loc"], item) for item in found if item["type"] != "missing"]
    return "; ".join([*([f"it lacks {', '.join(missing)}"] if missing else []), *wrong])


def unusable(place: Sequence[str | int], problem: Mapping[str, Any]) -> str:
    """What pydantic says of a value at `place` of a file. The first index of a place is a request's; of a request that
    no clock measures it says what to do.
    """
    given = problem["input"]
    value = f", not {quoted(given)[:MOST_SHOWN]}" if isinstance(given, str | int | float) else ""
    at = next((n for n, part in enumerate(place) if isinstance(part, int)), None)
    field = ".".join(str(part) for n, part in enumerate(place) if n != at)
    request = f"request {int(place[at]) + 1}: " if at is not None else ""
    negative = len(place) > 1 and problem["type"] == "greater_than_equal"
    fix = ": measure again, or leave that request out of the file" if negative else ""
    return f"{request}{field}: {in_words(problem)}{value}{fix}"


def lines(file: Path, model: type[Model], tool: str) -> Iterator[Model]:
    """Each line of a JSON Lines file."""
    try:
        text = read_file(file)
    except Unreadable as error:
        raise ImportProblem(f"{file}: {error}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if number > MOST_LINES:
            raise ImportProblem(f"{file}: more than {MOST_LINES:,} requests: give a part of them")
        if line.strip():
            try:
                yield read(model, parse_json(line), file, tool)
            except (Unreadable, ImportProblem) as error:
                raise ImportProblem(f"{file}, line {number}: {error}") from None


def inside(value: Any, *keys: str | int) -> Any:
    """Value under these keys of objects and places of lists. None if there is nothing."""
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(key)
        else:
            value = value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None
    return value


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
