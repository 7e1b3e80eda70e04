"""Results of GuideLLM (0.8.1): its JSON output of one load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specdecode.analysis.other_tools.imported_files import GuidellmBenchmark, asked_model, count, read
from specdecode.analysis.other_tools.llmperf_results import ImportedArm, ImportProblem
from specdecode.analysis.other_tools.tool_arm import GUIDELLM, Row, tool_arm


def guidellm_arm(file: Path, document: dict[str, Any], name: str) -> ImportedArm:
    benchmarks = document.get("benchmarks")
    if not isinstance(benchmarks, list) or len(benchmarks) != 1:
        many = len(benchmarks) if isinstance(benchmarks, list) else 0
        raise ImportProblem(
            f"{file}: {many} benchmarks, one is needed: run GuideLLM with one load (kind=concurrent,streams=N)"
        )
    found = read(GuidellmBenchmark, benchmarks[0], file, GUIDELLM)
    if found.config.sample_size is not None:
        raise ImportProblem(f"{file}: only a sample of its requests was kept; run GuideLLM without a sample size")
    whole = [each for each in found.requests.successful if each.time_to_first_token_ms and each.output_tokens]
    rows = [
        Row(
            (each.time_to_first_token_ms or 0.0) / 1000.0,
            each.request_latency,
            each.output_tokens or 0,
            each.prompt_tokens or 0,
        )
        for each in whole
    ]
    strategy = found.config.strategy
    return tool_arm(
        name,
        GUIDELLM,
        rows,
        model=asked_model(found.requests.successful),
        concurrency=count(strategy.get("streams") or strategy.get("max_concurrency")) or 1,
        completed=len(rows),
        failed=len(found.requests.errored or ()) + len(found.requests.successful) - len(rows),
        took_s=found.duration,
        tokens=sum(row.output_tokens for row in rows),
        timestamp=found.start_time,
        conditions={key: strategy.get(key) for key in ("type_", "streams", "max_concurrency", "rate")},
    )
