"""How many events of an execution's history a run can use. This decides how often its states are looked at.

Why it is so: ADR 55.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from specdecode.experiment.problems import ExperimentError, Problem
from specdecode.planning.states import BEFORE_THE_NODE, STOP_MINUTES, Step

HISTORY_LIMIT = 20_000
"""Step Functions ends an execution at 25,000 events; the rest is for retries and for cleaning up."""
EVENTS_PER_LOOK = 9
"""Task entered, scheduled, started, succeeded, exited; Choice entered, exited; Wait entered, exited."""
LAST_LOOK = 7
"""The same without the Wait."""
EVENTS_PER_WAVE = 11
"""The states between waves: the advisor, and the questions whether it is asked and whether more waves follow."""
EVENTS_ONCE = 60
"""All states that do not wait, the clean-up among them."""

QUEUE_LIMIT = timedelta(hours=24)
"""How long a run waits for others."""
QUEUE_POLL_S = 300
SHORTEST_POLL_S = 60
LONGEST_POLL_S = 600
ATTENTIVE_S = (15, 20, 30, 45)
"""Intervals between looks while work on the node is expected to end. Work that ends between two looks is billed until
the next look."""
STILL_ATTENTIVE = timedelta(minutes=1)
"""How long looks stay close together after the high estimate of the work: no estimate has the start of its pods.
Without this time, a benchmark of seconds would be looked at once, and then after a minute."""
SOON_S = 20
SOON_FOR = timedelta(minutes=2)
"""Smoke tests, endings and allocations take seconds, mostly: they are looked at every SOON_S at first."""
JOB_GRACE_MINUTES = 2 * LONGEST_POLL_S // 60
"""Minutes that a Job may go on after the limit of its step.

The step's next look then ends it with a cause, pod and log still there. The Job controller's own deadline, which
deletes the pod and its log, is for a pipeline that no longer looks.
"""
STOP_POLL_S = 60
DIAGNOSE_MINUTES = 17
"""Three tries of a function that may take 5.5 minutes."""


def late_minutes(poll_s: int) -> float:
    """Minutes that a Job may go on after the limit of its step, until the pipeline or Kubernetes has ended it."""
    return max(JOB_GRACE_MINUTES, poll_s / 60 + DIAGNOSE_MINUTES + STOP_MINUTES)


def longest_node_minutes(steps: Iterable[Step], *, poll_s: int) -> float:
    """Minutes from the request for the node until it is given up, if every step lasts until its deadline.

    A deadline is seen at the next look. The last step then fails: its cause is looked for, its pods are stopped.
    docs/reference/bounds.md has the time that functions add if they fail again and again.
    """
    held = list(steps)
    if not any(step.name == "AcquireCapacity" for step in held):
        return 0
    held = [step for step in held if step.name not in BEFORE_THE_NODE]
    looks = sum(step.waits for step in held) * poll_s / 60
    return sum(step.deadline_minutes for step in held) + looks + DIAGNOSE_MINUTES + STOP_MINUTES


def worst_case_events(steps: Iterable[Step], *, poll_s: int, attentive_s: int) -> int:
    """Events of an execution in which every wait lasts until its deadline, after a day in the queue."""
    steps = tuple(steps)
    looks = _looks(QUEUE_LIMIT, QUEUE_POLL_S) + _patient_looks(timedelta(minutes=STOP_MINUTES), STOP_POLL_S)
    looks += sum(_most_looks(step, poll_s, attentive_s) for step in steps)
    return EVENTS_PER_LOOK * looks + EVENTS_PER_WAVE * _waves(steps) + EVENTS_ONCE


def fewest_events(steps: Iterable[Step]) -> int:
    """Events of an execution in which all that is started is done at the second look."""
    steps = tuple(step for step in steps if not step.fallback)
    waiting = sum(EVENTS_PER_LOOK + LAST_LOOK if step.name != "Compile" else LAST_LOOK for step in steps if step.waits)
    return waiting + EVENTS_PER_WAVE * _waves(steps)


class Looks(NamedTuple):
    """How often a run's steps are looked at."""

    attentive_s: int
    """Seconds between looks while work on the node is expected to end."""
    poll_s: int
    """Seconds between looks before and after that."""


def choose_looks(steps: tuple[Step, ...]) -> Looks:
    """The shortest intervals that keep the worst case within HISTORY_LIMIT; the interval near expected ends counts
    first.

    LONGEST_POLL_S if no interval does: the plan then warns that the history may end the run. Raises ExperimentError if
    it certainly ends the run.
    """
    if (fewest := fewest_events(steps)) > HISTORY_LIMIT:
        raise ExperimentError(
            [
                Problem(
                    field="workload.rounds",
                    rule="history",
                    message=f"{_waves(steps)} waves make at least {fewest} history events, and an execution may "
                    f"have {HISTORY_LIMIT}",
                    fix="measure fewer rounds or fewer variants in one run, the rest in another",
                    source="Step Functions service quotas: 25,000 events in an execution's history",
                )
            ]
        )
    for poll_s in range(SHORTEST_POLL_S, LONGEST_POLL_S, 60):
        for attentive_s in (*ATTENTIVE_S, poll_s):
            if worst_case_events(steps, poll_s=poll_s, attentive_s=attentive_s) <= HISTORY_LIMIT:
                return Looks(attentive_s, poll_s)
    return Looks(LONGEST_POLL_S, LONGEST_POLL_S)


def _waves(steps: Iterable[Step]) -> int:
    return len({step.wave for step in steps} - {None})


def _most_looks(step: Step, poll_s: int, attentive_s: int) -> int:
    limit = timedelta(minutes=step.deadline_minutes)
    if not step.waits:
        return 0
    if step.name == "Smoke":
        return _patient_looks(limit, poll_s)
    if step.name in ("StopArms", "StopBeforeCompile"):
        return _patient_looks(limit, STOP_POLL_S)
    devices = _patient_looks(timedelta(), poll_s) if step.name == "Serve" else 0
    longer = step.works * STILL_ATTENTIVE if step.expected_minutes else timedelta()
    expected = min(limit, timedelta(minutes=step.expected_minutes) + longer)
    return int(expected.total_seconds() // attentive_s) + step.works + _looks(limit - expected, poll_s) + devices


def _looks(limit: timedelta, interval_s: int) -> int:
    return int(limit.total_seconds() // interval_s) + 1


def _patient_looks(limit: timedelta, then_s: int) -> int:
    return _looks(SOON_FOR, SOON_S) + _looks(max(limit - SOON_FOR, timedelta()), then_s)
