"""The curve over the load on this machine, from several runs. `python benchmarks/rehearsal_load.py --runs 3`

Runs `make rehearse EXPERIMENT=rehearsal-load` so many times, one after the other, and notes the machine's load average
before and after each. Or takes runs that there are: `FOLDER=BEFORE,AFTER …`, with those two load averages. Writes
benchmarks/results/rehearsal_load.json and what docs/rehearsal/results.md says of the runs.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis import Comparison
from specdecode.analysis.results.numbers import compact
from specdecode.analysis.results.over_load import Objective
from specdecode.analysis.statistics.verdict import estimate
from specdecode.measures.student import log_mean

from benchmarks.publishing import ROOT, publish, save


class Given(NamedTuple):
    folder: Path
    before: float
    after: float
    seconds: float | None = None
    """From the command to its end."""


def rehearse() -> Given:
    """One run. Its folder is named in what it prints."""
    before, began = os.getloadavg()[0], time.monotonic()
    command = ["make", "rehearse", "EXPERIMENT=rehearsal-load"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode:
        sys.exit(told.stdout + told.stderr)
    (report,) = [line.split()[1] for line in told.stdout.splitlines() if line.startswith("Report: ")]
    return Given((ROOT / report).parent, before, os.getloadavg()[0], time.monotonic() - began)


def document(given: list[Given]) -> dict[str, Any]:
    runs = []
    for each in given:
        found = Comparison.model_validate_json((each.folder / "report.json").read_bytes())
        (curve,) = [curve for curve in found.curve if curve.group == "all"]
        runs.append(
            {
                "run": found.run_id,
                "rounds": found.experiment.rounds,
                "seconds": each.seconds and round(each.seconds),
                "load_average": [round(each.before, 1), round(each.after, 1)],
                "points": [
                    {
                        "load": point.level.name,
                        "speedup": [point.speedup.ratio, point.speedup.low, point.speedup.high],
                        "tokens_per_s": [point.base.output_throughput, point.other.output_throughput],
                        "break_even": point.break_even,
                        "acceptance_length": point.acceptance_length,
                        "doubtful": point.doubtful,
                    }
                    for point in curve.points
                ],
                "crossovers": [crossing.load for crossing in curve.crossovers],
                "carried": {each.variant: _kept(each) for each in found.objective},
            }
        )
    return {"machine": {"cores": os.cpu_count()}, "runs": runs}


def _kept(found: Objective) -> str:
    return str(found.keeps or "none")


def table(found: dict[str, Any]) -> list[str]:
    """The lines of the page: the table, and what it shows."""
    runs = found["runs"]
    names = [
        f"run {number}, load {run['load_average'][0]} to {run['load_average'][1]}" for number, run in enumerate(runs, 1)
    ]
    lines = [
        f"| at a time | {' | '.join(names)} | over the runs (95% CI) | tokens/s without → with |",
        "|--:|" + "--:|" * (len(runs) + 2),
    ]
    for number, first in enumerate(runs[0]["points"]):
        points = [run["points"][number] for run in runs]
        over = estimate("", log_mean([math.log(point["speedup"][0]) for point in points]), method="")
        cells = [_speedup(point) for point in points]
        pace = "; ".join(f"{point['tokens_per_s'][0]:,.0f} → {point['tokens_per_s'][1]:,.0f}" for point in points)
        lines.append(f"| {first['load'].removeprefix('c')} | {' | '.join(cells)} | {compact(over)} | {pace} |")
    carried = [" / ".join(f"{name} {load}" for name, load in run["carried"].items()) for run in runs]
    lines.append(f"| carried at the SLO | {' | '.join(carried)} | | |")
    return [*lines, "", *_said(runs)]


def _said(runs: list[dict[str, Any]]) -> list[str]:
    took = [f"{run['seconds'] // 60} min {run['seconds'] % 60} s" for run in runs if run["seconds"]]
    doubtful = sum(point["doubtful"] for run in runs for point in run["points"])
    crossed = sum(bool(run["crossovers"]) for run in runs)
    rounds = " and ".join(sorted({str(run["rounds"]) for run in runs}))
    days = " and ".join(sorted({str(date.fromisoformat(run["run"].split("-")[-3])) for run in runs}))
    return [
        f"Runs of {days}. Rounds of each run: {rounds}."
        + (f" They took {', '.join(took)} from the command to its end." if took else ""),
        f"Doubtful loads: {doubtful or 'none'}. A crossover up to the largest load was shown in "
        f"{crossed or 'none'} of the {len(runs)} runs.",
    ]


def _speedup(point: dict[str, Any]) -> str:
    ratio, low, high = point["speedup"]
    return f"{ratio:.2f}× ({low:.2f}-{high:.2f}){' doubtful' if point['doubtful'] else ''}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", nargs="*", metavar="FOLDER=BEFORE,AFTER", help="runs that there are")
    parser.add_argument("--runs", type=int, default=3, help="how many to make where none are given")
    args = parser.parse_args()
    given = []
    for text in args.given:
        folder, _, loads = text.rpartition("=")
        before, after = map(float, loads.split(","))
        given.append(Given(Path(folder), before, after))
    found = document(given or [rehearse() for _ in range(args.runs)])
    lines = "\n".join(table(found))
    save("rehearsal_load", found)
    publish("rehearsal_load", lines, page="rehearsal/results.md")
    print(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
