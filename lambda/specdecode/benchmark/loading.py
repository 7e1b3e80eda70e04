"""Loads arms with the requests of one case and level, and keeps their records; and the order of all of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from specdecode.benchmark.arm import ArmLoad, LoadedArm
from specdecode.benchmark.client import MakeRecord
from specdecode.benchmark.clients import ALL, Clients, Meeting
from specdecode.benchmark.counters import BlockCounters
from specdecode.benchmark.enough import Enough
from specdecode.benchmark.histories import Conversations
from specdecode.benchmark.load import LoadPlan, most_open
from specdecode.benchmark.progress import LoadProgress
from specdecode.benchmark.prompts import Prompt
from specdecode.benchmark.results import Results, was_cancelled
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.experiment.workload import Level, Load, TestCase
from specdecode.records import RequestRecord

BACKLOG = 1024
"""Most records that wait before the recorder stops yielding to the streams. If more streams than this end together, the
client is too slow, and the waiting records would fill its memory."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that a specification does not have."""

    folder: Path
    upload: str | None = None
    meeting: Meeting | None = None
    """Meeting with the other clients, if levels take several. None: this client is alone."""
    arrivals: Literal["poisson", "constant"] = "poisson"
    ramp_s: float = 0.0
    same_urls: bool = False
    """Whether an arm that was measured before must be at its URL still. A pod's Service may get another address."""


class Recorder:
    """Makes and stores records during the load, one at a time, so that open streams are read in between.

    Call `add` from anywhere in the loop. `keep` gets each record in order, at the latest when `running` ends.
    """

    def __init__(self, keep: Callable[[RequestRecord], None]) -> None:
        self._keep = keep
        self._waiting: deque[MakeRecord] = deque()
        self._added = asyncio.Event()

    def add(self, make: MakeRecord) -> None:
        self._waiting.append(make)
        self._added.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Recorder]:
        """Store records while the context is open. Those that wait at its end, or a cancellation, are stored then."""
        task = asyncio.create_task(self._work())
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            while self._waiting:
                self._keep(self._waiting.popleft()())

    async def _work(self) -> None:
        while True:
            await self._added.wait()
            self._added.clear()
            while self._waiting:
                self._keep(self._waiting.popleft()())
                if len(self._waiting) <= BACKLOG:
                    await asyncio.sleep(0)


