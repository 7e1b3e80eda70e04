"""How long runs of 1 to 16 nodes wait on 16 nodes, and whether a run should wait until it can have all of them at once.

    python benchmarks/node_pool_sizes.py [--runs 1000] [--write]

A run on n nodes is n claims of one node in the lease's queue, by the lease's own transitions. The same runs are put
through two other rules: all n nodes together, in the order of asking; and all together, whoever fits. Under each rule a
node goes back as soon as nothing is left for it. Units of a run end early or late, some lose their node and are tried
once more, some end without giving it back, which the watchdog then does, and some runs are stopped.
"""

from __future__ import annotations

import heapq
import statistics
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.planning.events import QUEUE_LIMIT

from benchmarks.node_pool import START
from benchmarks.node_pool_runs import AGAIN, AGAIN_H, LOADS, NODES, SIZES, Run, hours_between, make_runs
from benchmarks.node_rules import OneByOne, Pool, Together
from benchmarks.publishing import measure_and_publish

RULES = ("each node as it comes", "all together, in order", "all together, whoever fits")


class Simulation:
    """`runs` through a pool, and what was counted."""

    def __init__(self, pool: Pool, runs: list[Run]) -> None:
        self.pool, self.runs = pool, runs
        self.busy_h = self.idle_h = 0.0
        """Node-hours until the last run asked: held; held by nobody while somebody waited."""
        self.again = 0
        """Units that lost their node."""
        self._of = {unit.name: (run, unit) for run in runs for unit in run.units}
        self._waiting: dict[str, datetime] = {}
        """Unit -> since when it waits."""
        self._events: list[tuple[datetime, int, str, str]] = []
        self._planned = 0

    def go(self) -> None:
        """Until nobody holds or waits."""
        for run in self.runs:
            self._plan(run.asks, "asks", run.units[0].name)
            if run.stopped:
                self._plan(run.stopped, "is stopped", run.units[0].name)
        before, until = START, self.runs[-1].asks
        while self._events:
            now, _, what, name = heapq.heappop(self._events)
            hours = max(0.0, hours_between(before, min(now, until)))
            self.busy_h += hours * len(self.pool.held())
            self.idle_h += hours * (NODES - len(self.pool.held())) * bool(self._waiting)
            self._happen(what, name, now)
            before = now

    def _plan(self, when: datetime, what: str, name: str) -> None:
        self._planned += 1
        heapq.heappush(self._events, (when, self._planned, what, name))

    def _happen(self, what: str, name: str, now: datetime) -> None:
        run, _ = self._of[name.removesuffix(AGAIN)]
        if what == "asks":
            self._ask([unit.name for unit in run.units], now)
        elif what == "is stopped":
            names_of = [unit.name + suffix for unit in run.units for suffix in ("", AGAIN)]
            self._leave(run, [each for each in names_of if each in self._waiting or each in self.pool.held()], now)
        elif what == "gives up" and name in self._waiting:
            run.gave_up = True
            self._leave(run, [name], now)
        elif what == "is lost" and name in self.pool.held():
            self.again += 1
            self._leave(run, [name], now)
            self._ask([name + AGAIN], now)
        elif what == "ends" and name in self.pool.held():
            self._leave(run, [name], now)

    def _ask(self, units: list[str], now: datetime) -> None:
        self._waiting |= dict.fromkeys(units, now)
        for unit in units:
            self._plan(now + QUEUE_LIMIT, "gives up", unit)
        self._begin(self.pool.ask(units, now), now)

    def _leave(self, run: Run, units: list[str], now: datetime) -> None:
        for unit in units:
            self._waiting.pop(unit, None)
        run.end = now
        self._begin(self.pool.leave(units, now), now)

    def _begin(self, got: list[str], now: datetime) -> None:
        for name in got:
            waited_h = hours_between(self._waiting.pop(name), now)
            run, unit = self._of[name.removesuffix(AGAIN)]
            lost_h = unit.lost_after_h
            if name.endswith(AGAIN):
                assert lost_h is not None
                self._plan(now + timedelta(hours=unit.hours - lost_h + AGAIN_H + unit.late_h), "ends", name)
                continue
            run.waited_h.append(waited_h)
            if lost_h is None:
                self._plan(now + timedelta(hours=unit.hours + unit.late_h), "ends", name)
            else:
                self._plan(now + timedelta(hours=lost_h), "is lost", name)


