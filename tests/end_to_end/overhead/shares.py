"""The share of the node's time that the orchestration itself costs: an execution's history compared with the times of
the objects. Pure.

A run's time on the node is either work (a Job or a server from its creation to its completion or readiness) or
orchestration (looking, waiting after the work is over, the smoke test, the teardown). Waits that the rehearsal
shortened are counted at their full length. A wait during work costs nothing, since the work goes on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

WORK = ("StageModels", "Compile", "Serve", "Benchmark")
"""States during which the node works for the user."""


@dataclass(frozen=True)
class Span:
    """Work that went on by itself: a Job, servers that load, pods that end. Times in seconds since the epoch."""

    state: str
    """The state that waits for it."""
    started: float
    ended: float


@dataclass(frozen=True)
class Share:
    """One state's part of a run."""

    state: str
    looks: int
    """Number of calls of its function."""
    functions_s: float
    """Seconds in the function and the transitions around it."""
    waits_s: float
    """Seconds in waits, at their full length."""
    work_s: float
    """Seconds of the node's time that were work, as long as the work took."""
    lost_s: float
    """Seconds of the node's time that were not work, waits at their full length."""


@dataclass(frozen=True)
class _Interval:
    state: str
    waiting: bool
    started: float
    ended: float


def shares(
    events: Sequence[Mapping[str, Any]], *, wait_scale: float, node: Span | None = None, spans: Sequence[Span] = ()
) -> list[Share]:
    """The time of each state, in the order in which they were first entered.

    `events`: GetExecutionHistory's, oldest first. `wait_scale`: length of a wait here, divided by its length in the
    definition. `node`: from when the node was usable until it was given back; without it no time of the node is
    counted.
    """
    timeline = list(_timeline(events))
    spans = [_within_its_state(span, timeline) for span in spans]
    looks = list(looks_of(events))
    found = []
    for state in dict.fromkeys(looks):
        own = [interval for interval in timeline if interval.state == state]
        idle = [part for part in own if node for part in _outside(part, node, spans)]
        own_spans = [_clipped(span, node) for span in spans if node and span.state == state]
        went_on = sum(ended - started for started, ended in _union(own_spans))
        found.append(
            Share(
                state=state,
                looks=looks.count(state),
                functions_s=_length(own, waiting=False),
                waits_s=_length(own, waiting=True) / wait_scale,
                work_s=went_on if state in WORK else 0.0,
                lost_s=_length(idle, waiting=False)
                + _length(idle, waiting=True) / wait_scale
                + (0.0 if state in WORK else went_on),
            )
        )
    return found


def looks_of(events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The state of each call of a function, in order."""
    state = ""
    for event in events:
        if "stateEnteredEventDetails" in event:
            state = event["stateEnteredEventDetails"]["name"]
        if event["type"] == "TaskScheduled":
            yield state


def _timeline(events: Sequence[Mapping[str, Any]]) -> Iterator[_Interval]:
    """The whole history as intervals: their state, and whether it waits, which is the time before a retry."""
    state, waiting, before = "", False, 0.0
    for event in events:
        now = _seconds(event["timestamp"])
        if state:
            yield _Interval(state, waiting, before, now)
        if "stateEnteredEventDetails" in event:
            state = event["stateEnteredEventDetails"]["name"]
        waiting, before = event["type"] in {"TaskFailed", "TaskTimedOut"}, now


def _within_its_state(span: Span, timeline: Sequence[_Interval]) -> Span:
    """The span, cut at the end of its state: a step goes on as soon as the artifact is there, a moment before the Job
    ends.
    """
    ended = span.ended
    for interval in timeline:
        if interval.ended > span.started and interval.state != span.state:
            ended = min(ended, max(interval.started, span.started))
            break
    return Span(span.state, span.started, ended)


def _seconds(stamp: datetime | float) -> float:
    return stamp.timestamp() if isinstance(stamp, datetime) else float(stamp)


def _length(intervals: Sequence[_Interval], *, waiting: bool) -> float:
    return sum(i.ended - i.started for i in intervals if i.waiting is waiting)


def _clipped(span: Span, node: Span) -> tuple[float, float]:
    return max(span.started, node.started), min(span.ended, node.ended)


def _union(parts: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The union of the intervals: no moment counts twice."""
    merged: list[tuple[float, float]] = []
    for started, ended in sorted(part for part in parts if part[1] > part[0]):
        if merged and started <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], ended))
        else:
            merged.append((started, ended))
    return merged


def _outside(interval: _Interval, node: Span, spans: Sequence[Span]) -> Iterator[_Interval]:
    """The parts of `interval` that are in the node's time and in no span."""
    at, end = max(interval.started, node.started), min(interval.ended, node.ended)
    for started, ended in _union([(span.started, span.ended) for span in spans]):
        if started >= end:
            break
        if started > at:
            yield _Interval(interval.state, interval.waiting, at, started)
        at = max(at, ended)
    if at < end:
        yield _Interval(interval.state, interval.waiting, at, end)
