"""Loads one arm: sends the requests of one case and level."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from specdecode.benchmark.client import Client, Deliver, MakeRecord, PlannedRequest, request_body
from specdecode.benchmark.clients import Barrier
from specdecode.benchmark.counters import Counted, read_counters, since
from specdecode.benchmark.histories import Histories
from specdecode.benchmark.load import LoadPlan, run_load
from specdecode.benchmark.probe import ArmFacts
from specdecode.benchmark.prompts import Prompt
from specdecode.experiment.workload import Level, TestCase, Workload

ENDLESS = 2**31
"""Arrivals of a load that ends by time: more than any server answers."""


@dataclass(frozen=True, kw_only=True)
class ArmLoad:
    """Which requests of one case and level an arm gets from this client, and how they are sent."""

    case: TestCase
    level: Level
    workload: Workload
    prompts: Sequence[Prompt]
    """A prompt for each request of the largest level, then one for each warm-up request. Warm-up has prompts of its
    own, so that a server that caches prefixes does not know the measured ones."""
    plan: LoadPlan
    own: int | None
    """Requests of this client. None for a load that ends by time."""
    skip: Collection[int]
    """Indices of the requests that this client has measured before."""
    histories: Histories
    """Answers so far in the conversations of the case."""
    portion: int = 0
    """Number of this load among those of the case, level and round."""

    @property
    def left(self) -> int:
        """Requests that this client has to send; 1 for a load that ends by time."""
        return 1 if self.own is None else self.own - len(self.skip)

    @property
    def measured(self) -> Sequence[Prompt]:
        """The prompts without those of the warm-up."""
        return self.prompts[: len(self.prompts) - self.workload.warmup_requests]

    def arrivals(self) -> tuple[LoadPlan, Callable[[int], Sequence[int]], int]:
        """The plan by arrivals; arrival number -> indices of its requests; and the number of arrivals.

        A conversation is one arrival. Its turns are sent one after another, each when the turn before it has ended. So
        a rate of requests becomes a rate of conversations. A load that ends by time has none, and repeats the prompts.
        """
        plan = self.plan
        if plan.requests is None:
            return plan, lambda number: [number], ENDLESS
        every = _conversations(self.measured[: plan.requests])
        if plan.rate is not None:
            plan = replace(plan, rate=plan.rate * len(every) / sum(map(len, every)))
        own = plan.load_slice.of(every, concurrency=None if plan.rate is not None else plan.concurrency)
        left = [indices for each in own if (indices := [index for index in each if index not in self.skip])]
        return replace(plan, requests=len(left)), left.__getitem__, len(left)


@dataclass(frozen=True, kw_only=True)
class LoadedArm:
    """A client of an arm, and what the probe found of the arm's server."""

    client: Client
    facts: ArmFacts

    async def load(self, asked: ArmLoad, *, warm: bool, barrier: Barrier, deliver: Deliver) -> Counted:
        """Warm up unless the server is `warm`, then send the requests. Returns the engine's counters of those.

        If several clients share the level, client 0 warms up and reads the counters of all their requests. The other
        clients return None, as does an arm whose server has no counters.
        """
        plan, arrivals, requests = asked.arrivals()
        measured, model, dialect = asked.measured, self.facts.server.model, self.facts.dialect
        listens = asked.histories.variant == self.client.variant

        async def send(index: int, prompt: Prompt, scheduled: float | None, *, warmup: bool = False) -> None:
            planned = PlannedRequest(
                case=asked.case.name,
                level=asked.level.name,
                index=index,
                warmup=warmup,
                body=request_body(model=model, prompt=prompt, index=index, workload=asked.workload, dialect=dialect),
                prompt=prompt,
                timeout_s=asked.workload.timeout_s,
                portion=asked.portion,
            )
            due = None if scheduled is None else scheduled - self.client.origin
            await self.client.request(planned, listening if listens and prompt.row else deliver, due)

        def listening(make: MakeRecord) -> None:
            record = make()
            if record.index < len(measured):
                asked.histories.hear(record)
            deliver(lambda: record)

        async def send_warmup(index: int, scheduled: float | None) -> None:
            await send(index, asked.prompts[len(measured) + index], scheduled, warmup=True)

        async def send_conversation(number: int, scheduled: float | None) -> None:
            for index in arrivals(number):
                if (prompt := asked.histories.before(index % len(measured), measured)) is None:
                    return  # an answer never came, so no arm is asked the turns after it
                await send(index, prompt, scheduled)
                scheduled = None

        if not warm and barrier.leads:
            warmups = asked.workload.warmup_requests
            warmup = LoadPlan(requests=warmups, concurrency=min(plan.concurrency, max(warmups, 1)))
            await run_load(warmup, send_warmup, indices=iter(range(warmups)))
        has_some = self.facts.server.counters or self.facts.unusable
        before = await read_counters(self.client.endpoint) if has_some and barrier.leads else None
        async with barrier.together():
            await run_load(plan, send_conversation, indices=iter(range(requests)))
        after = await read_counters(self.client.endpoint) if isinstance(before, tuple) else None
        return since(before, after)


def _conversations(prompts: Sequence[Prompt]) -> list[list[int]]:
    """Indices of the requests by conversation, in order. A prompt without further turns is one of its own."""
    found: list[list[int]] = []
    for index, prompt in enumerate(prompts):
        if prompt.turn:
            found[-1].append(index)
        else:
            found.append([index])
    return found