def simulate(rule: str, load: float, count: int) -> dict[str, Any]:
    """`count` runs under one of RULES."""
    pool = OneByOne(NODES) if rule == RULES[0] else Together(NODES, in_order=rule == RULES[1])
    runs = make_runs(count, load, seed=NODES)
    simulation = Simulation(pool, runs)
    simulation.go()
    asked_h = NODES * hours_between(START, runs[-1].asks)
    return {
        "rule": rule,
        "load": load,
        "used": simulation.busy_h / asked_h,
        "idle": simulation.idle_h / asked_h,
        "again": simulation.again,
        "stopped": sum(run.stopped is not None for run in runs),
        "sizes": [_of_size(size, [run for run in runs if run.size == size]) for size in SIZES],
        "left": len(pool.held()),
        **(_of_lease(pool) if isinstance(pool, OneByOne) else {}),
    }


def _of_lease(pool: OneByOne) -> dict[str, int]:
    return {"passed_over": pool.queue.passed_over, "wrong": pool.queue.wrong, "most_waiting": pool.most_waiting}


def _of_size(size: int, runs: list[Run]) -> dict[str, Any]:
    """Stopped runs are left out of the times to the end."""
    first = [min(run.waited_h) for run in runs if run.waited_h]
    last = [max(run.waited_h) for run in runs if len(run.waited_h) == size]
    ends = [hours_between(run.asks, run.end) for run in runs if run.end and not run.stopped and not run.gave_up]
    return {
        "size": size,
        "runs": len(runs),
        "first_median_h": statistics.median(first),
        "last_median_h": statistics.median(last),
        "last_p95_h": statistics.quantiles(last, n=20)[-1],
        "longest_h": max(last),
        "end_median_h": statistics.median(ends),
        "end_p95_h": statistics.quantiles(ends, n=20)[-1],
        "gave_up": sum(run.gave_up for run in runs),
    }


def measure(runs: int) -> dict[str, Any]:
    """All figures."""
    return {"runs": runs, "rows": [simulate(rule, load, runs) for load in LOADS for rule in RULES]}


def table(results: dict[str, Any]) -> str:
    """The figures as docs/how-to/side-by-side.md prints them: the lease's by size, then the three rules."""
    rows = [
        "| asked of them | nodes of the run | runs | first node, median | last node, median | 95% last node at most "
        "| longest wait | end, median | gave up after a day |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"| {each['load']:.0%} | {of['size']} | {of['runs']} | {of['first_median_h']:.1f} h "
        f"| {of['last_median_h']:.1f} h | {of['last_p95_h']:.1f} h | {of['longest_h']:.1f} h "
        f"| {of['end_median_h']:.1f} h | {of['gave_up']} |"
        for each in results["rows"]
        if each["rule"] == RULES[0]
        for of in each["sizes"]
    ]
    rows += [
        "",
        "| asked of them | nodes are given | used | free while somebody waits | 1 node: 95% wait at most "
        "| 16 nodes: end, median | 16 nodes: 95% end within | gave up after a day |",
        "|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    for each in results["rows"]:
        small, large = each["sizes"][0], each["sizes"][-1]
        rows.append(
            f"| {each['load']:.0%} | {each['rule']} | {each['used']:.0%} | {each['idle']:.0%} "
            f"| {small['last_p95_h']:.1f} h | {large['end_median_h']:.1f} h | {large['end_p95_h']:.1f} h "
            f"| {sum(of['gave_up'] for of in each['sizes'])} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    measure_and_publish(
        name="node_pool_sizes",
        about=__doc__,
        runs=1000,
        measure=measure,
        table=table,
        page="how-to/side-by-side.md",
    )
