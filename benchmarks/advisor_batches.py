"""What it costs to ask the advisor for several arms at once, for as many nodes.

    python benchmarks/advisor_batches.py [--runs 2000] [--write]

The simulated sweeps are those of `advisor.py`. Each step takes up to so many arms as there are nodes: compiles as the
advisor proposes them together, or, when it proposes none, arms measured again. A sweep ends with the advice, or after
the arms that a sweep of one node takes at most. A step takes as long as its longest arm, so that steps are what a sweep
lasts: an hour or so with a compile, minutes without.

How an arm on its way is imagined was chosen on sweeps 0 to 999; the table is of others.

`--write` puts the figures into benchmarks/results/advisor_batches.json and docs/explanation/how-the-advisor-thinks.md.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.experiment.level import Level
from specdecode.experiment.most_tokens import MostTokens
from specdecode.planning.sweep import MOST_STEPS
from specdecode.speculation.advisor import Advice, Candidate, Observation, advise
from specdecode.speculation.batch import Seen, next_batch
from specdecode.speculation.loads import LoadsAdvice

from benchmarks.advisor_sweeps import KS, Sweep, nearness, sweep
from benchmarks.publishing import measure_and_publish

LEVEL = Level(concurrency=1)
NODES = (1, 2, 4)
FIRST = 20_000
"""Number of the first simulated sweep of the table."""


class Course(NamedTuple):
    """How a sweep went."""

    loss: float
    """Of the arm that it ends with, against the true best."""
    compiles: int
    with_compile: int
    """Steps with a compile among their arms."""
    without: int


def follow(one: Sweep, *, nodes: int, most: MostTokens = MostTokens.K_PLUS_1) -> Course:
    """The whole sweep."""
    candidates = [Candidate(draft, k) for draft in one.drafts for k in KS]
    seen: list[Observation] = []
    ask = partial(_advise, candidates, most)
    compiled = repeated = 0
    while True:
        advice, times = ask(seen), Counter(Candidate(item.draft, item.k) for item in seen)
        if advice.compile_next is not None:
            batch = next_batch(partial(_of_one_load, ask), {LEVEL: seen}, count=nodes, most=most)
            arms = [belief.candidate for belief in batch]
        else:
            arms = sorted(advice.measure_again, key=lambda candidate: times[candidate])[:nodes]
        arms = arms[: MOST_STEPS - len(seen)]
        if not arms:
            best = one.true_speedup(*advice.best) if advice.best else 1.0
            return Course(1.0 - best / one.best, len(times), compiled, repeated)
        compiled += advice.compile_next is not None
        repeated += advice.compile_next is None
        for draft, k in arms:
            speedup, tokens = one.measure(draft, k, times[Candidate(draft, k)])
            seen.append(Observation(draft, k, speedup, tokens, one.noise))


def _advise(candidates: list[Candidate], most: MostTokens, seen: Any) -> Advice:
    return advise(candidates, seen, most=most)


def _of_one_load(ask: Any, seen: Seen) -> LoadsAdvice:
    return LoadsAdvice(ask(seen[LEVEL]), ())


def judged(nodes: int, *, first: int, count: int) -> dict[str, float]:
    """So many sweeps, with so many arms at once."""
    found = [follow(sweep(first + number, MostTokens.K_PLUS_1), nodes=nodes) for number in range(count)]
    return {
        "nodes": nodes,
        **nearness([course.loss for course in found]),
        "compiles": statistics.fmean(course.compiles for course in found),
        "most_compiles": max(course.compiles for course in found),
        "with_compile": statistics.fmean(course.with_compile for course in found),
        "without": statistics.fmean(course.without for course in found),
    }


def measure(runs: int) -> dict[str, Any]:
    """All rows, of the same sweeps."""
    return {"sweeps": runs, "first": FIRST, "rows": [judged(nodes, first=FIRST, count=runs) for nodes in NODES]}


def table(results: dict[str, Any]) -> str:
    """The figures as the page prints them."""
    rows = [
        "| arms at once | within 3% of the best | mean loss | 95% lose at most | compiles (most) "
        "| steps with a compile | without |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"| {row['nodes']} | {row['within_3_percent']:.1%} | {row['mean_loss']:.2%} | {row['p95_loss']:.1%} | "
        f"{row['compiles']:.1f} ({row['most_compiles']:.0f}) | {row['with_compile']:.1f} | {row['without']:.1f} |"
        for row in results["rows"]
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    measure_and_publish(
        name="advisor_batches",
        about=__doc__,
        runs=2000,
        measure=measure,
        table=table,
        page="explanation/how-the-advisor-thinks.md",
    )
