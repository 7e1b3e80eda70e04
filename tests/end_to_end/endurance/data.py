"""A thousand cases, their report, and millions of chunks through the load generator."""

import json
import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specdecode.analysis import RunContext, compare
from specdecode.analysis.datums import metric_data
from specdecode.analysis.report import render_csv, render_html, render_markdown
from specdecode.experiment import Experiment, from_document, load_preset
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkSpec
from specdecode.manifests.benchmarking import benchmark
from specdecode.manifests.naming import RenderContext
from specdecode.records import read_record

from tests.end_to_end.endurance.measuring import MIB, Note, alone, rss_mib
from tests.plans import plan_for


def _thousand_cases(cases: int, text: str = "word " * 8) -> Experiment:
    document = load_preset("qwen3-32b").model_dump(mode="json", exclude={"published"})
    document["workload"]["cases"] = [
        {"name": f"case-{n}", "label": f"case_{n}", "kind": "text", "text": f"{n} {text}", "structured": n % 2 == 0}
        for n in range(cases)
    ]
    return from_document(document)


def _plan(cases: int) -> dict[str, Any]:
    begun = time.monotonic()
    experiment = _thousand_cases(cases)
    plan = plan_for(experiment)
    took = time.monotonic() - begun
    context = RenderContext(run_id="r", bucket="b", bundle_uri="s3://b/k", bundle_sha256="0" * 64, region="us-east-2")
    config = benchmark(plan, plan.waves[0], context).config[0]
    request = json.dumps({"experiment": experiment.model_dump(mode="json")}, separators=(",", ":"))
    return {
        "seconds": took,
        "input": len(request),
        "config": len(config["data"]["spec.json"]),
        "events": plan.worst_case_events,
        "warned": [text for text in plan.warnings if "deadlines.benchmark" in text],
    }


def test_a_plan_of_a_thousand_cases(note: Note) -> None:
    found = alone(_plan, 1000)
    assert found["input"] < 256 * 1024 and found["config"] < MIB and found["events"] < 20_000 and found["warned"]
    note(
        "an experiment of 1,000 cases",
        f"planned in {found['seconds']:.2f} s; {found['input'] / 1024:.0f} KiB as input of the execution, "
        f"{found['config'] / 1024:.0f} KiB as ConfigMap; at most {found['events']:,} history events",
        "within 256 KiB, 1 MiB and 20,000; the plan warns that the load outlasts its deadline; a larger input is "
        "refused by `specdecode run`",
    )


def _write_raw(folder: Path, experiment: Experiment, requests: int, chunks: int) -> tuple[int, int]:
    """Records of every arm and case; bytes and chunks written."""
    rng, size, count = random.Random(1), 0, 0
    for case in experiment.workload.cases:
        for variant in experiment.variants:
            per_chunk = 3 if variant.speculation else 1
            path = folder / variant.name / f"{case.name}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w") as file:
                for index in range(requests):
                    at, steps = 0.1, chunks // per_chunk
                    texts = []
                    for _ in range(steps):
                        at += 0.03 * (0.9 + 0.2 * rng.random())
                        texts.append(f'{{"at_s":{at:.9f},"chars":5,"tokens":{per_chunk},"reasoning_chars":0}}')
                    count += steps
                    record = {
                        **{"run_id": "r", "variant": variant.name, "case": case.name, "index": index},
                        **{"started_at": 1.8e9, "sent_s": 10.0 * index, "end_s": at, "chunks": []},
                        **{"requested_input_tokens": 9, "requested_output_tokens": chunks, "prompt_tokens": 9},
                        **{"completion_tokens": steps * per_chunk, "prompt_sha256": f"{index:064d}"},
                        **{"output": "word " * steps * per_chunk, "finish_reason": "length"},
                    }
                    file.write(json.dumps(record).replace('"chunks": []', f'"chunks": [{",".join(texts)}]') + "\n")
            size += path.stat().st_size
    return size, count


