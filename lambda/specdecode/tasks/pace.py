"""How often the steps look: often while something is likely to happen, then so seldom that the history holds it all.

Step Functions ends an execution at 25,000 events. A run that waits everywhere until its deadlines, and in the queue as
long as it may, stays below LIMIT; the rest is for retries.
"""

from __future__ import annotations

from datetime import timedelta

from specdecode.manifests.benchmarking import SMOKE_MINUTES
from specdecode.planning import Plan
from specdecode.planning.events import ACCURACY_MINUTES, accuracy_minutes

LIMIT = 20_000
EVENTS_PER_LOOK = 9
"""Task entered, scheduled, started, succeeded, exited; Choice entered, exited; Wait entered, exited."""
EVENTS_PER_WAVE = 11
"""The states between waves: the advisor, and the questions whether it is asked and whether more waves follow."""
EVENTS_ONCE = 60
"""All states that do not wait, the clean-up among them."""

SOON_S = 20
SOON_FOR = timedelta(minutes=2)
"""Smoke tests, endings and allocations take seconds, mostly."""

QUEUE_LIMIT = timedelta(hours=24)
"""How long a run waits for others."""
QUEUE_POLL_S = 300
STOP_LIMIT = timedelta(minutes=15)
"""The node pool's terminationGracePeriod is 10 minutes; whatever outlives that is not going to leave by itself."""
STOP_POLL_S = 60


def soon(age: timedelta, *, then_s: int) -> int:
    """Seconds until the next look at something that began `age` ago: short at first, `then_s` afterwards."""
    return SOON_S if age < SOON_FOR else then_s


def poll_seconds(plan: Plan) -> int:
    """The plan's interval, or the next whole minute at which the worst case fits."""
    interval = plan.poll_seconds
    while worst_case_events(plan, poll_s=interval) > LIMIT:
        interval += 60
    return interval


def worst_case_events(plan: Plan, *, poll_s: int) -> int:
    """Events of an execution in which every wait lasts until its deadline."""
    deadlines = plan.experiment.deadlines
    minutes = [deadlines.staging, deadlines.capacity]
    minutes += [deadlines.compile for artifact in plan.artifacts if not artifact.compiled]
    patient = 0
    for wave in plan.waves:
        minutes += [deadlines.serve, deadlines.benchmark, accuracy_minutes(plan.experiment, plan.waves, wave)]
        patient += _wave_looks(poll_s)
    sweep, waves = plan.sweep, len(plan.waves)
    if sweep is not None:
        waves += sweep.waves_to_come
        minutes += [deadlines.compile] * sweep.compiles_to_come
        minutes += [
            deadlines.serve,
            deadlines.benchmark,
            ACCURACY_MINUTES * plan.experiment.accuracy,
        ] * sweep.waves_to_come
        patient += sweep.waves_to_come * _wave_looks(poll_s)
    patient += _patient_looks(STOP_LIMIT, STOP_POLL_S)  # after a failure
    queue = _looks(QUEUE_LIMIT, QUEUE_POLL_S)
    looks = queue + patient + sum(_looks(timedelta(minutes=limit), poll_s) for limit in minutes)
    return EVENTS_PER_LOOK * looks + EVENTS_PER_WAVE * waves + EVENTS_ONCE


def _wave_looks(poll_s: int) -> int:
    """Of smoke test, ending and the arms' devices."""
    smoke, ending = _patient_looks(timedelta(minutes=SMOKE_MINUTES), poll_s), _patient_looks(STOP_LIMIT, STOP_POLL_S)
    return smoke + ending + _patient_looks(timedelta(), poll_s)


def _looks(limit: timedelta, interval_s: int) -> int:
    return int(limit.total_seconds() // interval_s) + 1


def _patient_looks(limit: timedelta, then_s: int) -> int:
    return _looks(SOON_FOR, SOON_S) + _looks(max(limit - SOON_FOR, timedelta()), then_s)
