"""The arm that another tool loaded, from the requests that its files list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from specdecode.analysis.other_tools.llmperf_results import ImportedArm, ImportProblem
from specdecode.experiment.workload import MOST_AT_A_TIME
from specdecode.measures.distribution import Summary, summarize
from specdecode.records.request import MOST_COUNTED

VLLM, AIPERF, GUIDELLM = "vllm bench serve", "AIPerf", "GuideLLM"


class Row(NamedTuple):
    """One completed request."""

    ttft_s: float
    latency_s: float
    output_tokens: int
    input_tokens: int


def tool_arm(
    name: str,
    tool: str,
    rows: Sequence[Row],
    *,
    model: str,
    concurrency: int,
    completed: int,
    failed: int,
    took_s: float,
    tokens: int,
    timestamp: float,
    conditions: dict[str, Any],
    metrics: dict[str, Summary] | None = None,
) -> ImportedArm:
    if not rows and not metrics:
        raise ImportProblem(
            f"{name}: {tool} completed no request that has a time to its first token and a count of tokens"
        )
    per_token = [(row.latency_s - row.ttft_s) / (row.output_tokens - 1) for row in rows if row.output_tokens > 1]
    columns = {
        "ttft": [row.ttft_s for row in rows],
        "end_to_end_latency": [row.latency_s for row in rows],
        "output_tokens": [float(row.output_tokens) for row in rows],
        "input_tokens": [float(row.input_tokens) for row in rows],
        "request_output_throughput": [row.output_tokens / row.latency_s for row in rows if row.latency_s > 0],
        "time_per_output_token": per_token,
    }
    longest = max(row.output_tokens for row in rows) if rows else round(tokens / max(1, completed))
    return ImportedArm(
        name=name,
        tool=tool,
        model=model,
        max_tokens=min(max(1, longest), MOST_COUNTED),
        concurrency=min(concurrency, MOST_AT_A_TIME),
        completed=completed,
        errors=failed,
        metrics=metrics
        if metrics is not None
        else {key: summarize(values) for key, values in columns.items() if values},
        overall_throughput=tokens / took_s if took_s > 0 else None,
        timestamp=timestamp,
        conditions={key: str(value)[:60] for key, value in conditions.items() if value is not None},
        requests=tuple(
            {
                "ttft_s": row.ttft_s,
                "end_to_end_latency_s": row.latency_s,
                "number_output_tokens": float(row.output_tokens),
                "number_input_tokens": float(row.input_tokens),
            }
            for row in rows
        ),
    )