def _report(folder: str, cases: int) -> dict[str, Any]:
    experiment = _thousand_cases(cases)
    begun = time.monotonic()
    records = [
        read_record(line) for path in sorted(Path(folder).rglob("*.jsonl")) for line in path.read_bytes().splitlines()
    ]
    read = time.monotonic() - begun
    at = datetime.now(UTC)
    context = RunContext(run_id="r", started_at=at, finished_at=at, price_per_node_hour=35.0, node_seconds=36e3)
    begun = time.monotonic()
    comparison = compare(experiment=experiment, records=records, context=context)
    answer: dict[str, Any] = {"read": read, "compare": time.monotonic() - begun, "datums": len(metric_data(comparison))}
    for name, render in (("html", render_html), ("md", render_markdown), ("csv", render_csv)):
        begun = time.monotonic()
        answer[name] = (len(render(comparison).encode()), time.monotonic() - begun)
    return answer


def test_a_report_of_a_thousand_cases(tmp_path: Path, note: Note) -> None:
    size, chunks = _write_raw(tmp_path, _thousand_cases(1000), requests=16, chunks=90)
    found = alone(_report, str(tmp_path), 1000)
    assert found["peak_mib"] < 2048, "the report's function has 2 GiB"
    files = ", ".join(
        f"{kind.upper()} {found[kind][0] / MIB:.1f} MiB in {found[kind][1]:.0f} s" for kind in ("html", "md", "csv")
    )
    note(
        f"the report of 1,000 cases, 16 requests, two arms ({chunks / 1e6:.1f} M chunks, {size / MIB:.0f} MiB)",
        f"read in {found['read']:.0f} s, compared in {found['compare']:.0f} s; {files}; {found['datums']:,} metric "
        f"data; {found['peak_mib']:.0f} MiB at most",
        "within the function's 2 GiB and 5 minutes; nothing grows with the square of the cases",
    )


def _load(folder: Path, *, requests: int, chunks: int, note_rss: list[tuple[int, float]]) -> float:
    """One block of streams against the fast server; notes (bytes recorded, resident MiB) now and then. CPU seconds."""
    case = {"name": "c", "label": "c", "kind": "text", "text": "hi", "structured": True}
    load = {"cases": [case], "input_tokens": 9, "output_tokens": chunks, "requests": requests, "concurrency": 8}
    spec = BenchmarkSpec(
        run_id="r",
        experiment="e",
        wave=0,
        round=0,
        model="model",
        arms=(BenchmarkArm(variant="base", label="Base"),),
        workload=load | {"warmup_requests": 0},
    )
    (folder / "spec.json").write_text(spec.model_dump_json())
    server = subprocess.Popen(
        [sys.executable, Path(__file__).parents[1] / "endurance_server.py", str(chunks)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin and server.stdout
    try:
        url = f"base=http://127.0.0.1:{server.stdout.readline().strip()}"
        command = [sys.executable, "-m", "specdecode.benchmark", "--spec", folder / "spec.json", "--arm", url]
        client = subprocess.Popen(
            [*command, "--out", folder / "out"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        raw = folder / "out" / "raw" / "base" / "c.jsonl"
        while client.poll() is None:
            if raw.exists():
                note_rss.append((raw.stat().st_size, rss_mib(client.pid)))
            time.sleep(0.5)
    finally:
        server.stdin.close()
        server.wait()
    assert client.returncode == 0
    return os.times().children_user


def test_millions_of_chunks_through_the_client(tmp_path: Path, note: Note) -> None:
    requests, chunks = 8000, 250
    seen: list[tuple[int, float]] = []
    cpu_s = _load(tmp_path, requests=requests, chunks=chunks, note_rss=seen)
    whole = max(size for size, _ in seen)
    loading = [rss for size, rss in seen if 0.5 * whole < size < 0.95 * whole]
    assert max(loading) - min(loading) < 32, "memory grows with what was measured"
    records = [read_record(line) for line in (tmp_path / "out/raw/base/c.jsonl").read_bytes().splitlines()]
    assert len(records) == requests and all(len(record.chunks) == chunks for record in records)
    note(
        f"{requests * chunks / 1e6:.0f} M chunks in {requests:,} answers through the load generator",
        f"{min(loading):.0f} to {max(loading):.0f} MiB resident while it loads, {max(rss for _, rss in seen):.0f} MiB "
        f"when the block is summed up; {cpu_s:.0f} s of CPU",
        "no request lost; memory under load does not depend on what was measured before",
    )
