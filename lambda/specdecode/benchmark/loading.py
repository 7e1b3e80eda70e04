"""Loads arms with the requests of one case and level, and keeps their records."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from specdecode.benchmark.arm import ArmLoad, LoadedArm
from specdecode.benchmark.client import MakeRecord
from specdecode.benchmark.clients import ALL, Clients
from specdecode.benchmark.conversations import Conversations
from specdecode.benchmark.counters import BlockCounters
from specdecode.benchmark.earlier import Measured
from specdecode.benchmark.enough import Enough
from specdecode.benchmark.load import LoadPlan, most_open
from specdecode.benchmark.outcome import Options
from specdecode.benchmark.progress import LoadProgress
from specdecode.benchmark.prompts import Prompt
from specdecode.benchmark.results import Results
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.experiment.workload import Level, TestCase
from specdecode.records import RequestRecord

BACKLOG = 1024
"""Most records that wait before the recorder stops yielding to the streams. If more streams than this end together, the
client is too slow, and the waiting records would fill its memory."""


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
        """Store records while the context is open. Records that wait at its end, or when it is cancelled, are stored
        then.
        """
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
class _Part:
    """The part of one client in the load of one arm, at one level of a case."""

    arm: LoadedArm
    case: TestCase
    level: Level
    requests: int
    """Requests of all clients."""
    own: int | None
    """Requests of this client. None for a load that ends by time."""
    skip: frozenset[int]
    """Indices that this client has measured before."""
    plan: LoadPlan

    @property
    def left(self) -> int:
        """Requests that this client has to send; 1 for a load that ends by time."""
        return 1 if self.own is None else self.own - len(self.skip)


@dataclass(frozen=True, kw_only=True)
class Loading:
    """The state of a benchmark that its loads read and change."""

    spec: BenchmarkSpec
    options: Options
    clients: Clients
    results: Results
    measured: Measured
    enough: Enough
    talks: Conversations
    progress: LoadProgress
    counters: BlockCounters = field(default_factory=BlockCounters)
    _warm: set[tuple[str, str, str]] = field(default_factory=set)
    """Variant, case and level that are warmed up."""

    def begin(self, arm: LoadedArm, case: TestCase, level: Level) -> None:
        """Tell the user that the portions of `arm` begin."""
        part = self._part(arm, case, level, self.spec.workload.requests_of(case, level), most_open=1)
        variant, shown = arm.client.variant, str(level) if len(self.spec.workload.levels) > 1 else ""
        self.progress.begin(variant, case.name, shown, requests=part.own, measured=len(part.skip))

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
        """Load all `arms` at once with a portion, until `requests` requests of each are measured. Raises
        NotTogether.
        """
        async with asyncio.TaskGroup() as group:
            for arm in arms:
                part = self._part(arm, case, level, requests, most_open(len(arms)))
                group.create_task(self._load(part, prompts, portion))

    def _part(self, arm: LoadedArm, case: TestCase, level: Level, requests: int, most_open: int) -> _Part:
        """Part of this client in the first `requests` requests, some of which may be measured already."""
        options, load_slice = self.options, self.clients.load_slice(level) or ALL
        endless = options.duration_s is not None
        measured = self.measured[arm.client.variant, case.name][level.name]
        own = load_slice.of(range(requests), concurrency=level.concurrency)
        plan = LoadPlan(
            requests=None if endless else requests,
            concurrency=level.concurrency or 1,
            rate=level.rate,
            arrivals=options.arrivals,
            duration_s=options.duration_s,
            ramp_s=options.ramp_s,
            seed=self.spec.workload.seed,
            load_slice=load_slice,
            most_open=most_open,
        )
        return _Part(
            arm=arm,
            case=case,
            level=level,
            requests=requests,
            own=None if endless else len(own),
            skip=frozenset(measured) if endless else frozenset(measured & set(own)),
            plan=plan,
        )

    async def _load(self, part: _Part, prompts: Sequence[Prompt], portion: int) -> None:
        """Load one arm with its part of a portion and keep the records."""
        case, level, load_slice, variant = part.case.name, part.level, part.plan.load_slice, part.arm.client.variant
        measured = self.measured[variant, case][level.name]
        barrier = await self.clients.barrier(
            load_slice, variant=variant, case=case, level=level, already=len(part.skip), left=part.left
        )
        if barrier.arrival.late and part.left:
            self.progress.message(f"{barrier.block}: began without this client, and so its times will be doubtful")
        session = part.arm.client.session + barrier.arrival.late
        arm = replace(part.arm, client=replace(part.arm.client, load_slice=load_slice, session=session))

        def keep(record: RequestRecord) -> None:
            self.results.append(record)
            self.enough.add(record)
            if not record.warmup:
                measured.add(record.index)
            self.progress.record(record)

        if barrier.arrival.left or load_slice.clients > 1:
            asked = ArmLoad(
                case=part.case,
                level=level,
                workload=self.spec.workload,
                prompts=prompts,
                plan=part.plan,
                skip=part.skip,
                warm=(variant, case, level.name) in self._warm or not barrier.arrival.left,
                histories=self.talks.of(case),
                portion=portion,
            )
            async with Recorder(keep).running() as recorder:
                counters = await arm.load(asked, barrier=barrier, deliver=recorder.add)
            self._warm.add((variant, case, level.name))
            if barrier.arrival.left:
                block = variant, case, self.spec.round, level.name
                now = len(measured) if load_slice.clients == 1 else part.requests
                self.counters.add(block, counters, already=barrier.arrival.already, now=now)
