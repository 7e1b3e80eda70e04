"""How true are the client's times? `python benchmarks/client_truth.py`

Against the reference server (a chunk of 1 to 8 tokens every 20 ms, jittered by a fifth) at 1 to 512 streams: every
chunk's recorded arrival against the time at which the server sent it. Writes benchmarks/results/client_truth.json and
the table in docs/benchmarks.md; exits 1 when an aim is missed that the machine allows.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.publishing import machine, publish, save
from benchmarks.reference.ours import Measured, measure
from benchmarks.reference.processes import reference_server

STREAMS = (1, 4, 64, 256, 512)
AIMS = {
    4: {"ttft_mean_ms": 0.5, "tpot_mean_percent": 0.1},
    64: {"ttft_mean_ms": 1.0, "chunk_p99_ms": 5.0},
    256: {"chunk_mean_ms": 3.0, "chunk_p99_ms": 10.0},
}
"""Streams -> largest error."""


def missed(measured: Measured) -> list[str]:
    errors = measured.as_dict()["errors"]
    return [
        f"{measured.streams} streams: {name} is {errors[name]:.3f}, not within {limit}"
        for name, limit in AIMS.get(measured.streams, {}).items()
        if abs(errors[name]) > limit
    ]


def table(document: dict) -> str:
    """As the page prints it."""
    rows = [
        "| streams | chunks | TTFT error, mean ms | TPOT error, mean % | chunk error ms: mean | p99 | worst |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    rows += [
        f"| {row['streams']} | {errors_in_cells(row)} | {row['errors']['chunk_worst_ms']:.1f} |"
        for row in document["rows"]
    ]
    return "\n".join(rows)


def errors_in_cells(row: dict) -> str:
    """Chunks, and how wrong their times are."""
    e = row["errors"]
    return (
        f"{row['chunks']:,} | {e['ttft_mean_ms']:.3f} | {e['tpot_mean_percent']:.4f} | {e['chunk_mean_ms']:.3f} "
        f"| {e['chunk_p99_ms']:.3f}"
    )


def conclude(name: str, document: dict, table: str, *, wrong: list[str]) -> int:
    """Write figures and table, print what is wrong, and return the exit status."""
    save(name, document)
    publish(name, table, page="benchmarks.md")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, nargs="*", default=STREAMS)
    parser.add_argument("--output-tokens", type=int, default=900, help="per request: 200 chunks, 4 seconds")
    args = parser.parse_args()
    rows, failures = [], []
    print(
        f"{'streams':>7} {'chunks':>7} {'TTFT error ms':>14} {'TPOT error %':>13} "
        f"{'chunk error ms (mean p99 worst)':>32} {'doubt ms':>9} {'CPU s':>6}"
    )
    for streams in args.streams:
        with reference_server() as url, tempfile.TemporaryDirectory() as folder:
            load = os.getloadavg()[0]
            measured, _ = measure(
                url,
                streams=streams,
                requests=max(2 * streams, 4),
                output_tokens=args.output_tokens,
                folder=Path(folder),
            )
        rows.append({**measured.as_dict(), "load_average_before": load})
        failures += missed(measured)
        errors = measured.errors
        chunk = f"{errors.chunk_mean_ms:.3f} {errors.chunk_p99_ms:.3f} {errors.chunk_worst_ms:.3f}"
        print(
            f"{streams:>7} {measured.chunks:>7} {errors.ttft_mean_ms:>14.3f} {errors.tpot_mean_percent:>13.4f}"
            f" {chunk:>32} {measured.largest_time_doubt_ms:>9.2f} {measured.cost.cpu_s:>6.2f}"
        )
    document = {"machine": machine(), "aims": AIMS, "rows": rows, "missed": failures}
    return conclude("client_truth", document, table(document), wrong=failures)


if __name__ == "__main__":
    sys.exit(main())
