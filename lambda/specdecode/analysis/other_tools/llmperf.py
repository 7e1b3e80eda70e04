"""Results of LLMPerf's `token_benchmark_ray.py`: its two JSON files, read and checked."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from specdecode.analysis.other_tools import imported
from specdecode.analysis.other_tools.imported import AIPERF, FIELDS, GUIDELLM, VLLM, Figure, ImportedArm, ImportProblem
from specdecode.measures.distribution import Summary
from specdecode.records.record import MOST_COUNTED

STATISTICS = {f"quantiles_{name}": name for name in ("p25", "p50", "p75", "p90", "p95", "p99")} | {
    name: name for name in ("mean", "min", "max", "stddev")
}
CONDITIONS = {f"{of}_{what}_tokens" for of in ("mean", "stddev") for what in ("input", "output")}
CONDITIONS |= {"num_concurrent_requests"}
KNOWN = (
    f"give the file that {VLLM} or {GUIDELLM} wrote, {AIPERF}'s artifact folder, or the *_summary.json that LLMPerf's "
    "token_benchmark_ray.py wrote into its --results-dir"
)
MOST_FIELDS = 1000
SAMPLING = "additional_sampling_params_"
"""Fields of a summary that say how it was measured; LLMPerf writes each sampling parameter behind this prefix."""


class _Summary(BaseModel):
    """Fields of a `_summary.json` that are used. LLMPerf writes NumPy's integers as texts, and NaN for what it could
    not compute. Figures beyond 1e12 are no measurements.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    model: Annotated[str, StringConstraints(max_length=500)]
    mean_output_tokens: int = Field(ge=1, le=2**20)
    stddev_output_tokens: Figure = 0.0
    num_concurrent_requests: int = Field(ge=1, le=4096)
    results_num_completed_requests: int = Field(ge=0, le=100_000)
    results_number_errors: int | None = Field(default=None, ge=0, le=100_000)
    results_mean_output_throughput_token_per_s: Figure | None = None
    timestamp: imported.Moment | None = None


_FIGURE: TypeAdapter[float | None] = TypeAdapter(Figure | None)


def read_arm(path: Path, *, name: str) -> ImportedArm:
    """Read a `_summary.json`, or the folder that holds exactly one. Raises ImportProblem."""
    file = _summary_file(path)
    document = imported.read_json(file)
    if not isinstance(document, dict) or not any(str(key).startswith("results_") for key in document):
        fields = (
            ", ".join(str(key)[: imported.MOST_SHOWN] for key in list(document)[:3])
            if isinstance(document, dict)
            else ""
        )
        found = f"an object with {fields or 'no field'}" if isinstance(document, dict) else "no object"
        raise ImportProblem(f"{file}: no result of a tool that is read here, but {found}; {KNOWN}")
    if len(document) > MOST_FIELDS:
        raise ImportProblem(f"{file}: {len(document):,} fields: no LLMPerf summary has more than {MOST_FIELDS:,}")
    try:
        summary = _Summary.model_validate(document)
    except ValidationError as error:
        raise ImportProblem(f"{file}: no LLMPerf summary, {imported.lacks(error)}; {KNOWN}") from None
    individual = file.with_name(file.name.replace("_summary.json", "_individual_responses.json"))
    requests = _individual(individual) if individual != file and individual.exists() else ()
    metrics = _metrics(file, document, summary.results_num_completed_requests)
    most = [float(summary.mean_output_tokens)]
    if summary.stddev_output_tokens:  # each request was asked for another length, which no file says
        most += [request.get("number_output_tokens", 0.0) for request in requests]
        most += [metrics["output_tokens"].max or 0.0] if "output_tokens" in metrics else []
    return ImportedArm(
        name=name,
        model=summary.model,
        max_tokens=min(math.ceil(max(most)), MOST_COUNTED),
        concurrency=summary.num_concurrent_requests,
        completed=summary.results_num_completed_requests,
        errors=summary.results_number_errors or 0,
        metrics=metrics,
        timestamp=summary.timestamp or 0.0,
        overall_throughput=summary.results_mean_output_throughput_token_per_s,
        conditions={
            key: str(value)[: imported.MOST_SHOWN]
            for key, value in document.items()
            if key in CONDITIONS or key.startswith(SAMPLING)
        },
        requests=requests,
    )


def _summary_file(path: Path) -> Path:
    if path.is_file():
        return path
    found = sorted(path.glob("*_summary.json")) if path.is_dir() else []
    if len(found) != 1:
        several = f" (give one of these: {', '.join(item.name for item in found)})" if found else ""
        raise ImportProblem(f"{path}: no result of a tool that is read here{several}; {KNOWN}")
    return found[0]


def _metrics(file: Path, document: dict[str, Any], completed: int) -> dict[str, Summary]:
    found: dict[str, Summary] = {}
    for field, metric in FIELDS.items():
        values = {
            ours: _figure(file, (key,), document[key])
            for theirs, ours in STATISTICS.items()
            if (key := f"results_{field}_{theirs}") in document
        }
        if values:
            found[metric] = Summary.model_validate({"n": completed, **values})
    return found


def _individual(file: Path) -> tuple[dict[str, float], ...]:
    responses = imported.read_json(file)
    if not isinstance(responses, list) or not all(isinstance(response, dict) for response in responses):
        raise ImportProblem(f"{file}: not LLMPerf's individual responses, a list of them")
    return tuple(
        {field: value for field in FIELDS if (value := _figure(file, (number, field), response.get(field))) is not None}
        for number, response in enumerate(responses)
        if response.get("error_code") is None
    )


def _figure(file: Path, place: Sequence[str | int], value: Any) -> float | None:
    try:
        return _FIGURE.validate_python(value)
    except ValidationError as error:
        raise ImportProblem(f"{file}: {imported.unusable(place, error.errors()[0])}") from None
