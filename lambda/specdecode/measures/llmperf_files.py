"""LLMPerf's two result files: same names, same fields, same order, same oddities (ray-project/llmperf f1d6bed).

One field is added where LLMPerf lets its users add some (`--metadata`): `token_accounting`, the formula used.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from specdecode.experiment.workload import Level, Workload
from specdecode.measures.accounting import Accounting, Figures
from specdecode.measures.distribution import PERCENTILES, quantile
from specdecode.measures.metrics.metric import load_seconds
from specdecode.records import RequestRecord

RESULTS_VERSION = "2023-08-31"
MAX_STEM_BYTES = 200
"""Longest file name. LLMPerf has no limit, file systems have (255 bytes with the suffix). Its end tells files apart."""
_FIELDS = (
    "inter_token_latency_s",
    "ttft_s",
    "end_to_end_latency_s",
    "request_output_throughput_token_per_s",
    "number_input_tokens",
    "number_output_tokens",
)


def stem_of(model: str, input_tokens: int, output_tokens: int) -> str:
    """What the files' names begin with."""
    name = re.sub(r"[^\w\d-]+", "-", f"{model}_{input_tokens}_{output_tokens}")
    return re.sub(r"-{2,}", "-", name).encode()[-MAX_STEM_BYTES:].decode(errors="ignore")


def llmperf_run(
    workload: Workload,
    level: Level,
    *,
    model: str,
    records: Sequence[RequestRecord],
    accounting: Accounting,
    load_s: float | None = None,
) -> dict[str, str]:
    """File name -> content, of the measured records of one arm, case and level of a benchmark that served `model`.
    `load_s`: seconds that the load took; by default by the records.
    """
    responses = [_response(record, accounting) for record in records]
    stem = stem_of(model, workload.input_tokens, workload.output_tokens)
    summary: dict[str, Any] = {
        "version": RESULTS_VERSION,
        "name": f"{stem}_summary",
        "model": model,
        "mean_input_tokens": workload.input_tokens,
        "stddev_input_tokens": 0,
        "mean_output_tokens": workload.output_tokens,
        "stddev_output_tokens": 0,
        "num_concurrent_requests": level.concurrency or 1,
        "additional_sampling_params_temperature": workload.temperature,
        **_results(responses, load_seconds([records]) if load_s is None else load_s),
        "token_accounting": f"{accounting.mode}: {accounting.description}",
        "timestamp": int(max((record.started_at + record.end_s for record in records), default=0.0)),
    }
    return {
        f"{stem}_summary.json": json.dumps(summary, indent=4),
        f"{stem}_individual_responses.json": json.dumps(responses, indent=4),
    }


def _response(record: RequestRecord, accounting: Accounting) -> dict[str, Any]:
    failed = Figures(0, 0, 0, 0, record.requested_input_tokens, 0)
    figures = accounting.figures(record) if record.error is None else failed
    given, written = figures.input_tokens, figures.output_tokens
    return {
        "error_code": None if record.error is None else record.error.http_status or -1,
        "error_msg": "" if record.error is None else record.error.message,
        "inter_token_latency_s": figures.inter_token_latency_s,
        "ttft_s": figures.ttft_s,
        "end_to_end_latency_s": figures.end_to_end_latency_s,
        "request_output_throughput_token_per_s": figures.output_throughput,
        "number_total_tokens": None if given is None or written is None else given + written,
        "number_output_tokens": written,
        "number_input_tokens": given,
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
    return results | {
        "results_num_requests_started": len(responses),
        "results_error_rate": errors.total() / len(responses) if responses else 0,
        "results_number_errors": errors.total(),
        "results_error_code_frequency": str(dict(errors.most_common())),
        "results_mean_output_throughput_token_per_s": tokens / load_s if load_s else 0.0,
        "results_num_completed_requests": len(completed),
        "results_num_completed_requests_per_min": len(completed) / load_s * 60 if load_s else 0.0,
    }


def _statistics(values: Sequence[float]) -> dict[str, Any]:
    """As pandas computes them, and as LLMPerf's `json.dump(..., default=str)` writes NumPy's integers: as strings."""
    if not values:
        return {}
    ordered = sorted(values)
    mean = _pairwise_sum(values) / len(values)
    whole = all(isinstance(value, int) for value in values)
    spread = _pairwise_sum([(mean - value) ** 2 for value in values])
    return {
        **{f"quantiles_p{percent}": float(quantile(ordered, percent / 100)) for percent in PERCENTILES},
        "mean": mean,
        "min": str(ordered[0]) if whole else ordered[0],
        "max": str(ordered[-1]) if whole else ordered[-1],
        "stddev": math.sqrt(spread / (len(values) - 1)) if len(values) > 1 else math.nan,
    }


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
