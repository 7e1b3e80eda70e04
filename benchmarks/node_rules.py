"""Rules by which the runs of benchmarks/node_pool_sizes.py get nodes: the lease's, and two to compare it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from specdecode import names
from specdecode.runs import lease as leases

from benchmarks.node_pool import Queue


class Pool(Protocol):
    """Gives nodes by a rule; every change returns the units that have got one by it."""

    def ask(self, units: Sequence[str], now: datetime) -> list[str]: ...

    def leave(self, units: Sequence[str], now: datetime) -> list[str]: ...

    def held(self) -> set[str]: ...


class OneByOne:
    """The lease: a claim for each unit."""

    def __init__(self, nodes: int) -> None:
        self.queue = Queue(nodes)
        self.slots = names.held_pools(nodes)
        self.most_waiting = 0

    def ask(self, units: Sequence[str], now: datetime) -> list[str]:
        got = [
            claim.run_id
            for unit in units
            for claim in self.queue.change(
                leases.request(self.queue.lease, run_id=unit, execution_arn="arn", now=now, slots=self.slots), now
            )
        ]
        self.most_waiting = max(self.most_waiting, len(self.queue.lease.queue))
        return got

    def leave(self, units: Sequence[str], now: datetime) -> list[str]:
        # Who waits goes first: a run that is stopped must not be given a node on the way.
        first_waiting = sorted(units, key=self.queue.lease.held_by)
        return [
            claim.run_id
            for unit in first_waiting
            for claim in self.queue.change(
                leases.release(self.queue.lease, run_id=unit, now=now, slots=self.slots), now
            )
        ]

    def held(self) -> set[str]:
        return {claim.run_id for claim in self.queue.lease.holders}


@dataclass
class Together:
    """All nodes of a run at one moment, or none."""

    nodes: int
    in_order: bool
    holding: set[str] = field(default_factory=set)
    groups: list[tuple[str, ...]] = field(default_factory=list)

    def ask(self, units: Sequence[str], now: datetime) -> list[str]:
        self.groups.append(tuple(units))
        return self._start()

    def leave(self, units: Sequence[str], now: datetime) -> list[str]:
        self.holding -= set(units)
        self.groups = [group for group in self.groups if not set(group) & set(units)]
        return self._start()

    def _start(self) -> list[str]:
        got: list[str] = []
        for group in list(self.groups):
            if len(group) <= self.nodes - len(self.holding):
                self.groups.remove(group)
                self.holding |= set(group)
                got += group
            elif self.in_order:
                break
        return got

    def held(self) -> set[str]:
        return self.holding
