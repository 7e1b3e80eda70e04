"""The simulated runs of node_pool_sizes.py: how many nodes each asks for, when, and what becomes of its units."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from specdecode.giving_back import WATCHDOG_PERIOD_MINUTES

from benchmarks.node_pool import HOURS, SILENT, START, STOPPED

NODES = 16
LOADS = (0.6, 0.9)
SIZES = {1: 50, 2: 20, 4: 15, 8: 10, 16: 5}
"""Nodes that a run asks for -> how many of a hundred do."""
LOST = 0.03
"""Share of units that lose their node, at any moment."""
AGAIN_H = 0.5
"""Hours that a second try of a unit takes beyond what the first left: loading, and its baseline anew."""
AGAIN = "-again"
"""Ends the name of a unit's second try."""


@dataclass(frozen=True)
class Unit:
    """What one node does for a run."""

    name: str
    hours: float
    late_h: float
    """How long the watchdog takes to see its end; 0 where it releases by itself."""
    lost_after_h: float | None


@dataclass
class Run:
    """One run and what became of it."""

    size: int
    asks: datetime
    units: tuple[Unit, ...]
    stopped: datetime | None
    waited_h: list[float] = field(default_factory=list)
    """For each node that it got; second tries left out."""
    end: datetime | None = None
    gave_up: bool = False


def hours_between(begin: datetime, end: datetime) -> float:
    return (end - begin).total_seconds() / 3600


def make_runs(count: int, load: float, seed: int) -> list[Run]:
    """The same runs for every rule."""
    rng, at, made = random.Random(seed), START, list[Run]()
    mean = sum(n * share for n, share in SIZES.items()) * sum(h * share for h, share in HOURS.items()) / 10_000
    for number in range(count):
        at += timedelta(hours=rng.expovariate(load * NODES / mean))
        size = rng.choices([*SIZES], [*SIZES.values()])[0]
        base_h = rng.choices([*HOURS], [*HOURS.values()])[0]
        units = []
        for unit in range(1, size + 1):
            hours = base_h * rng.uniform(0.6, 1.4)
            late = rng.uniform(0, WATCHDOG_PERIOD_MINUTES) / 60 if rng.random() < SILENT else 0.0
            lost = hours * rng.random() if rng.random() < LOST else None
            units.append(Unit(f"run-{number}-n{unit}", hours, late, lost))
        stopped = at + timedelta(minutes=rng.uniform(0, 120)) if rng.random() < STOPPED else None
        made.append(Run(size, at, tuple(units), stopped))
    return made
