"""How often `specdecode gate` is wrong: no change must not go red, and 5 % slower must not stay green.

    python benchmarks/gate.py [--gates 400] [--only simulated|served] [--write]

Simulated: whole runs with a spread of their own between them, one to three a side, held to --max-regression 3%; by 5 %
differ runs that had nodes of their own. Served: `specdecode bench` on two reference servers whose seed differs with
every run, the second as fast as the first or 5 % slower; four gates at a time, whose runs mostly wait for their
servers. `--only` leaves the other rows as they are in benchmarks/results/gate.json. `--write` puts the figures there
and the table into docs/reference/simulations.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis import Comparison, compare
from specdecode.analysis.several_runs.gate import GateOutcome, gate
from specdecode.analysis.several_runs.gate_questions import Thresholds
from specdecode.analysis.statistics.groups import NODES_DIFFER

from benchmarks.publishing import publish, results_of, save
from benchmarks.reference.processes import ROOT, reference_server
from tests.specdecode.analysis.simulate import context, experiment, run

LIMIT = Thresholds(max_regression=0.03)
CHANGES = {"the same": 1.0, "5 % slower": 1 / 0.95}
SPREADS = (0.002, 0.005, 0.01, NODES_DIFFER)
ENDS = (GateOutcome.PASSED, GateOutcome.FAILED, GateOutcome.CANNOT_TELL)
REQUESTS, TOKENS, STREAMS = 32, 64, 8
AT_A_TIME = 4
"""Served gates. One takes a fifth of a core."""


def simulated(seed: int, *, spread: float, slow: float) -> Comparison:
    """A run of one arm without speculation, whose times are longer by `slow` and by its own part of the spread.

    It had a node of its own if the spread is that of nodes.
    """
    tested = experiment(requests=16)
    base = tested.model_copy(update={"variants": tested.variants[:1]})
    node = "trn2.48xlarge" if spread == NODES_DIFFER else ""
    own = slow * random.Random(f"{seed}/{spread}").lognormvariate(0.0, spread)
    records = run(base, seed=seed, slow={("base", 0): own}, noise=0.01)
    return compare(experiment=base, records=records, context=context(run_id=f"run-{seed}", node=node))


def served(seed: int, slow: float) -> Comparison:
    """A run of the command against a server whose times are drawn anew."""
    arguments = (
        "--first-ms",
        f"{100 * slow}",
        "--gap-ms",
        f"{20 * slow}",
        "--most-tokens-a-chunk",
        "1",
        "--seed",
        f"{seed}",
    )
    with reference_server(*arguments) as url, tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out"
        command = [
            sys.executable, "-c", "from specdecode.cli import main; main()", "bench",
            f"base={url}", "--case", "count", "--requests", f"{REQUESTS}",
            "--concurrency", f"{STREAMS}", "--output-tokens", f"{TOKENS}", "--out", str(out),
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "lambda")}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        found = Comparison.model_validate_json((out / "report.json").read_bytes())
    return found.model_copy(update={"run_id": f"run-{seed}"})


def share(
    gates: int, side: int, make: Callable[[int, float], Comparison], slow: float, *, at_a_time: int = 1
) -> dict[str, float]:
    """How `gates` gates ended, with `side` runs on each side; all runs have seeds of their own."""

    def one(number: int) -> GateOutcome:
        seeds = range(2 * side * number, 2 * side * (number + 1))
        before: Sequence[Comparison] = [make(seed, 1.0) for seed in seeds[:side]]
        after = [make(seed, slow) for seed in seeds[side:]]
        return gate(after, LIMIT, against=before).outcome

    with ThreadPoolExecutor(at_a_time) as workers:
        ends = Counter(workers.map(one, range(gates)))
    return {outcome.value: ends[outcome] / gates for outcome in ENDS}


def simulated_rows(gates: int) -> list[dict[str, Any]]:
    """A quarter of the gates where a gate takes more runs."""
    rows = []
    for side in (1, 2, 3):
        several = gates if side == 1 else gates // 4
        for spread in SPREADS:
            for change, slow in CHANGES.items():

                def make(seed: int, factor: float, spread: float = spread) -> Comparison:
                    return simulated(seed, spread=spread, slow=factor)

                rows.append({"runs": side, "spread": spread, "change": change, **share(several, side, make, slow)})
                print(rows[-1], flush=True)
    return rows


def served_rows(gates: int) -> dict[str, Any]:
    """With what it took, and how busy the machine was before and after."""
    began, before = time.monotonic(), os.getloadavg()[0]
    rows = []
    for change, slow in CHANGES.items():
        ends = share(gates, 1, served, slow, at_a_time=AT_A_TIME)
        rows.append({"runs": 1, "spread": None, "change": change, **ends})
        print(rows[-1], flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{minutes:.1f} min")
    return {"gates": gates, "rows": rows, "minutes": minutes, "load_average": [before, os.getloadavg()[0]]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=400)
    parser.add_argument("--only", choices=("simulated", "served"))
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    document = json.loads(results_of("gate").read_text())
    if args.only != "served":
        document |= {"gates": args.gates, "rows": simulated_rows(args.gates)}
    if args.only != "simulated":
        document["served"] = served_rows(args.gates)
    if args.write:
        save("gate", document)
        publish("gate", table(document))
    return 0


def table(document: dict[str, Any]) -> str:
    """What the page says between its two marks."""
    served = document["served"]
    before, after = served["load_average"]
    ways = "passed, failed, cannot tell"
    head = (
        f"| runs a side | runs vary by | AFTER is the same: {ways} | AFTER is 5 % slower: {ways} |\n|---|---|---|---|\n"
    )
    lines: dict[tuple[int, str], list[str]] = {}
    for row in (*document["rows"], *served["rows"]):
        ends = ", ".join(f"{row[decision.value]:.0%}" for decision in ENDS)
        lines.setdefault((row["runs"], spread_of(row)), []).append(ends)
    rows = "".join(f"| {runs} | {spread} | {' | '.join(ends)} |\n" for (runs, spread), ends in lines.items())
    return (
        f"{head}{rows}\n{served['gates']} gates a row on real servers, the command against reference servers that "
        f"stream to it, {AT_A_TIME} gates at a time: {served['minutes']:.0f} minutes on two cores with a load average "
        f"of {before:.1f} before and {after:.1f} after."
    )


def spread_of(row: dict[str, Any]) -> str:
    own = ", each on a node of its own" if row["spread"] == NODES_DIFFER else ""
    return "real servers" if row["spread"] is None else f"{row['spread']:.1%}{own}"


if __name__ == "__main__":
    sys.exit(main())
