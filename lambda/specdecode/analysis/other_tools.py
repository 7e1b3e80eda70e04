"""Results of vLLM's `bench serve` (and its sweep), AIPerf and GuideLLM, read into the arms that are compared.

Everything is taken from the requests that the files list, not from the tools' own statistics: a request's times and the
tokens that were counted mean the same in all of them, what is computed from these does not (`MEANS`).

Sources: vLLM 0.32.0, vllm/benchmarks/serve.py and sweep/serve.py; AIPerf 0.13.0, profile_export.jsonl and
profile_export_aiperf.json; GuideLLM 0.8.1, its JSON output. The files in the tests were written by these versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from specdecode.analysis.imported_files import (
    AiperfRecord,
    GuidellmBenchmark,
    Vllm,
    asked_model,
    count,
    first,
    inside,
    lines,
    moment,
    number,
    read,
    seconds,
)
from specdecode.analysis.llmperf_results import ImportedArm, ImportProblem, read_json
from specdecode.measures.distribution import Summary, summarize

VLLM, AIPERF, GUIDELLM = "vllm bench serve", "AIPerf", "GuideLLM"
MEANS = {
    VLLM: "its mean_itl_ms is the time between chunks, and with speculation a chunk holds several tokens: it says the "
    "opposite of the truth and is not used; its throughput is over the whole run, with the time in which the load "
    "rises and falls; requests that waited for a free place (--max-concurrency) did so before their time began",
    AIPERF: "its inter_token_latency is the time per output token after the first, its inter_chunk_latency is the time "
    "between chunks and is not used; the TTFT of a request on a new connection holds the time to connect; without "
    "--use-server-token-count its tokens are counted again by a tokenizer at the client",
    GUIDELLM: "its time_per_output_token_ms is the whole latency over all tokens, with the time to the first in it, "
    "and is not used; its inter_token_latency_ms is what is called time per output token here",
}
"""Tool -> what its own figures mean, for whoever compares them with these."""
AIPERF_SUMMARY, AIPERF_RECORDS = "profile_export_aiperf.json", "profile_export.jsonl"
AIPERF_PHASE = "profiling"


class Row(NamedTuple):
    """One completed request."""

    ttft_s: float
    latency_s: float
    output_tokens: int
    input_tokens: int


def read_other(path: Path, *, name: str) -> ImportedArm | None:
    """The arm in a file or folder of one of these tools; None where it is none of theirs. Raises ImportProblem."""
    file = _result_file(path)
    if file is None:
        return None
    if file.name == AIPERF_SUMMARY:
        return _aiperf(file, name)
    document = read_json(file)
    head = document[0] if isinstance(document, list) and document else document
    if isinstance(head, dict) and {"mean_ttft_ms", "total_output_tokens"} <= head.keys():
        return _vllm(file, document if isinstance(document, list) else [document], name)
    if isinstance(head, dict) and "guidellm_version" in (head.get("metadata") or {}):
        return _guidellm(file, head, name)
    return None


def _result_file(path: Path) -> Path | None:
    """The file to read: itself, AIPerf's, a sweep's summary.json, or the only JSON file of the folder."""
    if path.is_file():
        return path.with_name(AIPERF_SUMMARY) if path.name == AIPERF_RECORDS else path
    for known in (AIPERF_SUMMARY, "summary.json"):
        if (path / known).is_file():
            return path / known
    if combinations := sorted(found.parent.name for found in path.glob("*/summary.json")):
        raise ImportProblem(
            f"{path}: a sweep of {len(combinations)}; give one of its folders: {', '.join(combinations)}"
        )
    found = [
        file for file in sorted(path.glob("*.json")) if not file.name.endswith(("_summary.json", "_responses.json"))
    ]
    return found[0] if len(found) == 1 else None


def _vllm(file: Path, documents: Sequence[Any], name: str) -> ImportedArm:
    runs = [read(Vllm, document, file, VLLM) for document in documents]
    rows = [row for run in runs for row in _vllm_rows(file, run)]
    head = runs[0]
    metrics = None if rows else _vllm_summaries(file, documents)
    return _arm(
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
    """The completed requests; none where the tool was called without --save-detailed."""
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


def _aiperf(file: Path, name: str) -> ImportedArm:
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
    return _arm(
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


def _guidellm(file: Path, document: dict[str, Any], name: str) -> ImportedArm:
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
    return _arm(
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


def _arm(
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
    return ImportedArm(
        name=name,
        tool=tool,
        model=model,
        max_tokens=max([1, *(row.output_tokens for row in rows)])
        if rows
        else max(1, round(tokens / max(1, completed))),
        concurrency=min(concurrency, 4096),
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
