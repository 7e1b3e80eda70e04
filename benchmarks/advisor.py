"""How good the advisor's sweeps are, beside a full grid, random order and bisection.

    python benchmarks/advisor.py [--sweeps 300] [--first 1000] [--only STRATEGY] [--json]

Each sweep is made twice: on an engine that verifies all k drafts (a step yields k + 1 tokens at most), and on one that
verifies k - 1 of them (k tokens at most), as NxD Inference. The last row has the second kind and an advisor that takes
it for the first. Besides: how often the best arm that is left gains no more over the best measured one than the advisor
said ("at most"), when it stopped and at every step.

Sweeps 0 to 299 were used to set the advisor's constants; the figures in benchmarks/results/advisor.json are of sweeps
1000 to 1299, which it had not seen.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from advisor_sweeps import KS, Sweep, nearness, sweep
from specdecode.experiment.most_tokens import MostTokens
from specdecode.speculation.advisor import advise, next_arm
from specdecode.speculation.belief import PRIOR, Candidate, Observation, Prior

TOLD = 0.01
"""Relative error of a forecast's tokens per step."""


class Found(NamedTuple):
    """What a strategy settles on."""

    arm: Candidate | None
    compiles: int
    measurements: int
    held: tuple[bool, ...] = ()
    """Whether the arms that were left gained no more than was said, after each measurement."""


def observed(one: Sweep, candidate: Candidate, again: int = 0) -> Observation:
    speedup, tokens = one.measure(candidate.draft, candidate.k, again)
    return Observation(candidate.draft, candidate.k, speedup, tokens, one.noise)


def best_of(seen: list[Observation]) -> Candidate | None:
    top = max(seen, key=lambda item: item.speedup)
    return Candidate(top.draft, top.k) if top.speedup > 1.0 else None


def forecast(one: Sweep) -> Prior:
    """Tokens per step of every arm, told from answers to within a percent. The time of a step is not known."""
    rng = random.Random(f"{one.seed}/forecast")
    return Prior(
        {
            Candidate(draft, k): (max(1.0, tokens * math.exp(rng.gauss(0.0, TOLD))), TOLD)
            for draft, truth in one.drafts.items()
            for k, tokens in truth.tokens_per_step.items()
        }
    )


def with_advisor(one: Sweep, *, most: MostTokens, repeat: bool = True, told: bool = False) -> Found:
    """Follow the advice of one who takes the engine for `most`; with `repeat` also to measure compiled arms again, with
    `told` from a forecast.
    """
    candidates = [Candidate(draft, k) for draft in one.drafts for k in KS]
    prior = forecast(one) if told else PRIOR
    seen: list[Observation] = []
    held: list[bool] = []
    while True:
        advice = advise(candidates, seen, most=most, prior=prior)
        if seen and advice.beliefs:
            best = one.true_speedup(*advice.best) if advice.best else 1.0
            gain = max(one.true_speedup(*belief.candidate) for belief in advice.beliefs) / best
            held.append(gain <= 1.0 + advice.remaining_gain)
        arm = next_arm(advice, seen) if repeat else advice.compile_next
        if arm is None:
            return Found(advice.best, len({(item.draft, item.k) for item in seen}), len(seen), tuple(held))
        times = Counter((item.draft, item.k) for item in seen)
        seen.append(observed(one, arm, times[arm]))


def full_grid(one: Sweep) -> Found:
    seen = [observed(one, Candidate(draft, k)) for draft in one.drafts for k in KS]
    return Found(best_of(seen), len(seen), len(seen))


def at_random(one: Sweep, compiles: int = 6) -> Found:
    candidates = [Candidate(draft, k) for draft in one.drafts for k in KS]
    chosen = random.Random(one.seed).sample(candidates, compiles)
    return Found(best_of([observed(one, candidate) for candidate in chosen]), compiles, compiles)


def bisection(one: Sweep) -> Found:
    """Per draft: the two ends and the middle, then the middle of the better half, until no k is left between."""
    seen: dict[Candidate, Observation] = {}

    def gain(draft: str, k: int) -> float:
        candidate = Candidate(draft, k)
        return seen.setdefault(candidate, observed(one, candidate)).speedup

    for draft in one.drafts:
        low, high = KS[0], KS[-1]
        while high - low > 1:
            middle = (low + high) // 2
            if gain(draft, low) >= gain(draft, high):
                high = middle
            else:
                low = middle
            gain(draft, middle)
    return Found(best_of(list(seen.values())), len(seen), len(seen))


def strategies(most: MostTokens) -> dict[str, Callable[[Sweep], Found]]:
    """Those that are judged on engines of the kind `most`."""
    known: dict[str, Callable[[Sweep], Found]] = {
        "advisor": partial(with_advisor, most=most),
        "advisor, with a forecast": partial(with_advisor, most=most, told=True),
        "advisor, no repeats": partial(with_advisor, most=most, repeat=False),
        "full grid": full_grid,
        "random, 6 compiles": at_random,
        "bisection": bisection,
    }
    if most is MostTokens.K:
        known["advisor, k+1 assumed"] = partial(with_advisor, most=MostTokens.K_PLUS_1)
    return known


def judged(most: MostTokens, *, first: int, count: int, only: str | None) -> dict[str, dict[str, float]]:
    """Every strategy, or one, on `count` sweeps from number `first` on."""
    sweeps = [sweep(first + number, most) for number in range(count)]
    return {name: judge(each, sweeps) for name, each in strategies(most).items() if only in (None, name)}


def judge(strategy: Callable[[Sweep], Found], sweeps: list[Sweep]) -> dict[str, float]:
    """Loss against the true best (relative) and compiles, over the sweeps."""
    found = [strategy(one) for one in sweeps]
    losses = [
        1.0 - (one.true_speedup(*own.arm) if own.arm else 1.0) / one.best
        for one, own in zip(sweeps, found, strict=True)
    ]
    compiles = [own.compiles for own in found]
    ends, steps = [own.held[-1] for own in found if own.held], [held for own in found for held in own.held]
    return {
        **nearness(losses),
        "worst_loss": max(losses),
        "mean_compiles": statistics.fmean(compiles),
        "most_compiles": max(compiles),
        "mean_measurements": statistics.fmean(own.measurements for own in found),
        **({"at_most": statistics.fmean(ends), "at_most_each_step": statistics.fmean(steps)} if steps else {}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=300)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--only", help="one strategy, for example: advisor, with a forecast")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results = {str(most): judged(most, first=given.first, count=given.sweeps, only=given.only) for most in MostTokens}
    if given.json:
        print(json.dumps({"sweeps": given.sweeps, "first": given.first, "results": results}, indent=1))
        return
    for most, rows in results.items():
        print(f"a step yields {most} tokens at most")
        print(f"{'strategy':<25} within 3%  mean loss  p95 loss  worst  compiles (most) measured  at most holds")
        for name, found in rows.items():
            print(
                f"{name:<25} {found['within_3_percent']:>8.1%} {found['mean_loss']:>10.2%} {found['p95_loss']:>9.2%} "
                f"{found['worst_loss']:>6.1%} {found['mean_compiles']:>8.1f} ({found['most_compiles']:.0f}) "
                f"{found['mean_measurements']:>8.1f} "
                f"{found.get('at_most', math.nan):.1%}"
            )


if __name__ == "__main__":
    main()
