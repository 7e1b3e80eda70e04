"""How often `specdecode gate` is wrong: no change must not go red, and 5 % slower must not stay green.

    python benchmarks/gate.py [--gates 50] [--write]

Simulated: whole runs with a spread of their own between them, one to three a side, held to --max-regression 3%. Served:
`specdecode bench` on two reference servers whose seed differs with every run, the second as fast as the first or 5 %
slower. `--write` puts the figures into benchmarks/results/gate.json and the table into docs/metrics.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis import Comparison, compare
from specdecode.analysis.gate import gate
from specdecode.analysis.gate_questions import Limits
from specdecode.analysis.gate_result import Decision

from benchmarks.reference.processes import ROOT, reference_server
from tests.specdecode.analysis.simulate import context, experiment, run

RESULTS = Path(__file__).parent / "results" / "gate.json"
PAGE = ROOT / "docs" / "metrics.md"
BEGIN, END = "<!-- table of benchmarks/gate.py -->", "<!-- end of the gate's table -->"
LIMIT = Limits(max_regression=0.03)
CHANGES = {"the same": 1.0, "5 % slower": 1 / 0.95}
SPREADS = (0.002, 0.005, 0.01)
REQUESTS, TOKENS, STREAMS = 32, 64, 8


def simulated(seed: int, *, spread: float, slow: float) -> Comparison:
    """A run of one arm without speculation, whose times are longer by `slow` and by its own part of the spread."""
    tested = experiment(requests=16)
    base = tested.model_copy(update={"variants": tested.variants[:1]})
    own = slow * random.Random(f"{seed}/{spread}").lognormvariate(0.0, spread)
    records = run(base, seed=seed, slow={("base", 0): own}, noise=0.01)
    return compare(experiment=base, records=records, context=context(run_id=f"run-{seed}"))


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


def share(gates: int, side: int, make: Callable[[int, float], Comparison], slow: float) -> dict[str, float]:
    """How `gates` gates ended, with `side` runs on each side; all runs have seeds of their own."""

    def one(number: int) -> Decision:
        seeds = range(2 * side * number, 2 * side * (number + 1))
        before: Sequence[Comparison] = [make(seed, 1.0) for seed in seeds[:side]]
        after = [make(seed, slow) for seed in seeds[side:]]
        return gate(after, LIMIT, against=before).outcome

    ends = Counter(map(one, range(gates)))
    return {outcome.value: ends[outcome] / gates for outcome in Decision}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=50)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    rows = []
    for side in (1, 2, 3):
        for spread in SPREADS:
            for change, slow in CHANGES.items():

                def make(seed: int, factor: float, spread: float = spread) -> Comparison:
                    return simulated(seed, spread=spread, slow=factor)

                rows.append({"runs": side, "spread": spread, "change": change, **share(args.gates, side, make, slow)})
                print(rows[-1], flush=True)
    for change, slow in CHANGES.items():
        rows.append({"runs": 1, "spread": None, "change": change, **share(args.gates, 1, served, slow)})
        print(rows[-1], flush=True)
    if args.write:
        document = {"gates": args.gates, "load_average": os.getloadavg()[0], "rows": rows}
        RESULTS.write_text(json.dumps(document, indent=2) + "\n")
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table(rows)}{END}{rest.partition(END)[2]}")
    return 0


def table(rows: Sequence[dict]) -> str:
    head = "| runs a side | runs vary by | AFTER is | passed | failed | cannot tell |\n|---|---|---|---|---|---|\n"
    return head + "".join(
        f"| {row['runs']} | {spread_of(row)} | {row['change']} | "
        f"{row['passed']:.0%} | {row['failed']:.0%} | {row['cannot tell']:.0%} |\n"
        for row in rows
    )


def spread_of(row: dict) -> str:
    return "real servers" if row["spread"] is None else f"{row['spread']:.1%}"


if __name__ == "__main__":
    sys.exit(main())
