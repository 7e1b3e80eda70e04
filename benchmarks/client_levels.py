"""Do the client's error bounds hold at each load of one run? `python benchmarks/client_levels.py`

One benchmark at several loads against the reference server, as a curve is measured: every chunk's recorded arrival
against the time at which the server sent it, load by load. A load that breaks the bounds of docs/benchmarks.md must be
marked as doubtful, by the rule that marks it in a report (specdecode.measures.plausibility). Writes
benchmarks/results/client_levels.json and the table in docs/benchmarks.md; exits 1 where a load breaks them and is not
marked.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.measures.plausibility import doubtful

from benchmarks.client_truth import AIMS, conclude, errors_in_cells
from benchmarks.publishing import machine
from benchmarks.reference.ours import benchmark, errors_of, paired
from benchmarks.reference.processes import reference_server

LEVELS = (1, 4, 16, 64, 256, 512)


def lines(document: dict) -> list[str]:
    """The table of the page, with the machine's load."""
    before, after = document["load_average"]
    found = [
        f"Measured with load averages of {before:.1f} before and {after:.1f} after, from other work on the two cores:",
        "",
        "| streams | chunks | TTFT error, mean ms | TPOT error, mean % | chunk error ms: mean | p99 | within its "
        "bounds | marked doubtful |",
        "|---:|---:|---:|---:|---:|---:|---|---|",
    ]
    for row in document["rows"]:
        found.append(f"| {row['streams']} | {errors_in_cells(row)} | {judged_in_cells(row)} |")
    return found


def judged_in_cells(row: dict) -> str:
    """Whether they keep their bounds, and are marked."""
    return f"{'no' if row['broken'] else 'yes'} | {'yes' if row['doubtful'] else 'no'}"


def aims(streams: int) -> dict[str, float]:
    """The bounds of the next larger load that has some; beyond the largest, its own."""
    return AIMS[min((known for known in AIMS if known >= streams), default=max(AIMS))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", type=int, nargs="*", default=LEVELS)
    parser.add_argument("--output-tokens", type=int, default=900, help="per request: 200 chunks, 4 seconds")
    args = parser.parse_args()
    before = os.getloadavg()[0]
    with reference_server() as url, tempfile.TemporaryDirectory() as folder:
        _, records, true = benchmark(
            url, levels=tuple(args.levels), requests=4, output_tokens=args.output_tokens, folder=Path(folder)
        )
    pairs = paired(records, true)
    rows, wrong = [], []
    for streams in args.levels:
        own = [(record, entry) for record, entry in pairs if record.level == f"c{streams}"]
        found, chunks = errors_of(own)
        errors = vars(found)
        broken = [
            f"{name} {errors[name]:.3f} > {limit}" for name, limit in aims(streams).items() if abs(errors[name]) > limit
        ]
        marked = doubtful([record for record, _ in own])
        rows.append(
            {
                "streams": streams,
                "requests": len(own),
                "chunks": chunks,
                "errors": errors,
                "broken": broken,
                "doubtful": marked,
                "largest_time_doubt_ms": max(record.time_doubt_s for record, _ in own) * 1000,
            }
        )
        print(
            f"{streams:>4} streams, {chunks:>7} chunks: TTFT {found.ttft_mean_ms:.3f} ms, TPOT "
            f"{found.tpot_mean_percent:.4f} %, chunk mean {found.chunk_mean_ms:.3f}, p99 {found.chunk_p99_ms:.3f}, "
            f"worst {found.chunk_worst_ms:.1f} ms; {'breaks ' + ', '.join(broken) if broken else 'within its bounds'}; "
            f"{'doubtful' if marked else 'not marked'}"
        )
        wrong += [f"{streams} streams: {', '.join(broken)}, and it is not marked"] if broken and not marked else []
    document = {
        "machine": machine(),
        "load_average": [before, os.getloadavg()[0]],
        "rows": rows,
        "wrong": wrong,
    }
    return conclude("client_levels", document, "\n".join(lines(document)), wrong=wrong)


if __name__ == "__main__":
    sys.exit(main())
