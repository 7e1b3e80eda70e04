"""How often verdicts are right, and how good the chosen arm is, where the arms of a run are on several nodes.

    python benchmarks/node_effects.py [--runs 2000] [--write]

Each node is faster or slower for all arms by a log-normal factor of its own ("nodes differ by" is its deviation), and
each arm by another one that only this arm has on this node ("arms by": none, a quarter or half of the nodes'). Truth is
the arm's speed-up on a node like all others.

- verdicts: eight arms go in turns to the nodes, 20 prompts each, 3% noise in each arm. Wrong is "pays" or "costs" of
  two equal arms, "costs" or "no relevant difference" of one that is 10% faster. Beside it what one baseline, of the
  first node, would make of the same records;
- the arm that a sweep would choose: the 22 arms of the advisor's simulated sweeps, by their speed-up over their own
  node's baseline, or by their own tokens per second.

`--write` puts the figures into benchmarks/results/node_effects.json and the tables into docs/explanation/how-sure.md.
"""

from __future__ import annotations

import math
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis import Verdict
from specdecode.analysis.statistics.node_noise import between
from specdecode.analysis.statistics.verdict import estimate, judge
from specdecode.experiment.most_tokens import MostTokens
from specdecode.measures.distribution import mean
from specdecode.measures.student import LogMean, over_prompts, with_shared

from benchmarks.advisor_sweeps import KS, sweep
from benchmarks.publishing import measure_and_publish

ARMS, PROMPTS, NOISE = 8, 20, 0.03
FASTER = 1.1
WRONG = {1.0: (Verdict.PAYS, Verdict.COSTS), FASTER: (Verdict.COSTS, Verdict.NO_DIFFERENCE)}
WITHIN = 0.03


class Nodes:
    """So many nodes, and what each measured of the baseline: logarithms of tokens per second, one a prompt."""

    def __init__(
        self,
        rng: random.Random,
        *,
        nodes: int,
        spread: float,
        share: float,
        noise: float = NOISE,
        prompts: int = PROMPTS,
    ) -> None:
        self._rng, self._noise, self._prompts, self._arms = rng, noise, prompts, spread * share
        self._speeds = [rng.gauss(0.0, spread) for _ in range(nodes)]
        self.baseline = [self._requests(speed) for speed in self._speeds]
        self.shared = between([mean(each) for each in self.baseline]) if nodes > 1 else None

    def arm(self, node: int, speedup: float) -> list[float]:
        """An arm that is `speedup` times as fast as the baseline, on one of them."""
        return self._requests(self._speeds[node] + math.log(speedup) + self._rng.gauss(0.0, self._arms))

    def _requests(self, centre: float) -> list[float]:
        return [centre + self._rng.gauss(0.0, self._noise) for _ in range(self._prompts)]


def gain(base: list[float], arm: list[float]) -> LogMean:
    """Log speed-up, paired by prompt."""
    return over_prompts([after - before for before, after in zip(base, arm, strict=True)])


def verdict(found: LogMean) -> Verdict:
    """As the report has it."""
    return judge(estimate("request_output_throughput", found, method="")).verdict


def verdicts(*, nodes: int, spread: float, share: float, true: float, runs: int) -> dict[str, float]:
    """Shares of arms: a wrong verdict and "pays", beside their own baseline and beside the first node's."""
    rng = random.Random(f"{nodes}/{spread}/{share}/{true}")
    counts = {"wrong": 0, "pays": 0, "wrong_by_one_baseline": 0}
    for _ in range(runs):
        there = Nodes(rng, nodes=nodes, spread=spread, share=share)
        for number in range(ARMS):
            node = number % nodes
            arm = there.arm(node, true)
            own = gain(there.baseline[node], arm)
            said = verdict(with_shared(own, there.shared) if there.shared else own)
            counts["wrong"] += said in WRONG[true]
            counts["pays"] += said is Verdict.PAYS
            counts["wrong_by_one_baseline"] += verdict(gain(there.baseline[0], arm)) in WRONG[true]
    return {name: count / runs / ARMS for name, count in counts.items()}


def choices(*, nodes: int, spread: float, share: float, runs: int) -> dict[str, float]:
    """Shares of sweeps whose chosen arm is within WITHIN of the best, by speed-up and by tokens per second."""
    rng, found = random.Random(f"{nodes}/{spread}/{share}"), {"by_speedup": 0, "by_throughput": 0}
    for number in range(runs):
        one = sweep(5000 + number, MostTokens.K_PLUS_1)
        arms = [(draft, k) for draft in one.drafts for k in KS]
        there = Nodes(rng, nodes=nodes, spread=spread, share=share, noise=one.noise * math.sqrt(PROMPTS / 2.0))
        measured = [there.arm(at % nodes, one.true_speedup(*arm)) for at, arm in enumerate(arms)]
        gains = [gain(there.baseline[at % nodes], arm).mean for at, arm in enumerate(measured)]
        for name, values in (("by_speedup", gains), ("by_throughput", [mean(arm) for arm in measured])):
            chosen = arms[max(range(len(arms)), key=values.__getitem__)]
            best = max(one.true_speedup(*arm) for arm in arms)
            found[name] += one.true_speedup(*chosen) >= best * (1.0 - WITHIN)
    return {name: count / runs for name, count in found.items()}


def measure(runs: int) -> dict[str, Any]:
    """All figures."""
    places: list[dict[str, Any]] = [
        {"nodes": nodes, "spread": spread, "share": share}
        for nodes in (2, 4, 8)
        for spread, share in ((0.0, 0.0), (0.02, 0.5), (0.05, 0.0), (0.05, 0.25), (0.05, 0.5), (0.1, 0.5))
    ]
    with ProcessPoolExecutor() as pool:
        judged = pool.map(partial(_verdicts, runs), [place | {"true": true} for place in places for true in WRONG])
        found = pool.map(partial(_choices, runs), [{"nodes": 1, "spread": 0.0, "share": 0.0}, *places])
        return {"runs": runs, "verdicts": list(judged), "choices": list(found)}


def _verdicts(runs: int, place: dict[str, Any]) -> dict[str, Any]:
    return place | verdicts(**place, runs=runs)


def _choices(runs: int, place: dict[str, Any]) -> dict[str, Any]:
    return place | choices(**place, runs=runs)


def _shown(row: dict[str, Any]) -> bool:
    """Whether the page has a row: not of four nodes. The file of results has all rows."""
    return bool(row["nodes"] != 4)


def tables(results: dict[str, Any]) -> str:
    """The figures as docs/explanation/how-sure.md prints them."""

    def place(row: dict[str, Any]) -> str:
        return f"| {row['nodes']} | {row['spread']:.0%} | {row['spread'] * row['share']:.1%} |"

    rows = [
        "| nodes | they differ by | arms by | true speed-up | wrong | pays | wrong, beside one node's baseline |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"{place(row)} {row['true']:g}× | {row['wrong']:.1%} | {row['pays']:.1%} | {row['wrong_by_one_baseline']:.1%} |"
        for row in filter(_shown, results["verdicts"])
    ]
    rows += [
        "",
        "| nodes | they differ by | arms by | chosen by speed-up | by tokens per second |",
        "|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"{place(row)} {row['by_speedup']:.1%} | {row['by_throughput']:.1%} |"
        for row in filter(_shown, results["choices"])
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    measure_and_publish(name="node_effects", about=__doc__, runs=2000, measure=measure, table=tables)
