"""How many events of an execution's history a run can use. This decides how often its states are looked at.

Why it is so: ADR 55.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import combinations_with_replacement

from specdecode.experiment.problems import refused
from specdecode.planning.timeline import BEFORE_THE_NODE, NODE_STOP_MINUTES, STOP_MINUTES, Step

HISTORY_LIMIT = 20_000
"""Step Functions ends an execution at 25,000 events; the rest is for retries and for cleaning up."""
EVENTS_PER_LOOK = 3
"""Task scheduled, started, failed (not done yet) or succeeded. The state is not left between two looks."""
RETRIES_A_VISIT = 7
"""Looks of each interval after the first, until the state is left and entered again."""
EVENTS_PER_VISIT = 2
"""Task entered, exited."""
EVENTS_PER_TASK = EVENTS_PER_VISIT + EVENTS_PER_LOOK
EVENTS_PER_WAVE = 3 * EVENTS_PER_TASK + 4
"""The advisor, up to two steps that have nothing to do, and the question whether more waves follow, asked twice."""
EVENTS_ONCE = 120
"""All states that do not wait, the clean-up and its tries among them, and steps that have nothing to do."""

QUEUE_LIMIT = timedelta(hours=24)
"""How long a run waits for others."""
INTERVALS_S = (15, 60, 300)
"""Seconds between two looks, from which a step chooses: the state machine has a retrier for each."""
SOON_S, STOP_POLL_S, QUEUE_POLL_S = INTERVALS_S
"""Mostly, what ends between two looks is billed until the next; where pods are slow to go; in the queue."""
STILL_ATTENTIVE = timedelta(minutes=1)
"""How long looks stay close together after the high estimate of the work: no estimate has the start of its pods.
Without this time, a benchmark of seconds would be looked at once, and then after a minute."""
SOON_FOR = timedelta(minutes=2)
"""Smoke tests, endings and allocations take seconds, mostly: they are looked at every SOON_S at first."""
JOB_GRACE_MINUTES = 4 * INTERVALS_S[-1] // 60
"""Minutes that a Job may go on after the limit of its step. The step's next look then ends it with a cause, pod and log
still there. The Job controller's own deadline, which deletes the pod and its log, is for a pipeline that no longer
looks."""
DIAGNOSE_MINUTES = 17
"""Three tries of a function that may take 5.5 minutes."""


def late_minutes(poll_s: int) -> float:
    """Minutes that a Job may go on after the limit of its step, until the pipeline or Kubernetes has ended it."""
    return max(JOB_GRACE_MINUTES, poll_s / 60 + DIAGNOSE_MINUTES + STOP_MINUTES)


def longest_node_minutes(steps: Sequence[Step], *, poll_s: int) -> float:
    """Minutes from the request for the node until it is gone, if every step lasts until its deadline. 0 for servers
    that already run. docs/reference/bounds.md has the time that functions add if they fail again and again.
    """
    return longest_minutes(steps, poll_s=poll_s) if any(step.name == "Serve" for step in steps) else 0


def longest_minutes(steps: Iterable[Step], *, poll_s: int) -> float:
    """The same of any run, after the queue. A deadline is seen at the next look. The last step then fails: its cause is
    looked for, its pods are stopped, and the node, given up without waiting for it, drains.
    """
    held = [step for step in steps if step.name not in BEFORE_THE_NODE]
    limits = sum(step.deadline_minutes + unseen_minutes(step, poll_s=poll_s) for step in held)
    return limits + DIAGNOSE_MINUTES + STOP_MINUTES + NODE_STOP_MINUTES.high


def unseen_minutes(step: Step, *, poll_s: int) -> float:
    """Longest time from a step's deadline until it is seen, with `poll_s` between two looks."""
    if not step.waits:
        return 0
    return (STOP_POLL_S if step.name == "StopArms" else poll_s) / 60


def worst_case_events(steps: Iterable[Step], *, poll_s: int, attentive_s: int) -> int:
    """Events of an execution in which every wait lasts until its deadline, after a day in the queue."""
    steps = tuple(steps)
    waits = [_looks(QUEUE_LIMIT, QUEUE_POLL_S), _stop_looks(timedelta(minutes=STOP_MINUTES))]
    waits += [_most_looks(step, poll_s, attentive_s) for step in steps if step.waits]
    return sum(map(_events, waits)) + EVENTS_PER_WAVE * _waves(steps) + EVENTS_ONCE


def fewest_events(steps: Iterable[Step]) -> int:
    """Events of an execution in which all that is started is done at the second look."""
    steps = tuple(step for step in steps if not step.fallback)
    waiting = sum(_events(1 if step.name == "Compile" else 2) for step in steps if step.waits)
    return waiting + EVENTS_PER_WAVE * _waves(steps)


def choose_looks(steps: tuple[Step, ...]) -> tuple[int, int]:
    """Seconds between looks while work on the node is expected to end, and before and after that. They are the shortest
    that keep the worst case within HISTORY_LIMIT, the first before the second. If none does, the longest: the plan then
    warns that the history may end the run. Raises ExperimentError if it certainly ends the run.
    """
    if (fewest := fewest_events(steps)) > HISTORY_LIMIT:
        message = (
            f"{_waves(steps)} waves make at least {fewest} history events, and an execution may have {HISTORY_LIMIT}"
        )
        fix = "measure fewer rounds or fewer variants in one run, the rest in another"
        source = "Step Functions service quotas: 25,000 events in an execution's history"
        raise refused("workload.rounds", message, fix, rule="history", source=source)
    for attentive_s, poll_s in combinations_with_replacement(INTERVALS_S, 2):
        if worst_case_events(steps, poll_s=poll_s, attentive_s=attentive_s) <= HISTORY_LIMIT:
            return attentive_s, poll_s
    return INTERVALS_S[-1], INTERVALS_S[-1]


def _waves(steps: Iterable[Step]) -> int:
    return len({step.wave for step in steps} - {None})


def _most_looks(step: Step, poll_s: int, attentive_s: int) -> int:
    limit = timedelta(minutes=step.deadline_minutes)
    if step.name == "Smoke":
        return _patient_looks(limit, poll_s)
    if step.name == "StopArms":
        return _stop_looks(limit)
    devices = _patient_looks(timedelta(), poll_s) if step.name == "Serve" else 0
    longer = step.works * STILL_ATTENTIVE if step.takes.high else timedelta()
    expected = min(limit, timedelta(minutes=step.takes.high) + longer)
    return int(expected.total_seconds() // attentive_s) + step.works + _looks(limit - expected, poll_s) + devices


def _events(looks: int) -> int:
    """Events of a step that is looked at so often."""
    return EVENTS_PER_LOOK * looks + EVENTS_PER_VISIT * (looks // (RETRIES_A_VISIT + 1) + 1)


def _looks(limit: timedelta, interval_s: int) -> int:
    return int(limit.total_seconds() // interval_s) + 1


def _patient_looks(limit: timedelta, then_s: int) -> int:
    return _looks(SOON_FOR, SOON_S) + _looks(max(limit - SOON_FOR, timedelta()), then_s)


def _stop_looks(limit: timedelta) -> int:
    return _patient_looks(limit, STOP_POLL_S)
