"""Sends requests at their times: closed loop or open loop."""

import asyncio
import math
import random
import resource
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from specdecode.benchmark.clients import ALL, LoadSlice

Send = Callable[[int, float | None], Awaitable[None]]
"""Sends request `index`; the second argument is when it was due on the monotonic clock (open loop), else None."""


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """Number of requests, pace and duration. With `rate` the loop is open, else closed with `concurrency`."""

    requests: int | None
    """None: as many as `duration_s` allows."""
    concurrency: int = 1
    rate: float | None = None
    arrivals: Literal["poisson", "constant"] = "poisson"
    duration_s: float | None = None
    """No request is sent after that many seconds. Requests under way continue to their end."""
    ramp_s: float = 0.0
    """Seconds in which concurrency or rate grows from zero to its full value."""
    seed: int = 11111
    load_slice: LoadSlice = ALL
    """This client's part of the streams or arrivals."""
    most_open: int = 1000
    """Open loop: most requests under way. A request that is due while so many are under way waits, and its times
    include the wait."""


_MOST_OPEN = 20_000
"""Below the ports that Linux has for one peer (28,000)."""
_OTHER_FILES = 64
"""Files that the process has open besides: logs, results, the event loop, the AWS client."""


def most_open(arms: int) -> int:
    """Requests that each of `arms` loaded at once may have under way: each needs a socket, an open file."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = _MOST_OPEN if files == resource.RLIM_INFINITY else min(files - _OTHER_FILES, _MOST_OPEN)
    return max(1, room // arms)


async def run_load(plan: LoadPlan, send: Send, *, indices: Iterator[int]) -> None:
    """Send requests as planned and return when all have ended. `indices` says which ones, in order."""
    if plan.rate is None:
        await _closed_loop(plan, send, indices)
    else:
        await _open_loop(plan, send, indices)


async def _closed_loop(plan: LoadPlan, send: Send, indices: Iterator[int]) -> None:
    """`concurrency` workers, each sending its next request when its last has ended."""
    begin = time.monotonic()
    left = math.inf if plan.requests is None else plan.requests

    async def worker(number: int) -> None:
        nonlocal left
        if plan.ramp_s:
            await asyncio.sleep(plan.ramp_s * number / plan.concurrency)
        while left > 0 and (plan.duration_s is None or time.monotonic() - begin < plan.duration_s):
            index = next(indices, None)
            if index is None:
                return
            left -= 1
            await send(index, None)

    async with asyncio.TaskGroup() as group:
        for number in range(plan.load_slice.streams(plan.concurrency)):
            group.create_task(worker(number))


async def _open_loop(plan: LoadPlan, send: Send, indices: Iterator[int]) -> None:
    """Send every request at its time, however many are still under way: a slow server does not slow the load.

    A request waits only if `most_open` are under way. It keeps the time at which it was due, and its latency counts
    from then, so that the figures include the wait.
    """
    begin = time.monotonic()
    slots = asyncio.Semaphore(plan.most_open)

    async def send_and_leave(index: int, due: float) -> None:
        try:
            await send(index, due)
        finally:
            slots.release()

    async with asyncio.TaskGroup() as group:
        for number, due_s in enumerate(arrival_times(plan)):
            if (plan.requests is not None and number >= plan.requests) or (
                plan.duration_s is not None and due_s >= plan.duration_s
            ):
                return
            index = next(indices, None)
            if index is None:
                return
            due = begin + due_s
            delay = due - time.monotonic()
            if delay > 0:
                await asyncio.sleep(delay)
            await slots.acquire()
            group.create_task(send_and_leave(index, due))


def arrival_times(plan: LoadPlan) -> Iterator[float]:
    """Seconds from the beginning at which this client's requests are due, for ever. Every client draws all arrivals and
    takes its own, so that together they are the one process that was asked for.
    """
    return islice(_all_times(plan), plan.load_slice.client, None, plan.load_slice.clients)


def _all_times(plan: LoadPlan) -> Iterator[float]:
    """Arrival times of all clients: unit-rate arrivals (evenly spaced, or a Poisson process), mapped by `due_s`."""
    if plan.rate is None:
        raise ValueError("a closed loop has no arrival times")
    rng = random.Random(plan.seed)
    expected = 0.0
    while True:
        if plan.arrivals == "poisson":
            expected += rng.expovariate(1.0)
        yield due_s(expected, plan.rate, plan.ramp_s)
        if plan.arrivals == "constant":
            expected += 1


def due_s(arrivals: float, rate: float, ramp_s: float) -> float:
    """Seconds until so many arrivals are expected. By time t these are rate * t^2 / (2 * ramp) within the ramp, and
    rate * (t - ramp / 2) after it.
    """
    if arrivals < rate * ramp_s / 2:
        return math.sqrt(2 * ramp_s * arrivals / rate)
    return ramp_s / 2 + arrivals / rate


def latest_s(requests: int, rate: float, ramp_s: float) -> float:
    """Seconds until the last of so many requests of an open loop is due, with nearly all seeds: a Poisson process that
    is three standard deviations late.
    """
    return due_s(requests + 3 * math.sqrt(requests), rate, ramp_s)
