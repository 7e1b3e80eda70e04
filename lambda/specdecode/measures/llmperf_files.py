"""LLMPerf's two result files: same names, same fields, same order, same oddities (ray-project/llmperf f1d6bed).

One field is added where LLMPerf lets its users add some (`--metadata`): `token_accounting`, the formula used.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specdecode.experiment.workload import Level, Workload
from specdecode.measures.accounting import Accounting, Figures
from specdecode.measures.distribution import PERCENTILES, quantile
from specdecode.measures.metrics.metric import load_seconds
from specdecode.records import RequestRecord

RESULTS_VERSION = "2023-08-31"
MAX_STEM_BYTES = 200
"""Longest file name. LLMPerf has no limit, but file systems have (255 bytes with the suffix). The end of the name tells
files apart."""
_FIELDS = (
    "inter_token_latency_s",
    "ttft_s",
    "end_to_end_latency_s",
    "request_output_throughput_token_per_s",
    "number_input_tokens",
    "number_output_tokens",
)


@dataclass(frozen=True, kw_only=True)
class LlmperfRun:
    """Options that LLMPerf's command line would have."""

    model: str
    mean_input_tokens: int
    mean_output_tokens: int
    num_concurrent_requests: int
    sampling_params: dict[str, Any]
    timestamp: int

    @property
    def stem(self) -> str:
        name = f"{self.model}_{self.mean_input_tokens}_{self.mean_output_tokens}"
        return re.sub(r"-{2,}", "-", re.sub(r"[^\w\d-]+", "-", name)).encode()[-MAX_STEM_BYTES:].decode(errors="ignore")


def llmperf_files(
    records: Sequence[RequestRecord], *, run: LlmperfRun, accounting: Accounting, load_s: float
) -> dict[str, str]:
    """File name -> content, for the measured records of one arm and case. `load_s`: seconds that the load took."""
    responses = [_response(record, accounting) for record in records]
    name = f"{run.stem}_summary"
    summary: dict[str, Any] = {
        "version": RESULTS_VERSION,
        "name": name,
        "model": run.model,
        "mean_input_tokens": run.mean_input_tokens,
        "stddev_input_tokens": 0,
        "mean_output_tokens": run.mean_output_tokens,
        "stddev_output_tokens": 0,
        "num_concurrent_requests": run.num_concurrent_requests,
        **{f"additional_sampling_params_{key}": value for key, value in run.sampling_params.items()},
        **_results(responses, load_s),
        "token_accounting": f"{accounting.mode}: {accounting.description}",
        "timestamp": run.timestamp,
    }
    return {
        f"{name}.json": json.dumps(summary, indent=4),
        f"{run.stem}_individual_responses.json": json.dumps(responses, indent=4),
    }


def llmperf_run(
    workload: Workload, level: Level, *, model: str, records: Sequence[RequestRecord], accounting: Accounting
) -> dict[str, str]:
    """The two files of one arm, case and level of a benchmark that served `model`."""
    run = LlmperfRun(
        model=model,
        mean_input_tokens=workload.input_tokens,
        mean_output_tokens=workload.output_tokens,
        num_concurrent_requests=level.concurrency or 1,
        sampling_params={"temperature": workload.temperature},
        timestamp=int(max((record.started_at + record.end_s for record in records), default=0.0)),
    )
    return llmperf_files(records, run=run, accounting=accounting, load_s=load_seconds([records]))


def llmperf_folder(workload: Workload, level: Level, *, variant: str, case: str) -> tuple[str, ...]:
    """Folder of the two files in a run's folder. If there are several levels, each has a folder of its own."""
    own = (level.name,) if len(workload.levels) > 1 else ()
    return ("llmperf", variant, case, *own)


def _response(record: RequestRecord, accounting: Accounting) -> dict[str, Any]:
    if record.error is not None:
        figures = Figures(
            ttft_s=0,
            inter_token_latency_s=0,
            end_to_end_latency_s=0,
            output_throughput=0,
            input_tokens=record.requested_input_tokens,
            output_tokens=0,
        )
    else:
        figures = accounting.figures(record)
    total = None
    if figures.input_tokens is not None and figures.output_tokens is not None:
        total = figures.input_tokens + figures.output_tokens
    return {
        "error_code": None if record.error is None else record.error.http_status or -1,
        "error_msg": "" if record.error is None else record.error.message,
        "inter_token_latency_s": figures.inter_token_latency_s,
        "ttft_s": figures.ttft_s,
        "end_to_end_latency_s": figures.end_to_end_latency_s,
        "request_output_throughput_token_per_s": figures.output_throughput,
        "number_total_tokens": total,
        "number_output_tokens": figures.output_tokens,
        "number_input_tokens": figures.input_tokens,
    }


def _results(responses: Sequence[dict[str, Any]], load_s: float) -> dict[str, Any]:
    completed = [response for response in responses if response["error_code"] is None]
    results: dict[str, Any] = {}
    for field in _FIELDS:
        values = [response[field] for response in completed if response[field] is not None]
        for key, value in _statistics(values).items():
            results[f"results_{field}_{key}"] = value
    errors = Counter(response["error_code"] for response in responses if response["error_code"] is not None)
    tokens = sum(response["number_output_tokens"] or 0 for response in completed)
    results["results_num_requests_started"] = len(responses)
    results["results_error_rate"] = errors.total() / len(responses) if responses else 0
    results["results_number_errors"] = errors.total()
    results["results_error_code_frequency"] = str(dict(errors.most_common()))
    results["results_mean_output_throughput_token_per_s"] = tokens / load_s if load_s else 0.0
    results["results_num_completed_requests"] = len(completed)
    results["results_num_completed_requests_per_min"] = len(completed) / load_s * 60 if load_s else 0.0
    return results


def _statistics(values: Sequence[float]) -> dict[str, Any]:
    """As pandas computes them, and as LLMPerf's `json.dump(..., default=str)` writes NumPy's integers: as strings."""
    if not values:
        return {}
    ordered = sorted(values)
    statistics: dict[str, Any] = {
        f"quantiles_p{percent}": float(quantile(ordered, percent / 100)) for percent in PERCENTILES
    }
    mean = _pairwise_sum(values) / len(values)
    whole = all(isinstance(value, int) for value in values)
    statistics["mean"] = mean
    statistics["min"] = str(ordered[0]) if whole else ordered[0]
    statistics["max"] = str(ordered[-1]) if whole else ordered[-1]
    spread = _pairwise_sum([(mean - value) ** 2 for value in values])
    statistics["stddev"] = math.sqrt(spread / (len(values) - 1)) if len(values) > 1 else math.nan
    return statistics


def _pairwise_sum(values: Sequence[float]) -> float:
    """Sum in NumPy's order (`pairwise_sum` in its loops), so that the last digit agrees."""
    count = len(values)
    if count < 8:
        total = 0.0
        for value in values:
            total += value
        return total
    if count <= 128:
        partial = [float(value) for value in values[:8]]
        whole = count - count % 8
        for start in range(8, whole, 8):
            for lane in range(8):
                partial[lane] += values[start + lane]
        total = ((partial[0] + partial[1]) + (partial[2] + partial[3])) + (
            (partial[4] + partial[5]) + (partial[6] + partial[7])
        )
        for value in values[whole:]:
            total += value
        return total
    half = count // 2
    half -= half % 8
    return _pairwise_sum(values[:half]) + _pairwise_sum(values[half:])
