"""What the simulations of statistics_coverage.py draw from: timing noise, types of prompts, prompts of a category."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

NOISES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda rng: max(0.05, rng.gauss(1.0, 0.1)),
    "skewed": lambda rng: 0.8 + 0.3 * rng.expovariate(1.0),
    "heavy tail": lambda rng: rng.lognormvariate(0.0, 0.1) * (4.0 if rng.random() < 0.02 else 1.0),
}
PROMPT_SPREAD = 0.3
"""Standard deviation of the logarithm of what a prompt takes, common to both arms."""
TYPES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda rng: rng.gauss(0.0, 1.0),
    "uniform": lambda rng: rng.uniform(-math.sqrt(3), math.sqrt(3)),
    "skewed": lambda rng: rng.expovariate(1.0) - 1.0,
    "skewed down": lambda rng: 1.0 - rng.expovariate(1.0),
    "one in five": lambda rng: 2.0 if rng.random() < 0.2 else -0.5,
}
"""What a prompt type's log speed-up differs from the kind's mean by, in units of the spread; mean 0, deviation 1."""
SPREADS = (0.0, 0.1, 0.3)
K, STEP = 7, 1.35
"""Drafted tokens of a step, and what such a step takes in base steps."""


def tokens_of_a_step(acceptance: float) -> float:
    """(1 - a^(k+1)) / (1 - a), Leviathan et al. 2023, formula 1."""
    return (1.0 - acceptance ** (K + 1)) / (1.0 - acceptance) if acceptance < 1.0 else K + 1.0


def _copies(rng: random.Random, share: float) -> float:
    return 0.95 if rng.random() < share else rng.betavariate(4.0, 6.0)


PROMPTS: dict[str, Callable[[random.Random], float]] = {
    "log-normal, deviation 1": lambda rng: 1.0 + min(K, 0.8 * rng.lognormvariate(0.0, 1.0)),
    "Pareto 1.5, few gain": lambda rng: 1.0 + min(K, 0.5 * (rng.paretovariate(1.5) - 1.0)),
    "Pareto 1.5, many gain": lambda rng: 1.0 + min(K, 1.5 * (rng.paretovariate(1.5) - 1.0)),
    "beta (1, 3) of a draft token": lambda rng: tokens_of_a_step(rng.betavariate(1.0, 3.0)),
    "beta (1/2, 1/2), all or nothing": lambda rng: tokens_of_a_step(rng.betavariate(0.5, 0.5)),
    "one prompt in five copies": lambda rng: tokens_of_a_step(_copies(rng, 0.2)),
    "one prompt in ten copies": lambda rng: tokens_of_a_step(_copies(rng, 0.1)),
}
"""Tokens that a step yields for one prompt of a category: few prompts gain a multiple of what most do."""
