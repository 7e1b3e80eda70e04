"""An adaptive sweep on several nodes as it is built: how good, how long, how many node hours.

    python benchmarks/advisor_nodes.py [--runs 1000] [--write]

The simulated sweeps are those of `advisor_sweeps.py`, as many as asked from number FIRST on. Each node asks the advisor
when its arm is measured, by what all nodes have measured and are at (`step_after`, with which the pipeline asks), and
does not wait for the others. It ends when nothing is worth it, or after its share of the steps. The last rows are for
comparison: there a node for which nothing is worth it waits until another's arm is measured, and asks again.

Hours are drawn evenly from the ranges by which `specdecode plan` estimates qwen3-32b-tuning: a node's start, a compile,
loading with measuring, a node's end. Each node begins when the baseline is compiled. Nodes are alike, and none is lost.

`--write` puts the figures into benchmarks/results/advisor_nodes.json and docs/explanation/how-the-advisor-thinks.md.
"""

from __future__ import annotations

import random
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis.advice.sweep import first_steps, kind, step_after
from specdecode.experiment import load_preset
from specdecode.planning import Inventory, Range, make_plan
from specdecode.planning.cost import (
    NODE_START_MINUTES,
    NODE_STOP_MINUTES,
    benchmark_minutes,
    compile_minutes,
    slowest_load,
    total,
)
from specdecode.planning.sweep import most_steps
from specdecode.speculation.advisor import Candidate, Observation, advise

from benchmarks.advisor_sweeps import Sweep, nearness, sweep
from benchmarks.publishing import measure_and_publish

EXPERIMENT = load_preset("qwen3-32b-tuning")
PLAN = make_plan(EXPERIMENT, inventory=Inventory())
LEVEL = EXPERIMENT.workload.levels[0]
KIND = kind(EXPERIMENT)
COMPILE = compile_minutes(PLAN.served, PLAN.engine, "base")
STEP = total(
    [slowest_load(PLAN.served, PLAN.engine, PLAN.waves[0]), benchmark_minutes(EXPERIMENT, PLAN.engine, arms=2)]
)
ARMS = {
    variant.name: Candidate(variant.speculation.draft.id, variant.speculation.num_speculative_tokens)
    for variant in EXPERIMENT.variants
    if variant.speculation
}
NODES = (1, 2, 4)
FIRST = 30_000


class Course(NamedTuple):
    """How a sweep went."""

    loss: float
    """Of the arm that it ends with, against the true best."""
    compiles: int
    hours: float
    """Until the last node is given back."""
    node_hours: float
    early: bool = False
    """Whether a node ended because nothing was worth it while others were at an arm."""


def follow(one: Sweep, *, nodes: int, waits: bool = False) -> Course:
    """The whole sweep, event by event: the node that is done first asks next.

    `waits`: a node for which nothing is worth it while others are at an arm does not end, as it does in the pipeline,
    but asks again when one of them is done.
    """
    rng = random.Random(f"hours of {one.seed}")
    base = _hours(COMPILE, rng)
    seen: list[Observation] = []
    compiled, ends, took = set[str](), list[float](), [0] * nodes
    at: dict[int, tuple[float, str]] = {}
    idle, early = set[int](), False
    for node, step in enumerate(first_steps(EXPERIMENT, {}, count=nodes)):
        start = _hours(NODE_START_MINUTES, rng) + base
        at[node] = (start + _step(step.arm, compiled, rng), str(step.arm))
    while at:
        node = min(at, key=lambda number: at[number][0])
        now, arm = at.pop(node)
        took[node] += 1
        seen.append(_measured(one, arm, seen))
        for free in sorted({node, *idle}):
            step = step_after(EXPERIMENT, {LEVEL: seen}, in_flight=[other for _, other in at.values()])
            bound = took[free] < most_steps(EXPERIMENT, nodes) and len(seen) + len(at) < most_steps(EXPERIMENT)
            idle.discard(free)
            early |= bool(step.arm is None and bound and at)
            if step.arm is not None and bound:
                at[free] = (now + _step(step.arm, compiled, rng), step.arm)
            elif waits and bound and at:
                idle.add(free)
            else:
                ends.append(now + _hours(NODE_STOP_MINUTES, rng))
    best = advise(list(ARMS.values()), seen, most=KIND).best
    reached = one.true_speedup(best.draft.rpartition("/")[2], best.k) if best else 1.0
    return Course(1.0 - reached / one.best, len(compiled), max(ends), sum(ends), early)


def _measured(one: Sweep, arm: str, seen: list[Observation]) -> Observation:
    draft, k = ARMS[arm]
    times = sum((item.draft, item.k) == (draft, k) for item in seen)
    speedup, tokens = one.measure(draft.rpartition("/")[2], k, times)
    return Observation(draft, k, speedup, tokens, one.noise)


def _step(arm: str | None, compiled: set[str], rng: random.Random) -> float:
    """Hours of one step, with a compile if it is the arm's first."""
    compiling = 0.0 if arm in compiled else _hours(COMPILE, rng)
    compiled.add(str(arm))
    return compiling + _hours(STEP, rng)


def _hours(minutes: Range, rng: random.Random) -> float:
    return rng.uniform(minutes.low, minutes.high) / 60


def judged(nodes: int, *, count: int, waits: bool = False) -> dict[str, float]:
    """So many sweeps on so many nodes."""
    found = [follow(sweep(FIRST + number, KIND), nodes=nodes, waits=waits) for number in range(count)]
    return {
        "nodes": nodes,
        **nearness([course.loss for course in found]),
        "compiles": statistics.fmean(course.compiles for course in found),
        "hours": statistics.fmean(course.hours for course in found),
        "p95_hours": statistics.quantiles([course.hours for course in found], n=20)[-1],
        "node_hours": statistics.fmean(course.node_hours for course in found),
        "early": sum(course.early for course in found) / count,
    }


def measure(runs: int) -> dict[str, Any]:
    """All rows, of the same sweeps."""
    return {
        "sweeps": runs,
        "first": FIRST,
        "rows": [judged(nodes, count=runs) for nodes in NODES],
        "waiting": [judged(nodes, count=runs, waits=True) for nodes in NODES[1:]],
    }


def table(results: dict[str, Any]) -> str:
    """The figures as the page prints them."""
    rows = [
        "| nodes | within 3% of the best | mean loss | 95% lose at most | compiles | hours | 95% take at most "
        "| node hours |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"| {row['nodes']}{which} | {row['within_3_percent']:.1%} | {row['mean_loss']:.2%} | {row['p95_loss']:.1%} | "
        f"{row['compiles']:.1f} | {row['hours']:.1f} | {row['p95_hours']:.1f} | {row['node_hours']:.1f} |"
        for which, kind_of in (("", "rows"), (", none ends before the others", "waiting"))
        for row in results[kind_of]
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    measure_and_publish(
        name="advisor_nodes",
        about=__doc__,
        runs=1000,
        measure=measure,
        table=table,
        page="explanation/how-the-advisor-thinks.md",
    )
