"""Results of AIPerf (0.13.0): profile_export_aiperf.json, and the requests in profile_export.jsonl beside it."""

from __future__ import annotations

from pathlib import Path

from specdecode.analysis.other_tools.imported_files import (
    AiperfRecord,
    count,
    first,
    inside,
    lines,
    moment,
    number,
    seconds,
)
from specdecode.analysis.other_tools.llmperf_results import ImportedArm, ImportProblem, read_json
from specdecode.analysis.other_tools.tool_arm import AIPERF, Row, tool_arm

AIPERF_SUMMARY, AIPERF_RECORDS = "profile_export_aiperf.json", "profile_export.jsonl"
AIPERF_PHASE = "profiling"


def aiperf_arm(file: Path, name: str) -> ImportedArm:
    summary = read_json(file)
    records = file.with_name(AIPERF_RECORDS)
    if not records.is_file():
        raise ImportProblem(
            f"{file}: {AIPERF_RECORDS} does not lie beside it, and without its requests nothing is compared"
        )
    every = [
        record for record in lines(records, AiperfRecord, AIPERF) if record.metadata.benchmark_phase == AIPERF_PHASE
    ]
    rows, by_server = [], True
    for record in every:
        ttft, latency = record.metrics.time_to_first_token, record.metrics.request_latency
        tokens = record.metrics.usage_completion_tokens or record.metrics.output_sequence_length
        asked = record.metrics.input_sequence_length
        by_server = by_server and record.metrics.usage_completion_tokens is not None
        if record.error is None and ttft and latency and tokens:
            rows.append(
                Row(
                    seconds(file, ttft), seconds(file, latency), round(tokens.value), round(asked.value) if asked else 0
                )
            )
    config = summary.get("input_config") if isinstance(summary, dict) else None
    phase = first(inside(config, "phases")) or {}
    model = inside(first(inside(config, "models", "items")), "name")
    return tool_arm(
        name,
        AIPERF,
        rows,
        model=str(model or "unknown"),
        concurrency=count(inside(phase, "concurrency")) or 1,
        completed=len(rows),
        failed=len(every) - len(rows),
        took_s=number(inside(summary, "benchmark_duration", "avg")),
        tokens=sum(row.output_tokens for row in rows),
        timestamp=moment(str(inside(summary, "start_time") or "")[:19], "%Y-%m-%dT%H:%M:%S"),
        conditions={
            "concurrency": inside(phase, "concurrency"),
            "request_rate": inside(phase, "rate"),
            "tokens counted by": "the server" if by_server else "a tokenizer at the client",
        },
    )
