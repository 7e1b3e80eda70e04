"""Results of LLMPerf's `token_benchmark_ray.py`: its two JSON files, read and checked.

What the figures mean (ray-project/llmperf f1d6bed): output tokens are the text counted again with a Llama tokenizer
(begin-of-sequence token included), whatever the model's own; `inter_token_latency_s` is end-to-end latency over
streamed chunks, unless the Neuron patches were applied; a throughput's 99th percentile is its best request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from specdecode.experiment.model import Frozen
from specdecode.measures.distribution import Summary
from specdecode.untrusted import Unreadable, parse_json, read_file

FIELDS = {
    "ttft_s": "ttft",
    "end_to_end_latency_s": "end_to_end_latency",
    "inter_token_latency_s": "inter_token_latency",
    "request_output_throughput_token_per_s": "request_output_throughput",
    "number_output_tokens": "output_tokens",
    "number_input_tokens": "input_tokens",
}
STATISTICS = {f"quantiles_{name}": name for name in ("p25", "p50", "p75", "p90", "p95", "p99")} | {
    name: name for name in ("mean", "min", "max", "stddev")
}
Figure = Annotated[float, AfterValidator(lambda value: 0.0 if value < SMALLEST else value), Field(ge=0, le=1e12)]
SMALLEST = 1e-9
"""Smaller times count as zero: no clock measures them."""
MAX_TIMESTAMP = 4_102_444_800
"""The year 2100."""
CONDITIONS = (
    "mean_input_tokens",
    "stddev_input_tokens",
    "mean_output_tokens",
    "stddev_output_tokens",
    "num_concurrent_requests",
)
SAMPLING = "additional_sampling_params_"
"""Fields of a summary that say how it was measured; LLMPerf writes each sampling parameter behind this prefix."""
LLMPERF = "LLMPerf (token_benchmark_ray.py)"
MOST_SHOWN = 60
AGREE = 0.02
"""Relative difference up to which two ways to compute a figure count as equal."""


class ImportProblem(ValueError):
    """The files are no LLMPerf results; the message lists every problem and what to do."""


class ImportedArm(Frozen):
    """One arm as a tool measured it: LLMPerf's `_summary.json`, with the individual responses if they lie beside it; or
    the requests that another tool lists (`analysis.other_tools`).
    """

    name: str
    tool: str = LLMPERF
    model: str
    max_tokens: int
    """`mean_output_tokens`: what the server was asked for at most; of other tools the most that it made."""
    concurrency: int
    completed: int
    errors: int
    metrics: dict[str, Summary]
    """Figures of the file under this project's names, not corrected."""
    overall_throughput: float | None = None
    timestamp: float = 0.0
    """When it was measured, seconds since the epoch; 0 if the file does not say."""
    conditions: dict[str, str] = Field(default_factory=dict)
    """How it was measured: load, lengths and sampling, as the file has them."""
    requests: tuple[dict[str, float], ...] = ()
    """Completed requests: field -> value."""

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
        """Output tokens of all completed requests, corrected. They are summed request by request if the file lists the
        requests.
        """
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


class _Summary(BaseModel):
    """Fields of a `_summary.json` that are used. LLMPerf writes NumPy's integers as texts, and NaN for what it could
    not compute. Figures beyond 1e12 are no measurements.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    model: Annotated[str, StringConstraints(max_length=500)]
    mean_output_tokens: int = Field(ge=1, le=2**20)
    num_concurrent_requests: int = Field(ge=1, le=4096)
    results_num_completed_requests: int = Field(ge=0, le=100_000)
    results_number_errors: int | None = Field(default=None, ge=0, le=100_000)
    results_mean_output_throughput_token_per_s: Figure | None = None
    timestamp: float | None = Field(default=None, ge=0, le=MAX_TIMESTAMP)


_FIGURE: TypeAdapter[float | None] = TypeAdapter(Figure | None)


def read_arm(path: Path, *, name: str) -> ImportedArm:
    """Read a `_summary.json`, or the folder that holds exactly one. Raises ImportProblem."""
    file = _summary_file(path)
    document = read_json(file)
    document = document if isinstance(document, dict) else {}
    try:
        summary = _Summary.model_validate(document)
    except ValidationError as error:
        raise ImportProblem(
            f"{file}: no LLMPerf summary, {lacks(error)}. Give the file *_summary.json that token_benchmark_ray.py "
            "wrote into its --results-dir"
        ) from None
    individual = file.with_name(file.name.replace("_summary.json", "_individual_responses.json"))
    return ImportedArm(
        name=name,
        model=summary.model,
        max_tokens=summary.mean_output_tokens,
        concurrency=summary.num_concurrent_requests,
        completed=summary.results_num_completed_requests,
        errors=summary.results_number_errors or 0,
        metrics=_metrics(file, document, summary.results_num_completed_requests),
        timestamp=summary.timestamp or 0.0,
        overall_throughput=summary.results_mean_output_throughput_token_per_s,
        conditions={
            key: str(value)[:MOST_SHOWN]
            for key, value in document.items()
            if key in CONDITIONS or key.startswith(SAMPLING)
        },
        requests=_individual(individual) if individual != file and individual.exists() else (),
    )


def lacks(error: ValidationError) -> str:
    """`it lacks a, b` and what is wrong with the other fields."""
    found = [(".".join(map(str, item["loc"])), item) for item in error.errors()]
    missing = [name for name, item in found if item["type"] == "missing"]
    wrong = [f"{name}: {item['msg']}" for name, item in found if item["type"] != "missing"]
    return "; ".join([*([f"it lacks {', '.join(missing)}"] if missing else []), *wrong])


def read_json(file: Path) -> Any:
    """A JSON file of any kind. Raises ImportProblem."""
    try:
        return parse_json(read_file(file))
    except Unreadable as error:
        raise ImportProblem(f"{file}: {error}") from None


def _summary_file(path: Path) -> Path:
    if path.is_file():
        return path
    found = sorted(path.glob("*_summary.json")) if path.is_dir() else []
    if len(found) != 1:
        listed = ", ".join(item.name for item in found) or "none"
        raise ImportProblem(f"{path}: expected one *_summary.json, found {listed}")
    return found[0]


def _metrics(file: Path, document: dict[str, Any], completed: int) -> dict[str, Summary]:
    found: dict[str, Summary] = {}
    for field, metric in FIELDS.items():
        values = {
            ours: _figure(file, key, document[key])
            for theirs, ours in STATISTICS.items()
            if (key := f"results_{field}_{theirs}") in document
        }
        if values:
            found[metric] = Summary.model_validate({"n": completed, **values})
    return found


def _individual(file: Path) -> tuple[dict[str, float], ...]:
    responses = read_json(file)
    if not isinstance(responses, list) or not all(isinstance(response, dict) for response in responses):
        raise ImportProblem(f"{file}: not LLMPerf's individual responses, a list of them")
    return tuple(
        {
            field: value
            for field in FIELDS
            if (value := _figure(file, f"{number}.{field}", response.get(field))) is not None
        }
        for number, response in enumerate(responses)
        if response.get("error_code") is None
    )


def _figure(file: Path, field: str, value: Any) -> float | None:
    try:
        return _FIGURE.validate_python(value)
    except ValidationError as error:
        raise ImportProblem(f"{file}: {field}: {error.errors()[0]['msg']}") from None
