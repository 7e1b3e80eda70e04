"""How long runs wait for a node, and how well nodes are used, on simulated queues: the lease's own transitions.

    python benchmarks/node_pool.py [--runs 1000] [--write]

Runs of mixed length arrive at random, so many that they would keep a share of the nodes busy for ever. Some are stopped
while they wait, some end without giving their node back, which the watchdog then does.
"""

from __future__ import annotations

import heapq
import random
import statistics
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode import names
from specdecode.giving_back import WATCHDOG_PERIOD_MINUTES
from specdecode.planning.events import QUEUE_LIMIT
from specdecode.runs import lease as leases
from specdecode.runs.lease import Lease

from benchmarks.publishing import measure_and_publish

HOURS = {0.5: 40, 2.0: 35, 5.0: 20, 12.0: 5}
"""Hours that a run holds its node -> how many of a hundred do."""
CHECKS, STOPPED, SILENT = 0.05, 0.03, 0.05
"""Shares of runs that check the account (on the CPU node), that are stopped while they wait, and that end without
releasing."""
SITUATIONS = [(nodes, load) for nodes in (1, 2, 4, 8, 16) for load in (0.6, 0.9)]
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Queue:
    """A deployment of `nodes` nodes as the lease sees it, and what is counted of it."""

    nodes: int
    lease: Lease = field(default_factory=Lease)
    passed_over: int = 0
    wrong: int = 0
    """Moments at which more nodes are wanted than runs hold, or the lease cannot be true."""

    def change(self, after: Lease, now: datetime) -> list[leases.Claim]:
        """Take over a new state; who has got a node by it."""
        before, self.lease = self.lease, after
        slots = names.held_pools(self.nodes)
        more = sum(map(after.replicas_of, slots)) != len(after.holders)
        self.wrong += more or leases.impossible(after, slots=slots, now=now) is not None
        known = {claim.run_id for claim in before.holders}
        got = [claim for claim in after.holders if claim.run_id not in known]
        for claim in got:
            self.passed_over += any(
                other.kind == claim.kind and other.queued_at < claim.queued_at for other in after.queue
            )
        return got


def simulate(nodes: int, load: float, runs: int) -> dict[str, Any]:
    """One row: `runs` runs through a pool of `nodes`."""
    rng, queue, slots = random.Random(nodes), Queue(nodes), names.held_pools(nodes)
    mean_h = sum(hours * share for hours, share in HOURS.items()) / 100
    events: list[tuple[datetime, int, str, str]] = []
    hours_of: dict[str, float] = {}
    waited_h: list[float] = []  # of those who got a node with devices
    held_h, at, count = 0.0, START, 0

    def plan(when: datetime, what: str, run_id: str) -> None:
        nonlocal count
        count += 1
        heapq.heappush(events, (when, count, what, run_id))

    for number in range(runs):
        at += timedelta(hours=rng.expovariate(load * nodes / mean_h))
        run_id = f"run-{number}"
        hours_of[run_id] = 0.3 if rng.random() < CHECKS else rng.choices([*HOURS], [*HOURS.values()])[0]
        plan(at, "asks", run_id)
        if rng.random() < STOPPED:
            plan(at + timedelta(minutes=rng.uniform(0, 120)), "is stopped", run_id)
        plan(at + QUEUE_LIMIT, "gives up", run_id)
    gave_up = 0
    while events:
        now, _, what, run_id = heapq.heappop(events)
        kind = names.CPU_NODEPOOL if hours_of[run_id] == 0.3 else names.NODEPOOL
        if what == "asks":
            after = leases.request(queue.lease, run_id=run_id, execution_arn="arn", kind=kind, now=now, slots=slots)
        elif what != "ends" and not queue.lease.position(run_id):
            continue  # it holds its node, or has ended
        else:
            gave_up += what == "gives up"
            after = leases.release(queue.lease, run_id=run_id, now=now, slots=slots)
        for claim in queue.change(after, now):
            late = rng.uniform(0, WATCHDOG_PERIOD_MINUTES) / 60 if rng.random() < SILENT else 0.0
            hours = hours_of[claim.run_id] + late
            if claim.kind == names.NODEPOOL:
                waited_h.append((now - claim.queued_at).total_seconds() / 3600)
                held_h += hours
            plan(now + timedelta(hours=hours), "ends", claim.run_id)
    span_h = (at - START).total_seconds() / 3600
    return {
        "nodes": nodes,
        "load": load,
        "used": held_h / (nodes * span_h),
        "median_h": statistics.median(waited_h),
        "p95_h": statistics.quantiles(waited_h, n=20)[-1],
        "longest_h": max(waited_h),
        "gave_up": gave_up,
        "left": len(queue.lease.claims),
        "passed_over": queue.passed_over,
        "wrong": queue.wrong,
    }


def measure(runs: int) -> dict[str, Any]:
    return {"runs": runs, "rows": [simulate(nodes, load, runs) for nodes, load in SITUATIONS]}


def table(results: dict[str, Any]) -> str:
    """The figures as docs/how-to/side-by-side.md prints them."""
    rows = [
        "| nodes | asked of them | used | wait, median | 95% wait at most | longest wait | gave up after a day "
        "| passed over | more nodes than runs |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"| {each['nodes']} | {each['load']:.0%} | {each['used']:.0%} | {each['median_h']:.1f} h "
        f"| {each['p95_h']:.1f} h | {each['longest_h']:.1f} h | {each['gave_up']} "
        f"| {each['passed_over']} | {each['wrong']} |"
        for each in results["rows"]
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    measure_and_publish(
        name="node_pool",
        about=__doc__,
        runs=1000,
        measure=measure,
        table=table,
        page="how-to/side-by-side.md",
    )
