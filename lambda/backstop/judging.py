"""Decides when the instances of a pool must end. Pure: it calls nothing (ADR 133)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

PERIOD_S = 300
"""Seconds of a datapoint: the watchdog's period."""


@dataclass(frozen=True)
class Limits:
    window: timedelta
    """It looks at the metrics of this last time. An instance must be at least this old to be ended."""
    holding: timedelta
    """Longest time for which a run may hold the node."""
    execution: timedelta
    """An execution that is older protects no instance, if the watchdog does not say who holds the node. Nor is an
    instance that is older protected, if CloudWatch or Step Functions cannot be asked.
    """
    dynamic: timedelta
    """Longest life of an instance that stages or compiles while an execution runs."""


@dataclass(frozen=True)
class Instance:
    name: str
    pool: str
    launched: datetime


@dataclass(frozen=True)
class Watched:
    """The watchdog's metrics of a pool in the window, oldest first. Empty if there are none."""

    beats: tuple[float, ...] = ()
    without_lease: tuple[float, ...] = ()
    """Nodes of the pool above the number that the lease asks for."""
    lease_age_s: tuple[float, ...] = ()
    """Seconds for which a run has held the pool's node; 0 if no run holds it."""


@dataclass(frozen=True)
class Judgement:
    """No instance of the pool may be older than `age`, because of `why`."""

    why: str
    age: timedelta
    lasts: bool = True
    """Whether Karpenter stays closed after the last instance has ended. False if the watchdog works."""


def judge(
    watched: Watched | None,
    started: tuple[datetime, ...] | None,
    *,
    ages: Sequence[timedelta],
    now: datetime,
    limits: Limits,
) -> Judgement | None:
    """Which instances of a pool must end. None if a healthy run may need them, or the watchdog can still end them.

    `watched`: None if the metrics cannot be read. `started`: start times of the executions that run; None if Step
    Functions cannot be asked. `ages`: of the pool's instances.
    """
    minutes = f"{limits.window.total_seconds() / 60:.0f} min"
    looks = max(1, int(limits.window.total_seconds() // PERIOD_S) - 1)
    if watched and sum(1 for beat in watched.beats if beat) >= looks:
        if len(watched.lease_age_s) >= looks and not any(watched.lease_age_s):
            # The watchdog's count of nodes does not matter here: it counts what Kubernetes knows, and Kubernetes may
            # not know an instance.
            return Judgement(f"for {minutes} no run has held the node", limits.window, lasts=False)
        # A negative age would mean that the node is held since a moment in the future.
        if watched.lease_age_s and not 0 <= watched.lease_age_s[-1] <= limits.holding.total_seconds():
            return Judgement(f"a run has held the node for longer than {hours(limits.holding)}", limits.window)
        if len(watched.without_lease) >= looks and all(watched.without_lease):
            return Judgement(f"for {minutes} there has been a node too many", limits.holding, lasts=False)
        settled = [age for age in ages if age >= limits.window]
        if len(settled) > 1 and max(settled) >= limits.holding:
            # A pool asks for one. Which of them Kubernetes does not know cannot be told from here.
            why = f"the pool has had {len(settled)} instances for {minutes}, one of them for {hours(limits.holding)}"
            return Judgement(why, limits.holding, lasts=False)
        return None
    silent = f"the watchdog has not worked for {minutes}" if watched else "the watchdog's metrics cannot be read"
    if started is None:
        return Judgement(f"{silent}, and it is not known which runs go on", limits.execution)
    if any(now - begun <= limits.execution for begun in started):
        # Runs protect an instance only for as long as one run may hold it, however many runs follow each other. Where
        # the watchdog may well work, one answer that did not come ends no instance that was handed over.
        age = limits.holding if watched else limits.execution
        return Judgement(f"{silent}, and the instance is older than {hours(age)}", age)
    running = f"the runs that go on are older than {hours(limits.execution)}" if started else "no run goes on"
    return Judgement(f"{silent}, and {running}", limits.window)


def hours(span: timedelta) -> str:
    return f"{span.total_seconds() / 3600:.0f} h"
