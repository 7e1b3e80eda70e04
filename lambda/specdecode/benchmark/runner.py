"""A whole benchmark: probe the arms, load them case by case, keep, upload and publish what was measured."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import time
from collections.abc import Mapping
from typing import Any

from specdecode.benchmark.accounting import accounting_of
from specdecode.benchmark.arm import Arm
from specdecode.benchmark.client import Client
from specdecode.benchmark.clock import Clock, LoopLag
from specdecode.benchmark.counters import SpeculationCounters
from specdecode.benchmark.delivery import Delivery
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.load import LoadPlan, most_open
from specdecode.benchmark.metrics import Block
from specdecode.benchmark.outcome import Options, Outcome
from specdecode.benchmark.probe import probe
from specdecode.benchmark.progress import Progress
from specdecode.benchmark.prompts import Prompt, prompts_of
from specdecode.benchmark.recorder import Recorder
from specdecode.benchmark.records import RequestRecord
from specdecode.benchmark.results import Results, measured_indices
from specdecode.benchmark.schedule import Step, steps
from specdecode.benchmark.summary import HELD_BACK_S, SCHEMA_VERSION, block_summary, formulas, merged
from specdecode.benchmark.tokens import token_counter
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.experiment.model import TestCase

SUM_UP_EVERY_S = 30.0
"""The summary holds all blocks: written after each of thousands, it would cost more than they do."""


class Benchmark:
    """One run of a specification against its endpoints."""

    def __init__(
        self, spec: BenchmarkSpec, endpoints: Mapping[str, Endpoint], options: Options, progress: Progress
    ) -> None:
        self._spec, self._endpoints, self._options, self._progress = spec, endpoints, options, progress
        self._results = Results(options.folder, run_id=spec.run_id)
        self._counter, not_exact = token_counter(spec.tokenizer)
        self._notes = [not_exact] if not_exact else []
        self._accounting = accounting_of(
            spec.accounting, retokenize=self._counter.count if self._counter.exact else None
        )
        self._delivery = Delivery(
            results=self._results,
            spec=spec,
            accounting=self._accounting,
            upload=options.upload,
            publish=options.publish,
        )
        self._problems: list[str] = []
        self._arms: dict[str, Arm] = {}
        self._measured: dict[tuple[str, str], set[int]] = {}
        self._clock = Clock()
        self._session = 0
        self._counters: dict[tuple[str, str], SpeculationCounters] = {}
        self._blocks: list[dict[str, Any]] = []
        self._loaded: set[tuple[str, str]] = set()
        self._started_at = time.time()
        self._summed_up_at = -math.inf

    async def run(self) -> Outcome:
        """Raises ArmNotReady, BadPrompts, BadResults; everything else that goes wrong is in the outcome."""
        workload = self._spec.workload
        prompts = {case.name: self._prompts(case) for case in workload.cases}
        self._problems += await asyncio.to_thread(self._delivery.fetch_earlier, self._raw_names())
        self._go_on()
        for note in self._notes:
            self._progress.message(note)
        loop_lag = LoopLag()
        watching = asyncio.create_task(loop_lag.watch())
        try:
            await self._probe_arms(prompts, loop_lag)
            names = [arm.variant for arm in self._spec.arms]
            cases = {case.name: case for case in workload.cases}
            for step in steps(arms=names, cases=list(cases), order=workload.load):
                await self._step(step, cases[step.case], prompts[step.case])
        except asyncio.CancelledError:
            self._delivery.sum_up(self._summary())
            self._delivery.rescue(self._raw_names())
            raise
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        self._delivery.sum_up(self._summary())
        self._problems += self._delivery.finish()
        return Outcome(
            summary=self._summary(),
            problems=tuple(self._problems),
            unpublished=tuple(dict.fromkeys(self._delivery.unpublished)),
        )

    def _note(self, text: str) -> None:
        self._notes.append(text)
        self._progress.message(text)

    def _prompts(self, case: TestCase) -> list[Prompt]:
        workload = self._spec.workload
        return prompts_of(case, workload, self._counter, count=workload.requests + workload.warmup_requests)

    def _raw_names(self) -> list[str]:
        return [f"raw/{arm.variant}/{case.name}.jsonl" for arm in self._spec.arms for case in self._spec.workload.cases]

    def _go_on(self) -> None:
        """Take up what was measured before: which requests, by how many processes, and when the first began."""
        begun = self._started_at
        for arm in self._spec.arms:
            for case in self._spec.workload.cases:
                earlier = self._results.load(arm.variant, case.name)
                self._measured[arm.variant, case.name] = measured_indices(earlier, self._spec.round)
                for record in earlier:
                    self._session = max(self._session, record.session + 1)
                    begun = min(begun, record.started_at - record.sent_s)
        self._clock = Clock(already_s=self._started_at - begun)

    async def _probe_arms(self, prompts: Mapping[str, list[Prompt]], loop_lag: LoopLag) -> None:
        """All arms before the first is loaded: an arm that does not answer must not cost the others' time."""
        for arm in self._spec.arms:
            client = Client(
                endpoint=self._endpoints[arm.variant],
                run_id=self._spec.run_id,
                variant=arm.variant,
                round=self._spec.round,
                session=self._session,
                clock=self._clock,
                loop_lag=loop_lag,
            )
            prompt = next(iter(prompts.values()))[-1]
            facts = await probe(
                client, model=arm.model or self._spec.model or None, prompt=prompt, workload=self._spec.workload
            )
            self._arms[arm.variant] = Arm(
                client=client,
                facts=facts,
                label=arm.label,
                speculative_tokens=arm.num_speculative_tokens,
            )
            self._progress.message(f"{arm.variant} {facts.told(client.endpoint.url)}")
        served = {name: arm.facts.model for name, arm in self._arms.items()}
        if len(set(served.values())) > 1 and not any(arm.model for arm in self._spec.arms):
            shown = ", ".join(f"{name}: {model}" for name, model in served.items())
            self._note(
                f"The arms serve different models ({shown}): a speed-up between them is not speculation's alone."
            )

    async def _step(self, step: Step, case: TestCase, prompts: list[Prompt]) -> None:
        gc.collect()
        gc.freeze()
        async with asyncio.TaskGroup() as group:
            for name in step.arms:
                group.create_task(self._load(self._arms[name], case, prompts, most_open(len(step.arms))))
        for name in step.arms:
            await self._deliver(self._arms[name], case)

    async def _load(self, arm: Arm, case: TestCase, prompts: list[Prompt], most_open: int) -> None:
        workload, options = self._spec.workload, self._options
        variant = arm.client.variant
        skip = self._measured[variant, case.name]
        requests = None if options.duration_s else workload.requests
        plan = LoadPlan(
            requests=requests,
            concurrency=workload.concurrency,
            rate=workload.rate,
            arrivals=options.arrivals,
            duration_s=options.duration_s,
            ramp_s=options.ramp_s,
            seed=workload.seed,
            most_open=most_open,
        )

        def keep(record: RequestRecord) -> None:
            self._results.append(record)
            self._progress.record(record)

        self._progress.begin(variant, case.name, requests=requests, measured=len(skip))
        if requests is None or len(skip) < requests:
            self._loaded.add((variant, case.name))
            async with Recorder(keep).running() as recorder:
                counters = await arm.load(
                    case=case, prompts=prompts, workload=workload, plan=plan, skip=skip, deliver=recorder.add
                )
            if counters is not None and not skip:
                self._counters[variant, case.name] = counters
        self._progress.end(variant, case.name)

    async def _deliver(self, arm: Arm, case: TestCase) -> None:
        variant = arm.client.variant
        counters = self._counters.get((variant, case.name))
        records = [
            record
            for record in self._results.load(variant, case.name)
            if record.round == self._spec.round and not record.warmup
        ]
        contradiction = _contradiction(counters, records)
        trusted = counters is not None and contradiction is None and self._spec.trusted_counters
        block = Block(
            records=records,
            slo=self._options.slo,
            drafted_tokens=counters.draft_tokens if counters and trusted else None,
            accepted_tokens=counters.accepted_tokens if counters and trusted else None,
            speculative_tokens=arm.speculative_tokens,
        )
        summary = {"variant": variant, "case": case.name, "round": self._spec.round, **block_summary(block)}
        if counters is not None:
            summary["counters"] = {
                "drafts": counters.drafts,
                "draft_tokens": counters.draft_tokens,
                "accepted_tokens": counters.accepted_tokens,
                "accepted_per_position": list(counters.accepted_per_position),
                "trusted": trusted,
                "contradiction": contradiction,
            }
        self._blocks.append(summary)
        if summary["client"]["doubtful"]:
            doubt_ms = summary["client"]["largest_time_doubt_s"] * 1000
            self._progress.message(
                f"{variant}/{case.name}: this client fell behind; times may be wrong by up to {doubt_ms:.1f} ms"
            )
        if summary["client"]["largest_send_delay_s"] > HELD_BACK_S:
            delay_s = summary["client"]["largest_send_delay_s"]
            self._progress.message(
                f"{variant}/{case.name}: requests waited up to {delay_s:.1f} s to be sent, as too many were under way; "
                "the wait is in their times (a larger `ulimit -n` allows more)"
            )
        if time.monotonic() - self._summed_up_at > SUM_UP_EVERY_S:
            self._delivery.sum_up(self._summary())
            self._summed_up_at = time.monotonic()
        is_known = (variant, case.name) not in self._loaded
        problems = await asyncio.to_thread(
            self._delivery.block, block, variant, arm.label, case, arm.facts.model, is_known=is_known
        )
        for problem in problems:
            self._progress.message(problem)
        self._problems += problems

    def _summary(self) -> dict[str, Any]:
        spec = self._spec
        summary = {
            "schema_version": SCHEMA_VERSION,
            "run_id": spec.run_id,
            "experiment": spec.experiment,
            "started_at": self._started_at,
            "load": str(spec.workload.load),
            "accounting": {"mode": self._accounting.mode, "description": self._accounting.description},
            "prompt_tokens": self._counter.description,
            "formulas": formulas(),
            "arms": {
                name: {"url": arm.client.endpoint.url, "label": arm.label, **arm.facts.as_dict()}
                for name, arm in self._arms.items()
            },
            "blocks": self._blocks,
            "notes": self._notes,
            "problems": self._problems,
        }
        return merged(summary, self._delivery.earlier_summary)


def _contradiction(counters: SpeculationCounters | None, records: list[RequestRecord]) -> str | None:
    if counters is None:
        return None
    tokens = [record.completion_tokens for record in records]
    known = None if None in tokens else sum(token or 0 for token in tokens)
    return counters.contradiction(output_tokens=known, requests=len(records))
