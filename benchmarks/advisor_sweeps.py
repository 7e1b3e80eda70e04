"""Simulated sweeps with which the advisor is judged. Committed before the advisor was written, and it breaks its model.

A sweep is 2 drafts x k = 5..15, as in the tuning article. Truth per sweep:

- six prompt types, each with its own acceptance, which falls with the position by its own factor (the advisor's model
  knows one acceptance for all positions and prompts);
- a step costs 1 + v + c k, plus one or two jumps at random k (buckets, another tiling of the verification);
- the speed-up of an arm is the geometric mean over prompt types of E / step, as the report has it;
- a step verifies all k drafts, or k - 1 of them (`most`, a property of the engine); it costs the same either way;
- a measurement of it is off by a relative 2 to 5% (drawn per sweep), tokens per step by a relative 1%.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from specdecode.experiment.most_tokens import MostTokens

KS = tuple(range(5, 16))
PROMPTS = 6


def nearness(losses: Sequence[float]) -> dict[str, float]:
    """How near the best the chosen arms are, from the relative loss of each."""
    return {
        "within_3_percent": sum(loss <= 0.03 for loss in losses) / len(losses),
        "mean_loss": statistics.fmean(losses),
        "p95_loss": statistics.quantiles(losses, n=20)[-1],
    }


class Truth(NamedTuple):
    """One draft: what it really does at every k."""

    speedup: dict[int, float]
    tokens_per_step: dict[int, float]


class Sweep(NamedTuple):
    """One simulated system and how noisily it is measured."""

    drafts: dict[str, Truth]
    noise: float
    seed: int

    @property
    def best(self) -> float:
        """The largest true speed-up, 1 (no speculation) included."""
        return max(1.0, *(gain for truth in self.drafts.values() for gain in truth.speedup.values()))

    def true_speedup(self, draft: str, k: int) -> float:
        """1 for k = 0."""
        return self.drafts[draft].speedup[k] if k else 1.0

    def measure(self, draft: str, k: int, again: int = 0) -> tuple[float, float]:
        """(speed-up, tokens per step) as a run would report them; `again` numbers repeated measurements."""
        rng = random.Random(f"{self.seed}/{draft}/{k}" + (f"/{again}" if again else ""))
        truth = self.drafts[draft]
        return (
            truth.speedup[k] * math.exp(rng.gauss(0.0, self.noise)),
            max(1.0, truth.tokens_per_step[k] * math.exp(rng.gauss(0.0, 0.01))),
        )


def sweep(seed: int, most: MostTokens) -> Sweep:
    """The sweep number `seed`, on an engine of the kind `most`."""
    rng = random.Random(seed)
    difficulty = rng.uniform(0.55, 0.98)
    small = _draft(rng, most, acceptance=difficulty * rng.uniform(0.8, 1.0), cost=rng.uniform(0.005, 0.06))
    large = _draft(rng, most, acceptance=difficulty, cost=rng.uniform(0.01, 0.12))
    return Sweep({"Qwen3-0.6B": small, "Qwen3-1.7B": large}, rng.uniform(0.02, 0.05), seed)


def _draft(rng: random.Random, most: MostTokens, *, acceptance: float, cost: float) -> Truth:
    types = [(min(0.995, max(0.02, acceptance + rng.gauss(0.0, 0.12))), rng.uniform(0.96, 1.0)) for _ in range(PROMPTS)]
    overhead = rng.uniform(0.0, 0.4)
    jumps = [(rng.choice(KS), rng.uniform(0.02, 0.25)) for _ in range(rng.randint(1, 2))]
    gains: dict[int, float] = {}
    tokens: dict[int, float] = {}
    for k in KS:
        step = 1.0 + overhead + cost * k + sum(size for at, size in jumps if k >= at)
        per_type = [_tokens(first, factor, most.verified(k)) for first, factor in types]
        gains[k] = math.exp(sum(math.log(e / step) for e in per_type) / PROMPTS)
        tokens[k] = math.exp(sum(math.log(e) for e in per_type) / PROMPTS)
    return Truth(gains, tokens)


def _tokens(first: float, factor: float, verified: int) -> float:
    total = reached = 1.0
    for position in range(verified):
        reached *= first * factor**position
        total += reached
    return total