@dataclass(frozen=True, kw_only=True)
class Loading:
    """The state of a benchmark that its loads read and change."""

    spec: BenchmarkSpec
    options: Options
    clients: Clients
    results: Results
    enough: Enough
    talks: Conversations
    progress: LoadProgress
    counters: BlockCounters = field(default_factory=BlockCounters)
    _warm: set[tuple[str, str, str]] = field(default_factory=set)
    """Variant, case and level that are warmed up."""

    def begin(self, arm: LoadedArm, case: TestCase, level: Level) -> None:
        """Tell the user that the portions of `arm` begin."""
        asked = self._asked(arm, case, level, (), portion=0, requests=self.spec.workload.requests_of(case, level))
        shown = str(level) if len(self.spec.workload.levels) > 1 else ""
        self.progress.begin(arm.client.variant, case.name, shown, requests=asked.own, measured=len(asked.skip))

    async def load(
        self,
        arms: Sequence[LoadedArm],
        case: TestCase,
        level: Level,
        prompts: Sequence[Prompt],
        *,
        portion: int,
        requests: int,
    ) -> None:
        """Load all `arms` at once until `requests` requests of each are measured. Raises NotTogether."""
        async with asyncio.TaskGroup() as group:
            for arm in arms:
                asked = self._asked(arm, case, level, prompts, portion=portion, requests=requests, at_once=len(arms))
                group.create_task(self._load(arm, asked))

    def _asked(
        self,
        arm: LoadedArm,
        case: TestCase,
        level: Level,
        prompts: Sequence[Prompt],
        *,
        portion: int,
        requests: int,
        at_once: int = 1,
    ) -> ArmLoad:
        """Part of this client in the first `requests` requests, some of which may be measured already."""
        options, load_slice = self.options, self.clients.load_slice(level) or ALL
        endless = self.spec.duration_s is not None
        measured = self.enough.measured[arm.client.variant, case.name, level.name]
        own = load_slice.of(range(requests), concurrency=level.concurrency)
        plan = LoadPlan(
            requests=None if endless else requests,
            concurrency=level.concurrency or 1,
            rate=level.rate,
            arrivals=options.arrivals,
            duration_s=self.spec.duration_s,
            ramp_s=options.ramp_s,
            seed=self.spec.workload.seed,
            load_slice=load_slice,
            most_open=most_open(at_once),
        )
        return ArmLoad(
            case=case,
            level=level,
            workload=self.spec.workload,
            prompts=prompts,
            plan=plan,
            own=None if endless else len(own),
            skip=frozenset(measured & set(own)),
            histories=self.talks.of(case.name),
            portion=portion,
        )

    async def _load(self, arm: LoadedArm, asked: ArmLoad) -> None:
        """Load one arm with a part of a portion and keep the records."""
        variant, case, level, load_slice = arm.client.variant, asked.case.name, asked.level, asked.plan.load_slice
        barrier = await self.clients.barrier(
            load_slice, variant=variant, case=case, level=level, already=len(asked.skip), left=asked.left
        )
        if barrier.arrival.late and asked.left:
            self.progress.message(f"{barrier.block}: began without this client, and so its times will be doubtful")
        session = arm.client.session + barrier.arrival.late
        arm = replace(arm, client=replace(arm.client, load_slice=load_slice, session=session))

        def keep(record: RequestRecord) -> None:
            """Keep it, unless the benchmark itself cancelled it: that is no failure of the server's."""
            self.progress.record(record)
            if not was_cancelled(record):
                self.results.append(record)
                self.enough.add(record)

        if barrier.arrival.left or load_slice.clients > 1:
            warm = (variant, case, level.name) in self._warm or not barrier.arrival.left
            async with Recorder(keep).running() as recorder:
                counters = await arm.load(asked, warm=warm, barrier=barrier, deliver=recorder.add)
            self._warm.add((variant, case, level.name))
            if barrier.arrival.left:
                block = variant, case, self.spec.round, level.name
                now = (
                    len(self.enough.measured[variant, case, level.name])
                    if load_slice.clients == 1
                    else asked.plan.requests or 0
                )
                self.counters.add(block, counters, already=barrier.arrival.already, now=now)


@dataclass(frozen=True, kw_only=True)
class LoadBlock:
    """One case at one level, on one arm or on several."""

    case: TestCase
    level: Level
    order: tuple[tuple[str, ...], ...]
    """Arms that are loaded at once, such groups one after the other."""
    led: bool = False
    """The first arm is loaded first in every portion: its answers are the history of the other arms' conversations."""


def blocks(spec: BenchmarkSpec, led: Collection[str] = ()) -> Iterator[LoadBlock]:
    """Blocks of a round; if it is resumed, in the same order. `led`: cases in which the first arm must be loaded first.

    Interleaved: each case and level on every arm before the next, every other time with the arms in reverse (A B, B A),
    so that a slow drift of the machine affects all arms alike. Sequential: everything of an arm before the next arm.
    Simultaneous: all arms at once, as the public sample does. Each case has its own order of levels, so that a drift
    does not look like an effect of the load.
    """
    arms, load = tuple(arm.variant for arm in spec.arms), spec.workload
    shuffled = random.Random(load.seed + spec.round)
    loads = [(case, level) for case in load.cases for level in shuffled.sample(load.levels, len(load.levels))]
    match load.load:
        case Load.SIMULTANEOUS:
            for case, level in loads:
                yield LoadBlock(case=case, level=level, order=(arms,))
        case Load.SEQUENTIAL:
            for arm in arms:
                for case, level in loads:
                    yield LoadBlock(case=case, level=level, order=((arm,),))
        case Load.INTERLEAVED:
            for number, (case, level) in enumerate(loads):
                is_led = case.name in led
                ordered = arms if number % 2 == 0 or is_led else arms[::-1]
                yield LoadBlock(case=case, level=level, order=tuple((arm,) for arm in ordered), led=is_led)
