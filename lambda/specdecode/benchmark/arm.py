"""One arm under load: sends a case's requests and tells what came of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from specdecode.benchmark.client import Client, Deliver, PlannedRequest
from specdecode.benchmark.counters import SpeculationCounters, read_counters
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
        deliver: Deliver,
    ) -> SpeculationCounters | None:
        """Warm up, then send the requests whose index is not in `skip`; the engine's counters of the measured ones.

        `prompts` holds one for each request of the largest level and after them one for each warm-up request, so that
        no warm-up shows a server that caches prefixes what is measured after it.
        """
        requests = len(prompts) - workload.warmup_requests

        async def send(index: int, scheduled: float | None, *, warmup: bool = False) -> None:
            prompt = prompts[requests + index] if warmup else prompts[index % requests]
            planned = self._planned(case, level, prompt, workload, index, warmup=warmup)
            clock = self.client.clock
            await self.client.request(planned, deliver, None if scheduled is None else clock.since_start(scheduled))

        async def send_warmup(index: int, scheduled: float | None) -> None:
            await send(index, scheduled, warmup=True)

        concurrency = min(plan.concurrency, max(workload.warmup_requests, 1))
        warmup = LoadPlan(requests=workload.warmup_requests, concurrency=concurrency)
        await run_load(warmup, send_warmup, indices=iter(range(workload.warmup_requests)))
        before = await read_counters(self.client.endpoint) if self.facts.metrics else None
        if plan.requests is None:
            indices = (index for index in range(2**31) if index not in skip)
        else:
            indices = (index for index in range(plan.requests) if index not in skip)
            plan = replace(plan, requests=plan.requests - len(skip))
        await run_load(plan, send, indices=indices)
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
        )
