"""The states that a run goes through, and how much of an execution's history they can use."""

from __future__ import annotations

from specdecode.experiment.model import Experiment, Frozen, Sweep
from specdecode.planning.waves import Wave, first_served

HISTORY_LIMIT = 20_000
"""Step Functions ends an execution at 25,000 events; the rest is for retries and for cleaning up."""
EVENTS_PER_LOOK = 9
"""Task entered, scheduled, started, succeeded, exited; Choice entered, exited; Wait entered, exited."""
EVENTS_PER_STEP = 5
"""A Task that does not wait."""
QUEUE_LOOKS = 24 * 60 // 5 + 1
"""A day in the queue, a look every five minutes."""
SHORTEST_POLL_S = 60
LONGEST_POLL_S = 600
SMOKE_MINUTES = 15
ACCURACY_MINUTES = 60
"""For each arm: 50 answers of at most 256 tokens, one after the other at 0.2 s a token, are 43 minutes."""
STOP_MINUTES = 15
"""Longest time until an arm's pods and claims are gone."""
RELEASE_MINUTES = 15


class Step(Frozen):
    """One state of the run, and the longest time it may wait."""

    name: str
    wave: int | None = None
    deadline_minutes: int = 0
    """0: it does not wait."""


def make_steps(experiment: Experiment, waves: tuple[Wave, ...], compiles: frozenset[str]) -> tuple[Step, ...]:
    """The steps in their order. `compiles`: the fingerprints that are still missing."""
    deadlines, left = experiment.deadlines, set(compiles)
    steps = [
        Step(name="Plan"),
        Step(name="StageModels", deadline_minutes=deadlines.staging),
        Step(name="AcquireCapacity", deadline_minutes=deadlines.capacity),
    ]
    for wave in waves:
        missing = {arm.fingerprint for arm in wave.arms} & left
        left -= missing
        steps += [
            Step(name="Compile", wave=wave.index, deadline_minutes=deadlines.compile * len(missing)),
            Step(name="Serve", wave=wave.index, deadline_minutes=deadlines.serve),
            Step(name="Smoke", wave=wave.index, deadline_minutes=SMOKE_MINUTES),
            Step(name="Benchmark", wave=wave.index, deadline_minutes=deadlines.benchmark),
        ]
        if limit := accuracy_minutes(experiment, waves, wave):
            steps.append(Step(name="Accuracy", wave=wave.index, deadline_minutes=limit))
        steps.append(Step(name="StopArms", wave=wave.index, deadline_minutes=STOP_MINUTES))
        if experiment.sweep is Sweep.ADAPTIVE:
            steps.append(Step(name="Advise", wave=wave.index))
    steps += [Step(name="ReleaseCapacity", deadline_minutes=RELEASE_MINUTES), Step(name="Report")]
    return tuple(steps)


def accuracy_minutes(experiment: Experiment, waves: tuple[Wave, ...], wave: Wave) -> int:
    """Longest time of the accuracy test in `wave`; 0 where it is not asked for or its arms had theirs in another."""
    return ACCURACY_MINUTES * len(first_served(waves, wave)) if experiment.accuracy else 0


def worst_case_events(steps: tuple[Step, ...], *, poll_s: int) -> int:
    """Events of the history if every wait lasts until its deadline, and the run a day in the queue before."""
    looks = QUEUE_LOOKS + sum(step.deadline_minutes * 60 // poll_s + 1 for step in steps if step.deadline_minutes)
    return EVENTS_PER_LOOK * looks + EVENTS_PER_STEP * sum(1 for step in steps if not step.deadline_minutes)


def choose_poll_seconds(steps: tuple[Step, ...]) -> int:
    """The shortest interval, in whole minutes from 60 s on, that keeps the worst case within HISTORY_LIMIT.

    LONGEST_POLL_S where none does: the plan then says that the experiment must be split.
    """
    for poll_s in range(SHORTEST_POLL_S, LONGEST_POLL_S, 60):
        if worst_case_events(steps, poll_s=poll_s) <= HISTORY_LIMIT:
            return poll_s
    return LONGEST_POLL_S
