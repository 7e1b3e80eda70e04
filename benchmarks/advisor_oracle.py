"""What the simulated sweeps allow at best: a player that knows the law by which they are made.

    python benchmarks/advisor_oracle.py [--sweeps 300] [--first 1000] [--measurements 5]

It is told tokens per step exactly, and draws the costs of steps from the generator's own law (advisor_sweeps.py). After
each measurement it weighs the draws (Bayes), and compiles the arm after which it will most probably hold one within 3%
of the best. It stops where that chance rises by less than `--worth`. So its belief is the true one, which nobody has of
a real machine. It looks one compile ahead; a player that looks farther may save a little more.

Figures are in docs/explanation/how-the-advisor-thinks.md.
"""

from __future__ import annotations

import argparse
import math
import statistics

import numpy as np
from advisor_sweeps import KS, Sweep, nearness, sweep
from numpy.typing import NDArray
from specdecode.experiment.most_tokens import MostTokens

DRAWS, TOGETHER, OUTCOMES = 40_000, 1_500, 12
"""Draws of a draft's costs; of both drafts' speed-ups, for a decision; and results that a measurement may have."""
COSTS = {"Qwen3-0.6B": (0.005, 0.06), "Qwen3-1.7B": (0.01, 0.12)}
"""Least and most cost of a drafted token (advisor_sweeps.sweep)."""
NEAR = math.log(0.97)
Numbers = NDArray[np.float64]


def law(rng: np.random.Generator, low: float, high: float) -> Numbers:
    """Logarithms of the time of a step, a row for each draw and a column for each k (advisor_sweeps._draft)."""
    steps = 1.0 + rng.uniform(0.0, 0.4, DRAWS)[:, None] + rng.uniform(low, high, DRAWS)[:, None] * np.array(KS)
    jumps = rng.integers(1, 3, DRAWS)
    for number in range(2):
        at, size = rng.choice(KS, DRAWS), rng.uniform(0.02, 0.25, DRAWS)
        steps += np.where((np.array(KS) >= at[:, None]) & (jumps > number)[:, None], size[:, None], 0.0)
    return np.log(steps)


def play(one: Sweep, costs: dict[str, Numbers], *, worth: float, measurements: int) -> tuple[int, float]:
    """Compiles, and the loss against the true best (relative)."""
    rng, noise = np.random.default_rng(one.seed), one.noise / math.sqrt(measurements)
    arms = [(draft, k) for draft in costs for k in KS]
    tokens = {draft: np.log([one.drafts[draft].tokens_per_step[k] for k in KS]) for draft in costs}
    weights = {draft: np.zeros(DRAWS) for draft in costs}
    compiled: list[int] = []
    while True:
        columns = [np.zeros((TOGETHER, 1))]  # plain decoding, which needs no compile
        for draft, cost in costs.items():
            likely = np.exp(weights[draft] - weights[draft].max())
            columns.append(tokens[draft] - cost[rng.choice(DRAWS, TOGETHER, p=likely / likely.sum())])
        gains = np.concatenate(columns, axis=1)
        near = (gains >= gains.max(axis=1, keepdims=True) + NEAR).astype(float)
        own = [0, *(at + 1 for at in compiled)]
        now = near[:, own].mean(axis=0)
        rises = {
            at: _chance(rng, gains[:, at + 1], near[:, [*own, at + 1]], noise) - now.max()
            for at in range(len(arms))
            if at not in compiled
        }
        at = max(rises, key=rises.__getitem__, default=-1)
        if at < 0 or rises[at] < worth:
            chosen = own[int(now.argmax())]
            gain = one.true_speedup(*arms[chosen - 1]) if chosen else 1.0
            return len(compiled), 1.0 - gain / one.best
        compiled.append(at)
        draft, k = arms[at]
        seen = statistics.fmean(math.log(one.measure(draft, k, again)[0]) for again in range(measurements))
        column = KS.index(k)
        weights[draft] = weights[draft] - 0.5 * ((tokens[draft][column] - costs[draft][:, column] - seen) / noise) ** 2


def _chance(rng: np.random.Generator, gains: Numbers, near: Numbers, noise: float) -> float:
    """Expected chance of holding an arm near the best, once an arm with these `gains` is measured."""
    results = gains[rng.choice(TOGETHER, OUTCOMES)] + rng.normal(0.0, noise, OUTCOMES)
    likely = np.exp(-0.5 * ((gains - results[:, None]) / noise) ** 2)
    return float(((likely / likely.sum(axis=1, keepdims=True)) @ near).max(axis=1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=300)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--measurements", type=int, default=5)
    parser.add_argument("--worth", type=float, nargs="*", default=[0.12, 0.08, 0.05, 0.03])
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    costs = {draft: law(rng, *cost) for draft, cost in COSTS.items()}
    for most in MostTokens:
        sweeps = [sweep(given.first + number, most) for number in range(given.sweeps)]
        for worth in given.worth:
            found = [play(one, costs, worth=worth, measurements=given.measurements) for one in sweeps]
            near = nearness([loss for _, loss in found])["within_3_percent"]
            compiles = statistics.fmean(number for number, _ in found)
            print(
                f"a step yields {most} tokens at most, worth {worth:g}: {compiles:.2f} compiles, {near:.1%}", flush=True
            )


if __name__ == "__main__":
    main()
