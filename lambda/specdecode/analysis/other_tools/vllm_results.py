"""Results of vLLM's `bench serve` and of its sweep (vLLM 0.32.0, vllm/benchmarks/serve.py and sweep/serve.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from specdecode.analysis.other_tools.imported_files import Vllm, moment, read
from specdecode.analysis.other_tools.llmperf_results import ImportedArm, ImportProblem
from specdecode.analysis.other_tools.tool_arm import VLLM, Row, tool_arm
from specdecode.measures.distribution import Summary


def vllm_arm(file: Path, documents: Sequence[Any], name: str) -> ImportedArm:
    runs = [read(Vllm, document, file, VLLM) for document in documents]
    rows = [row for run in runs for row in _vllm_rows(file, run)]
    head = runs[0]
    metrics = None if rows else _vllm_summaries(file, documents)
    return tool_arm(
        name,
        VLLM,
        rows,
        model=head.model_id,
        concurrency=head.max_concurrency or max(1, head.completed),
        completed=sum(run.completed for run in runs),
        failed=sum(run.failed for run in runs),
        took_s=sum(run.duration for run in runs),
        tokens=sum(run.total_output_tokens for run in runs),
        timestamp=moment(head.date, "%Y%m%d-%H%M%S"),
        conditions={"max_concurrency": head.max_concurrency, "request_rate": head.request_rate},
        metrics=metrics,
    )


def _vllm_rows(file: Path, run: Vllm) -> Iterator[Row]:
    """The completed requests; none if the tool was called without --save-detailed."""
    if not run.ttfts:
        return
    latencies = run.latencies or tuple(ttft + sum(gaps) for ttft, gaps in zip(run.ttfts, run.itls, strict=False))
    lists = (run.ttfts, latencies, run.output_lens, run.input_lens, run.errors)
    if len({len(each) for each in lists}) > 1:
        raise ImportProblem(f"{file}: its lists of requests have {', '.join(str(len(each)) for each in lists)} entries")
    for ttft, latency, made, asked, error in zip(*lists, strict=True):
        if not error and made:
            yield Row(ttft, latency, made, asked)


def _vllm_summaries(file: Path, documents: Sequence[Any]) -> dict[str, Summary]:
    """The tool's own statistics, in seconds, of a result without its requests."""
    if len(documents) > 1:
        raise ImportProblem(f"{file}: {len(documents)} runs without their requests: add --save-detailed to --bench-cmd")
    (document,) = documents
    names = {"mean": "mean", "median": "p50", "std": "stddev"}
    names |= {p: p for p in ("p25", "p75", "p90", "p95", "p99")}
    found = {}
    for ours, theirs in (("ttft", "ttft"), ("time_per_output_token", "tpot"), ("end_to_end_latency", "e2el")):
        values = {
            statistic: document[key] / 1000.0
            for prefix, statistic in names.items()
            if isinstance(document.get(key := f"{prefix}_{theirs}_ms"), (int, float))
        }
        if values:
            found[ours] = Summary.model_validate({"n": document["completed"], **values})
    return found
