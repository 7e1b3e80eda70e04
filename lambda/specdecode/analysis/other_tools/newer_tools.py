"""Results of vLLM's `bench serve` and of its sweep (vLLM 0.32.0, vllm/benchmarks/serve.py and sweep/serve.py), AIPerf
(0.13.0: profile_export_aiperf.json, and the requests in profile_export.jsonl beside it) and GuideLLM (0.8.1: its JSON
output of one load), read into the arms that are compared.

Everything is taken from the requests that the files list, not from the tools' own statistics: a request's times and the
tokens that were counted mean the same in all of them, what is computed from these does not (`MEANS`).
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from specdecode.analysis.other_tools import imported
from specdecode.analysis.other_tools.imported import AIPERF, GUIDELLM, VLLM, Figure, ImportedArm, ImportProblem
from specdecode.escape import clip, line
from specdecode.experiment.base import Many
from specdecode.measures.distribution import Summary
from specdecode.untrusted import Unreadable, parse_json

Text = Annotated[str, StringConstraints(max_length=500)]
Tokens = Annotated[int, Field(ge=0, le=2**31)]
LOAD = {"max_concurrency", "request_rate", "burstiness", "ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"}
"""What vLLM's files say of the load."""
ARRIVALS = ("type", "smoothness", "users", "arrival_pattern", "arrival_smoothness")
"""What AIPerf's files say of how requests come; the last two up to version 0.9."""
SECONDS = {"sec": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
AIPERF_SUMMARY, AIPERF_RECORDS = "profile_export_aiperf.json", "profile_export.jsonl"
LONGEST_ERROR = 200
"""Characters of a tool's own message that are shown."""
AIPERF_PHASE = "profiling"
TIMES = {"ttft": "time_to_first_token", "end_to_end_latency": "request_latency"}
TIMES |= {"time_per_output_token": "inter_token_latency"}


def read_other(path: Path, *, name: str) -> ImportedArm | None:
    """The arm in a file or folder of one of these tools. None if it is none of theirs. Raises ImportProblem."""
    file = _result_file(path)
    if file is None:
        return None
    if file.name == AIPERF_SUMMARY:
        return aiperf_arm(file, name)
    document = imported.read_json(file)
    head = document[0] if isinstance(document, list) and document else document
    if isinstance(head, dict) and {"mean_ttft_ms", "total_output_tokens"} <= head.keys():
        return vllm_arm(file, document if isinstance(document, list) else [document], name)
    if isinstance(head, dict) and imported.inside(head, "metadata", "guidellm_version") is not None:
        return guidellm_arm(file, head, name)
    return None


def _result_file(path: Path) -> Path | None:
    """The file to read: itself, AIPerf's, a sweep's summary.json, or the only JSON file of the folder."""
    if not path.exists():
        raise ImportProblem(f"{path}: no such file or folder")
    if not path.is_dir():  # what reads it refuses a pipe or a device
        return path.with_name(AIPERF_SUMMARY) if path.name == AIPERF_RECORDS else path
    for known in (AIPERF_SUMMARY, "summary.json"):
        if (path / known).is_file():
            return path / known
    if below := sorted(found.parent for found in path.glob(f"*/{AIPERF_SUMMARY}")):
        listed = ", ".join(map(str, below[:5]))
        raise ImportProblem(f"{path}: it holds artifacts of {AIPERF}; give one of them: {listed}")
    if (path / AIPERF_RECORDS).is_file():
        raise ImportProblem(f"{path}: {AIPERF_RECORDS} without the {AIPERF_SUMMARY} that {AIPERF} writes beside it")
    if swept := sorted(found.parent.name for found in path.glob("*/summary.json")):
        raise ImportProblem(f"{path}: a sweep of {len(swept)}; give one of its folders: {', '.join(swept)}")
    found = [file for file in path.glob("*.json") if not file.name.endswith(("_summary.json", "_responses.json"))]
    return found[0] if len(found) == 1 else None


class Lenient(BaseModel):
    """Reads the fields that it knows. A newer version of a tool may write more."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Vllm(Lenient):
    """Output of `vllm bench serve --save-result`. The lists need --save-detailed."""

    model_id: Text
    completed: Tokens
    failed: Tokens | None = None
    """Older versions do not write it."""
    num_prompts: Tokens | None = None
    date: Text = ""
    duration: Figure
    max_concurrency: Annotated[int, Field(ge=1, le=100_000)] | None = None
    request_rate: Text | float | None = None
    burstiness: float | None = 1.0
    ramp_up_strategy: Text | None = None
    ramp_up_start_rps: float | None = None
    ramp_up_end_rps: float | None = None
    total_output_tokens: Tokens
    mean_ttft_ms: Figure
    ttfts: Many[Figure] = ()
    latencies: Many[Figure] = ()
    itls: Many[Many[Figure]] = ()
    output_lens: Many[Tokens] = ()
    input_lens: Many[Tokens] = ()
    errors: Many[str] = ()

    @property
    def failures(self) -> int:
        """Requests that failed."""
        if self.failed is not None:
            return self.failed
        return sum(map(bool, self.errors)) if self.errors else max(0, (self.num_prompts or 0) - self.completed)

    @property
    def load(self) -> dict[str, Any]:
        """How the requests came. The number of prompts is a load if all come at once."""
        at_once = self.max_concurrency is None and self.request_rate in (None, "inf")
        return self.model_dump(include=LOAD) | {"num_prompts": self.num_prompts if at_once else None}


def vllm_arm(file: Path, documents: Sequence[Any], name: str) -> ImportedArm:
    """Its own statistics are in milliseconds."""
    runs = [imported.read(Vllm, document, file, VLLM) for document in documents]
    if len({(run.model_id, *run.load.values()) for run in runs}) > 1:
        raise ImportProblem(f"{file}: its {len(runs)} runs have several loads or models; give a file for each of them")
    completed, failed = sum(run.completed for run in runs), sum(run.failures for run in runs)
    if failed and not completed:
        why = next(
            (f" (the first: {clip(line(error), LONGEST_ERROR)})" for run in runs for error in run.errors if error), ""
        )
        raise ImportProblem(f"{file}: all {failed:,} requests failed{why}: mend that and measure again")
    rows = [row for run in runs for row in _vllm_rows(file, run)]
    head = runs[0]
    names = {"mean": "mean", "p50": "median", "stddev": "std"} | {p: p for p in ("p25", "p75", "p90", "p95", "p99")}
    stated = {
        ours: {name: documents[0].get(f"{prefix}_{theirs}_ms") for name, prefix in names.items()}
        for ours, theirs in (("ttft", "ttft"), ("time_per_output_token", "tpot"), ("end_to_end_latency", "e2el"))
    }
    if not rows and len(runs) > 1:
        raise ImportProblem(f"{file}: {len(runs)} runs without their requests: add --save-detailed to --bench-cmd")
    return imported.tool_arm(
        name,
        VLLM,
        rows,
        model=head.model_id,
        concurrency=head.max_concurrency,
        completed=completed,
        failed=failed,
        took_s=sum(run.duration for run in runs),
        tokens=sum(run.total_output_tokens for run in runs),
        timestamp=imported.moment(head.date, "%Y%m%d-%H%M%S"),
        conditions=head.load,
        stated=imported.own_statistics(head.completed, stated, scale=1e-3) if len(runs) == 1 else {},
    )


def _vllm_rows(file: Path, run: Vllm) -> Iterator[imported.Request]:
    """The completed requests; none if the tool was called without --save-detailed."""
    if not run.ttfts:
        return
    latencies = run.latencies or tuple(ttft + sum(gaps) for ttft, gaps in zip(run.ttfts, run.itls, strict=False))
    lists = (run.ttfts, latencies, run.output_lens, run.input_lens, run.errors)
    if len({len(each) for each in lists}) > 1:
        raise ImportProblem(f"{file}: its lists of requests have {', '.join(str(len(each)) for each in lists)} entries")
    for ttft, latency, made, asked, error in zip(*lists, strict=True):
        if not error and made:
            yield imported.completed_request(ttft, latency, made, asked)


class Value(Lenient):
    """A figure of AIPerf with its unit."""

    value: Figure
    unit: Text


class AiperfMetrics(Lenient):
    time_to_first_token: Value | None = None
    request_latency: Value | None = None
    usage_completion_tokens: Value | None = None
    output_sequence_length: Value | None = None
    input_sequence_length: Value | None = None


class AiperfRecord(Lenient):
    """A line of profile_export.jsonl: a request."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    metrics: AiperfMetrics = AiperfMetrics()
    error: Any = None


def aiperf_arm(file: Path, name: str) -> ImportedArm:
    summary = imported.read_json(file)
    records = file.with_name(AIPERF_RECORDS)
    if not records.is_file():
        raise ImportProblem(
            f"{file}: {AIPERF_RECORDS} does not lie beside it, and without its requests nothing is compared"
        )
    every = [
        record
        for record in imported.lines(records, AiperfRecord, AIPERF)
        if record.metadata.get("benchmark_phase", AIPERF_PHASE) == AIPERF_PHASE
    ]
    rows = []
    for found in (record.metrics for record in every if record.error is None):
        tokens, asked = found.usage_completion_tokens or found.output_sequence_length, found.input_sequence_length
        if found.time_to_first_token and found.request_latency and tokens:
            times = seconds(file, found.time_to_first_token), seconds(file, found.request_latency)
            rows.append(imported.completed_request(*times, round(tokens.value), round(asked.value) if asked else 0))
    config = imported.inside(summary, "input_config")
    load = _aiperf_load(file, config)
    by_server = all(record.metrics.usage_completion_tokens for record in every)
    names = {"mean": "avg", "stddev": "std"} | {p: p for p in ("min", "p25", "p50", "p75", "p90", "p95", "p99", "max")}
    stated: dict[str, Summary] = {}
    for ours, theirs in TIMES.items():
        if isinstance(unit := imported.inside(summary, theirs, "unit"), str):
            column = {own: imported.inside(summary, theirs, key) for own, key in names.items()}
            scale = seconds(file, Value(value=1.0, unit=unit[:500]))
            stated |= imported.own_statistics(len(rows), {ours: column}, scale=scale)
    return imported.tool_arm(
        name,
        AIPERF,
        rows,
        model=str(
            imported.inside(config, "models", "items", 0, "name")
            or imported.inside(config, "endpoint", "model_names", 0)
            or "unknown"
        ),
        concurrency=imported.count(load.get("concurrency")),
        completed=len(rows),
        failed=len(every) - len(rows),
        took_s=imported.number(imported.inside(summary, "benchmark_duration", "avg")),
        tokens=sum(row["number_output_tokens"] for row in rows),
        timestamp=imported.moment(str(imported.inside(summary, "start_time") or "")[:19], "%Y-%m-%dT%H:%M:%S"),
        conditions={
            "concurrency": load.get("concurrency"),
            "request_rate": load.get("rate", load.get("request_rate")),
            **{key: load.get(key) for key in ARRIVALS},
            "tokens counted by": "the server" if by_server else "a tokenizer at the client",
        },
        stated=stated,
    )


def _aiperf_load(file: Path, config: Any) -> dict[str, Any]:
    """The load of the requests that are measured: of the one phase that is no warm-up; up to version 0.9 `loadgen`.
    Empty if the files do not say it.
    """
    phases, before = (imported.inside(config, key) for key in ("phases", "loadgen"))
    if not isinstance(phases, list):
        return before if isinstance(before, dict) else {}
    measured = [
        each for each in phases if (imported.inside(each, "kind") or imported.inside(each, "name")) == AIPERF_PHASE
    ]
    if len(measured) > 1:
        raise ImportProblem(f"{file}: {len(measured)} phases are measured, one is needed: run {AIPERF} with one load")
    return measured[0] if measured else {}


def seconds(file: Path, value: Value) -> float:
    """A figure with a unit of time, in seconds."""
    if value.unit not in SECONDS:
        raise ImportProblem(f"{file}: {value.unit!r} is no unit of time; known are {', '.join(SECONDS)}")
    return value.value * SECONDS[value.unit]


class GuidellmRequest(Lenient):
    """A request that ended well."""

    time_to_first_token_ms: Figure | None = None
    request_latency: Figure
    output_tokens: Tokens | None = None
    prompt_tokens: Tokens | None = None
    request_args: str | None = None


class GuidellmRequests(Lenient):
    successful: Many[GuidellmRequest]
    errored: tuple[Any, ...] | None = None


class GuidellmConfig(Lenient):
    strategy: dict[str, Any] = Field(default_factory=dict)
    sample_size: int | None = None


class GuidellmBenchmark(Lenient):
    """Requests and settings of one load."""

    config: GuidellmConfig = GuidellmConfig()
    requests: GuidellmRequests
    start_time: imported.Moment = 0.0
    duration: Figure
    metrics: dict[str, Any] = Field(default_factory=dict)


def guidellm_arm(file: Path, document: dict[str, Any], name: str) -> ImportedArm:
    benchmarks = document.get("benchmarks")
    if not isinstance(benchmarks, list) or len(benchmarks) != 1:
        many = len(benchmarks) if isinstance(benchmarks, list) else 0
        raise ImportProblem(
            f"{file}: {many} benchmarks, one is needed: run GuideLLM with one load (kind=concurrent,streams=N)"
        )
    found = imported.read(GuidellmBenchmark, benchmarks[0], file, GUIDELLM)
    if found.config.sample_size is not None:
        raise ImportProblem(f"{file}: only a sample of its requests was kept; run GuideLLM without a sample size")
    successful, strategy = found.requests.successful, found.config.strategy
    rows = [
        imported.completed_request(first / 1000.0, each.request_latency, made, each.prompt_tokens or 0)
        for each in successful
        if (first := each.time_to_first_token_ms) and (made := each.output_tokens)
    ]
    names = {"mean": "mean", "p50": "median", "stddev": "std_dev", "min": "min", "max": "max"}
    stated: dict[str, Summary] = {}
    for ours, theirs, scale in (
        ("ttft", "time_to_first_token_ms", 1e-3),
        ("end_to_end_latency", "request_latency", 1.0),
        ("time_per_output_token", "inter_token_latency_ms", 1e-3),
    ):
        column = {own: imported.inside(found.metrics, theirs, "successful", key) for own, key in names.items()}
        stated |= imported.own_statistics(len(rows), {ours: column}, scale=scale)
    return imported.tool_arm(
        name,
        GUIDELLM,
        rows,
        model=_asked_model(successful),
        concurrency=imported.count(strategy.get("streams") or strategy.get("max_concurrency")),
        completed=len(rows),
        failed=len(found.requests.errored or ()) + len(successful) - len(rows),
        took_s=found.duration,
        tokens=sum(row["number_output_tokens"] for row in rows),
        timestamp=found.start_time,
        conditions={key.rstrip("_"): strategy.get(key) for key in ("type_", "streams", "max_concurrency", "rate")},
        stated=stated,
    )


def _asked_model(requests: Sequence[GuidellmRequest]) -> str:
    """The model that GuideLLM's first request names."""
    found = None
    with suppress(Unreadable, IndexError):
        found = imported.inside(parse_json(requests[0].request_args or "null"), "body", "model")
    return found[:500] if isinstance(found, str) else "unknown"
