"""How often the crossover and the schedule of a run at several loads are right, on servers whose step time is known.

    python benchmarks/load_curve.py [--runs 300] [--write]

Each run simulates an engine with continuous batching whose step takes `a + b * running` seconds, for every arm at six
loads, and hands the records to `compare` as the benchmark would.

- a crossover at about 14 requests: how often it is within 10% of the true one, and how often its interval holds it;
- none (the arm is faster at every load, slower at every load, or the same at all): how often one is claimed;
- three arms (k = 0, 2 and 6): how often the schedule is at most 2% slower than the best arm at every load.

`--write` puts the figures into benchmarks/results/load_curve.json and the table into docs/metrics.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis import Comparison, compare

from tests.specdecode.analysis.simulate import context
from tests.specdecode.analysis.simulate_load import Server, loads, run, true_crossover, true_gain

BEGIN = "<!-- table of benchmarks/load_curve.py -->"
END = "<!-- end of the table of loads -->"
LEVELS = (1, 2, 4, 8, 16, 32)
REQUESTS = 64
BASE = Server()
CROSSING = Server(base_s=0.026, per_sequence_s=0.0016, k=5, acceptance=0.55)
NONE = {
    "faster at every load": Server(base_s=0.026, per_sequence_s=0.00026, k=5, acceptance=0.55),
    "just faster at the largest": Server(base_s=0.026, per_sequence_s=0.00065, k=5, acceptance=0.55),
    "slower at every load": Server(base_s=0.060, per_sequence_s=0.0006, k=5, acceptance=0.55),
    "the same arm twice": BASE,
}
SEVERAL = {
    2: Server(base_s=0.023, per_sequence_s=0.0012, k=2, acceptance=0.8),
    6: Server(base_s=0.027, per_sequence_s=0.0030, k=6, acceptance=0.8),
}


def simulated(seed: int, arms: dict[int, Server]) -> Comparison:
    """A run of the base and of an arm for each k."""
    tested = loads(LEVELS, ks=tuple(arms), requests=REQUESTS)
    names = ["sd"] if len(arms) == 1 else [f"sd-k{k}" for k in arms]
    servers = {"base": BASE, **dict(zip(names, arms.values(), strict=True))}
    return compare(experiment=tested, records=run(tested, servers, seed=seed), context=context())


def measure(runs: int) -> dict[str, Any]:
    """All figures."""
    truth = true_crossover(BASE, CROSSING)
    found = [simulated(seed, {5: CROSSING}).curve[0].crossovers for seed in range(runs)]
    single = [each[0] for each in found if len(each) == 1]
    claimed = {
        name: sum(bool(simulated(seed, {5: arm}).curve[0].crossovers) for seed in range(runs)) / runs
        for name, arm in NONE.items()
    }
    servers = {0: BASE, **SEVERAL}
    gains = {level: {k: true_gain(BASE, arm, level) for k, arm in servers.items()} for level in LEVELS}
    worst = [_worst(simulated(seed, SEVERAL), gains) for seed in range(runs)]
    return {
        "runs": runs,
        "requests": REQUESTS,
        "levels": list(LEVELS),
        "true_crossover": truth,
        "found": len(single) / runs,
        "within_10_percent": sum(abs(each.load / truth - 1.0) <= 0.1 for each in single) / runs,
        "mean_error": sum(each.load / truth - 1.0 for each in single) / len(single),
        "covered": sum(each.low <= truth <= each.high for each in single) / runs,
        "claimed_without": claimed,
        "schedule_within_2_percent": sum(each <= 0.02 for each in worst) / runs,
        "schedule_worst": max(worst),
    }


def _worst(comparison: Comparison, gains: dict[int, dict[int, float]]) -> float:
    """How much slower than the best arm the schedule is at most, over the levels."""
    (schedule,) = comparison.schedule
    lost = []
    for level, of_k in gains.items():
        (own,) = [each for each in schedule.ranges if each.first <= level <= each.last]
        lost.append(max(of_k.values()) / of_k[own.k] - 1.0)
    return max(lost)


def table(results: dict[str, Any]) -> str:
    """The figures as docs/metrics.md prints them."""
    rows = [
        f"| of {results['runs']} simulated runs, {results['requests']} requests and more at each load | share |",
        "|---|--:|",
        f"| crossover at {results['true_crossover']:.1f}: one is found | {results['found']:.1%} |",
        f"| … within 10% of the true one | {results['within_10_percent']:.1%} |",
        f"| … its 95% interval holds the true one | {results['covered']:.1%} |",
    ]
    rows += [
        f"| no crossover, {name}: one is claimed | {share:.1%} |" for name, share in results["claimed_without"].items()
    ]
    rows.append(
        f"| schedule of k = 0, 2 and 6: at most 2% slower than the best arm at every load "
        f"| {results['schedule_within_2_percent']:.1%} |"
    )
    return "\n".join(rows)


def write(results: dict[str, Any]) -> None:
    """The figures into their file, the table into the document."""
    root = Path(__file__).resolve().parents[1]
    (root / "benchmarks" / "results" / "load_curve.json").write_text(json.dumps(results, indent=1) + "\n")
    document = root / "docs" / "metrics.md"
    before, rest = document.read_text().split(BEGIN)
    document.write_text(f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    results = measure(given.runs)
    print(table(results))
    print(f"mean error {results['mean_error']:+.1%}, schedule's worst {results['schedule_worst']:.1%}")
    if given.write:
        write(results)


if __name__ == "__main__":
    main()
