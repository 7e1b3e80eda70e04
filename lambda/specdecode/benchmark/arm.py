"""One arm under load: sends a case's requests and tells what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specdecode.benchmark.client import Client, Deliver, MakeRecord, PlannedRequest
from specdecode.benchmark.counters import SpeculationCounters, read_counters
from specdecode.benchmark.group import Barrier
from specdecode.benchmark.histories import Histories
from specdecode.benchmark.load import LoadPlan, run_load
from specdecode.benchmark.probe import ArmFacts
from specdecode.benchmark.prompts import Prompt
from specdecode.benchmark.request_body import request_body
from specdecode.experiment.level import Level
from specdecode.experiment.model import TestCase, Workload


@dataclass(frozen=True, kw_only=True)
class LoadedArm:
    """A client and what its server understands."""

    client: Client
    facts: ArmFacts

    async def load(
        self,
        *,
        case: TestCase,
        level: Level,
        prompts: list[Prompt],
        workload: Workload,
        plan: LoadPlan,
        skip: set[int],
        warm: bool,
        barrier: Barrier,
        deliver: Deliver,
        histories: Histories,
    ) -> SpeculationCounters | None:
        """Warm up if it is not `warm`, then send the requests whose index is not in `skip`; the engine's counters of
        the measured ones. Of several clients one warms up and reads the counters: of all their requests (`barrier`).

        `prompts` holds one for each request of the largest level and after them one for each warm-up request, so that
        no warm-up shows a server that caches prefixes what is measured after it. The turns of a conversation are sent
        one after another, each when the one before it has ended, and count as one arrival of the load.
        """
        requests = len(prompts) - workload.warmup_requests
        measured = prompts[:requests]
        endless = plan.requests is None
        hears = histories.variant == self.client.variant

        async def send(index: int, prompt: Prompt, scheduled: float | None, *, warmup: bool = False) -> None:
            planned = self._planned(case, level, prompt, workload, index, warmup=warmup)
            due = None if scheduled is None else self.client.clock.since_start(scheduled)
            await self.client.request(planned, listening if hears and prompt.row else deliver, due)

        def listening(make: MakeRecord) -> None:
            record = make()
            if record.index < requests:
                histories.hear(record)
            deliver(lambda: record)

        async def send_warmup(index: int, scheduled: float | None) -> None:
            await send(index, prompts[requests + index], scheduled, warmup=True)

        async def send_conversation(number: int, scheduled: float | None) -> None:
            for index in _cycled(arrivals, number, requests) if endless else arrivals[number]:
                if index in skip:
                    continue
                if (prompt := histories.before(index % requests, measured)) is None:
                    return  # no arm is asked what follows an answer that never came
                await send(index, prompt, scheduled)
                scheduled = None

        if not warm and barrier.leads:
            concurrency = min(plan.concurrency, max(workload.warmup_requests, 1))
            warmup = LoadPlan(requests=workload.warmup_requests, concurrency=concurrency)
            await run_load(warmup, send_warmup, indices=iter(range(workload.warmup_requests)))
        before = await read_counters(self.client.endpoint) if self.facts.metrics and barrier.leads else None
        arrivals = _arrivals(measured if plan.requests is None else measured[: plan.requests])
        if plan.rate is not None:
            plan = replace(plan, rate=plan.rate * len(arrivals) / sum(map(len, arrivals)))
        if endless:
            numbers = iter(range(2**31))
        else:
            arrivals = plan.share.of(arrivals, concurrency=None if plan.rate is not None else plan.concurrency)
            arrivals = [left for each in arrivals if (left := [index for index in each if index not in skip])]
            plan = replace(plan, requests=len(arrivals))
            numbers = iter(range(len(arrivals)))
        async with barrier.together():
            await run_load(plan, send_conversation, indices=numbers)
        after = await read_counters(self.client.endpoint) if before is not None else None
        return after.since(before) if before is not None and after is not None else None

    def _planned(
        self, case: TestCase, level: Level, prompt: Prompt, workload: Workload, index: int, *, warmup: bool
    ) -> PlannedRequest:
        body = request_body(
            model=self.facts.model, prompt=prompt, index=index, workload=workload, dialect=self.facts.dialect
        )
        return PlannedRequest(
            case=case.name,
            level=level.name,
            index=index,
            warmup=warmup,
            body=body,
            prompt=prompt.identity,
            input_tokens=prompt.input_tokens,
            output_tokens=body["max_tokens"],
            timeout_s=workload.timeout_s,
            prompt_set=prompt.set,
            prompt_id=prompt.id,
            turn=prompt.turn,
        )


def _arrivals(prompts: Sequence[Prompt]) -> list[list[int]]:
    """Indices of the requests by conversation, in order; a prompt of its own is a conversation of one turn."""
    found: list[list[int]] = []
    for index, prompt in enumerate(prompts):
        if prompt.turn:
            found[-1].append(index)
        else:
            found.append([index])
    return found


def _cycled(arrivals: Sequence[Sequence[int]], number: int, requests: int) -> list[int]:
    """The indices of arrival `number` of a load without an end, in which the prompts come again and again."""
    times, at = divmod(number, len(arrivals))
    return [times * requests + index for index in arrivals[at]]
