"""Do the error bounds hold for several clients' merged records? `python benchmarks/client_several.py`

One, two and four clients share a level against the reference server, each a process of its own, begun by their notes in
a folder as pods begin by theirs in S3. Their records are read together, as a report reads them: every chunk's arrival
against the time at which the server sent it, and the merged throughput against the server's own. A level that breaks
the bounds of docs/benchmarks.md must be marked as doubtful. Writes benchmarks/results/client_several.json and the table
in docs/benchmarks.md; exits 1 where a level breaks them and is not marked.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.measures.arm import measure_arm
from specdecode.measures.plausibility import apart_share, doubtful
from specdecode.records import RequestRecord, raw_file

from benchmarks.client_levels import aims, judged_in_cells
from benchmarks.client_truth import conclude, errors_in_cells
from benchmarks.publishing import machine
from benchmarks.reference.ours import errors_of, paired, specification
from benchmarks.reference.processes import ROOT, reference_server, truth

LEVELS = tuple((streams, clients) for streams in (16, 64, 256, 512) for clients in (1, 2, 4))
"""Streams and clients."""


def load(url: str, *, streams: int, clients: int, output_tokens: int, folder: Path) -> list[RequestRecord]:
    """The merged records of so many clients."""
    given = specification(levels=(streams,), requests=2 * streams, output_tokens=output_tokens, folder=folder)
    workload = given.workload.model_copy(update={"streams_per_client": math.ceil(streams / clients)})
    spec = given.model_copy(update={"workload": workload})
    if spec.most_clients != clients:
        raise SystemExit(f"{streams} streams cannot be shared by {clients} clients")
    (folder / "spec.json").write_text(spec.model_dump_json())
    command = [sys.executable, "-m", "specdecode.benchmark", "--spec", "spec.json", "--arm", f"base={url}"]
    running = [
        subprocess.Popen(
            [*command, "--client", str(client), "--meet", str(folder / "notes"), "--out", str(client)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "lambda")},
            stdout=subprocess.DEVNULL,
            stderr=(folder / f"{client}.log").open("w"),
        )
        for client in range(clients)
    ]
    if codes := [process.wait(timeout=300) for process in running if process.wait(timeout=300)]:
        raise SystemExit(f"clients ended with {codes}: {(folder / '0.log').read_text()}")
    (case,) = spec.workload.cases
    files = [folder / str(client) / raw_file("base", case.name, client) for client in range(clients)]
    return [RequestRecord.model_validate_json(line) for file in files for line in file.read_text().splitlines()]


def row(streams: int, clients: int, *, output_tokens: int) -> dict:
    with reference_server() as url, tempfile.TemporaryDirectory() as folder:
        load_average = os.getloadavg()[0]
        records = load(url, streams=streams, clients=clients, output_tokens=output_tokens, folder=Path(folder))
        true = truth(url)[-len(records) :]
    found, chunks = errors_of(paired(records, true))
    seconds = max(each["arrived_s"] + each["sent_s"][-1] for each in true) - min(each["arrived_s"] for each in true)
    throughput = sum(sum(each["tokens"]) for each in true) / seconds
    measured = measure_arm(records).arm.output_throughput or 0.0
    errors = vars(found)
    return {
        "streams": streams,
        "clients": clients,
        "requests": len(records),
        "chunks": chunks,
        "errors": errors,
        "throughput_percent": (measured / throughput - 1) * 100,
        "apart_percent": apart_share(records, clients) * 100,
        "broken": [name for name, limit in aims(streams).items() if abs(errors[name]) > limit],
        "doubtful": doubtful(records),
        "load_average": load_average,
    }


def lines(document: dict) -> list[str]:
    """The table of the page."""
    loads = [each["load_average"] for each in document["rows"]]
    found = [
        f"Measured on {document['machine']['cores']} cores with load averages of {min(loads):.1f} to {max(loads):.1f} "
        "before each row:",
        "",
        "| streams | clients | chunks | TTFT error, mean ms | TPOT error, mean % | chunk error ms: mean | p99 "
        "| tokens/s, error % | not all sending, % of the time | within its bounds | marked doubtful |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|",
    ]
    for each in document["rows"]:
        found.append(
            f"| {each['streams']} | {each['clients']} | {errors_in_cells(each)} | {each['throughput_percent']:.3f} "
            f"| {each['apart_percent']:.2f} | {judged_in_cells(each)} |"
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output-tokens", type=int, default=900, help="per request: 200 chunks, 4 seconds")
    args = parser.parse_args()
    rows, wrong = [], []
    for streams, clients in LEVELS:
        rows.append(found := row(streams, clients, output_tokens=args.output_tokens))
        print(json.dumps(found), flush=True)
        if found["broken"] and not found["doubtful"]:
            wrong.append(
                f"{streams} streams, {clients} clients: breaks {', '.join(found['broken'])}, and is not marked"
            )
    document = {
        "machine": machine(),
        "rows": rows,
        "wrong": wrong,
    }
    return conclude("client_several", document, "\n".join(lines(document)), wrong=wrong)


if __name__ == "__main__":
    sys.exit(main())
