"""Our client against the reference server, and how far its records are from the truth."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from specdecode.benchmark.adhoc import cases_of
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkSpec
from specdecode.experiment.workload import Workload
from specdecode.measures.distribution import quantile
from specdecode.records import RequestRecord

from benchmarks.reference.processes import ROOT, Cost, run, truth


@dataclass(frozen=True)
class Errors:
    """Measured minus true. Milliseconds; TPOT in percent of the truth."""

    ttft_mean_ms: float
    ttft_worst_ms: float
    tpot_mean_percent: float
    tpot_worst_percent: float
    chunk_p50_ms: float
    chunk_p99_ms: float
    chunk_worst_ms: float
    chunk_mean_ms: float


@dataclass(frozen=True)
class Measured:
    streams: int
    requests: int
    chunks: int
    true_ttft_mean_ms: float
    true_tpot_mean_ms: float
    errors: Errors
    largest_time_doubt_ms: float
    largest_client_lag_ms: float
    cost: Cost

    def as_dict(self) -> dict:
        return asdict(self)


def measure(url: str, *, streams: int, requests: int, output_tokens: int, folder: Path) -> tuple[Measured, list[dict]]:
    """One run of `python -m specdecode.benchmark`; its errors, and the truth for whoever wants more."""
    cost, records, true = benchmark(
        url, levels=(streams,), requests=requests, output_tokens=output_tokens, folder=folder
    )
    errors, chunks = errors_of(paired(records, true))
    return (
        Measured(
            streams=streams,
            requests=len(records),
            chunks=chunks,
            true_ttft_mean_ms=mean([entry["sent_s"][0] for entry in true]) * 1000,
            true_tpot_mean_ms=mean([tpot(entry) for entry in true if len(entry["sent_s"]) > 1]) * 1000,
            errors=errors,
            largest_time_doubt_ms=max(record.time_doubt_s for record in records) * 1000,
            largest_client_lag_ms=max(record.client_lag_s for record in records) * 1000,
            cost=cost,
        ),
        true,
    )


def benchmark(
    url: str, *, levels: tuple[int, ...], requests: int, output_tokens: int, folder: Path
) -> tuple[Cost, list[RequestRecord], list[dict]]:
    """One run of `python -m specdecode.benchmark` at one load or several: its cost, its records and the truth."""
    spec = specification(levels=levels, requests=requests, output_tokens=output_tokens, folder=folder)
    (folder / "spec.json").write_text(spec.model_dump_json())
    truth(url)
    command = [sys.executable, "-m", "specdecode.benchmark", "--spec", "spec.json", "--arm", f"base={url}"]
    cost, output = run(command, cwd=folder, env={"PYTHONPATH": str(ROOT / "lambda")})
    if cost.code:
        raise RuntimeError(output)
    (raw,) = (folder / "results" / "raw" / "base").iterdir()
    lines = raw.read_text().splitlines()
    return cost, [RequestRecord.model_validate_json(line) for line in lines], truth(url)


def specification(*, levels: tuple[int, ...], requests: int, output_tokens: int, folder: Path) -> BenchmarkSpec:
    """What the client is told; its prompts, each another, lie in `folder`."""
    most = max(requests, 2 * max(levels))
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"request {number}"}) + "\n" for number in range(most)))
    return BenchmarkSpec(
        run_id="truth",
        experiment="truth",
        wave=0,
        round=0,
        model="reference",
        arms=(BenchmarkArm(variant="base", label="Base"),),
        workload=Workload(
            cases=cases_of(named=(), prompts=(), files=[prompts]),
            input_tokens=8,
            output_tokens=output_tokens,
            requests=requests,
            concurrency=levels,
            warmup_requests=0,
            timeout_s=120,
        ),
    )


def paired(records: Sequence[RequestRecord], true: Sequence[dict]) -> list[tuple[RequestRecord, dict]]:
    """Each record with what the server sent. `true`: in the order served; the benchmark's probe comes first. A prompt
    is asked once at each load, and the loads follow each other.
    """
    by_prompt: dict[str, list[dict]] = {}
    for entry in true[-len(records) :]:
        by_prompt.setdefault(entry["prompt_sha256"], []).append(entry)
    return [(each, by_prompt[each.prompt_sha256].pop(0)) for each in sorted(records, key=lambda each: each.sent_s)]


def errors_of(pairs: Sequence[tuple[RequestRecord, dict]]) -> tuple[Errors, int]:
    """Of records, each with what the server sent; and the number of chunks."""
    ttft, tpots, chunks = [], [], []
    for record, entry in pairs:
        times = [chunk.at_s for chunk in record.chunks]
        if len(times) != len(entry["sent_s"]):
            raise RuntimeError(f"{len(times)} chunks arrived of {len(entry['sent_s'])} sent")
        differences = [measured - sent for measured, sent in zip(times, entry["sent_s"], strict=True)]
        ttft.append(differences[0])
        chunks += differences
        measured = (times[-1] - times[0]) / (record.completion_tokens - 1)
        tpots.append(measured / tpot(entry) - 1)
    absolute = sorted(abs(difference) for difference in chunks)
    return (
        Errors(
            ttft_mean_ms=mean(ttft) * 1000,
            ttft_worst_ms=max(map(abs, ttft)) * 1000,
            tpot_mean_percent=mean(tpots) * 100,
            tpot_worst_percent=max(map(abs, tpots)) * 100,
            chunk_p50_ms=quantile(absolute, 0.5) * 1000,
            chunk_p99_ms=quantile(absolute, 0.99) * 1000,
            chunk_worst_ms=absolute[-1] * 1000,
            chunk_mean_ms=mean(absolute) * 1000,
        ),
        len(chunks),
    )


def tpot(entry: dict) -> float:
    return (entry["sent_s"][-1] - entry["sent_s"][0]) / (sum(entry["tokens"]) - 1)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
