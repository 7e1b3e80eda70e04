"""A whole benchmark, to its exit code: probe the arms, load them case by case, keep and upload the records. It computes
no figure.
"""

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from specdecode.benchmark.arm import LoadedArm
from specdecode.benchmark.client import Client, LoopLag
from specdecode.benchmark.clients import ALL, Clients, NotTogether
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.enough import earlier
from specdecode.benchmark.histories import Conversations, file_of, talking
from specdecode.benchmark.load import latest_s
from specdecode.benchmark.loading import LoadBlock, Loading, Options, blocks
from specdecode.benchmark.place import Delivery, PlaceError
from specdecode.benchmark.probe import ArmFacts, ArmNotReady, probe
from specdecode.benchmark.progress import LoadProgress, progress_for
from specdecode.benchmark.prompts import BadPrompts, Prompt, longest, prompts_of, sets_of
from specdecode.benchmark.results import BadResults, Results
from specdecode.benchmark.resumed import resumed
from specdecode.benchmark.tokens import token_counter
from specdecode.escape import counted
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.experiment.workload import Level, Load, TestCase
from specdecode.measures.plausibility import doubts, smaller_load
from specdecode.records import Servers, SetFacts, raw_file

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT = 0, 1, 2
DELIVER_EVERY_S = 60.0
"""Seconds after which the records of a long block are stored before its end: what a lost pod loses."""


class SentCounts(NamedTuple):
    """Requests of one arm, case and level."""

    started: int
    failed: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a benchmark. It has no figures: `specdecode.measures` computes them from the records."""

    servers: Servers
    sent: Mapping[tuple[str, str, str], SentCounts]
    """By variant, case and level."""
    problems: tuple[str, ...]
    """Problems other than failed requests: results that could not be stored."""


class Benchmark:
    """One run of a specification against its endpoints."""

    _loading: Loading
    """Set by `run`."""

    def __init__(
        self, spec: BenchmarkSpec, endpoints: Mapping[str, Endpoint], options: Options, progress: LoadProgress
    ) -> None:
        self._spec, self._endpoints, self._options, self._progress = spec, endpoints, options, progress
        self._group = Clients(spec=spec, meeting=options.meeting)
        self._results = Results(options.folder, run_id=spec.run_id, client=self._group.client)
        self._counter, self._not_exact = token_counter(spec.tokenizer)
        self._notes: list[str] = []
        self._delivery = Delivery(results=self._results, upload=options.upload, leads=self._group.client == 0)
        self._problems: list[str] = []
        self._arms: dict[str, LoadedArm] = {}
        self._sent: dict[tuple[str, str, str], SentCounts] = {}
        self._started_at = time.time()
        self._sets: tuple[SetFacts, ...] = ()

    async def run(self) -> Outcome:
        """Raises ArmNotReady, BadPrompts, BadResults, NotTogether, PlaceError. The outcome has all other problems."""
        workload = self._spec.workload
        prompts = {
            case.name: prompts_of(
                case,
                workload,
                self._counter,
                count=max(workload.requests_of(case, level) for level in workload.levels),
                warmups=workload.warmup_requests,
                whole=self._spec.duration_s is not None,
            )
            for case in workload.cases
        }
        self._sets = sets_of(workload)
        measured = {name: asked[: len(asked) - workload.warmup_requests] for name, asked in prompts.items()}
        if self._spec.duration_s and (found := talking(measured)):
            raise BadPrompts(
                f"case {found[0]}: the set has conversations, and within a time the faster arm would come to turns "
                "whose earlier answers are not there; give --requests in place of --duration"
            )
        others = [self._raw_names(client) for client in range(self._spec.most_clients)]
        names = [*(name for each in others for name in each), *map(file_of, talking(measured))]
        self._problems += await asyncio.to_thread(self._delivery.fetch_earlier, names)
        enough, session, began = earlier(self._results, self._spec)
        already_s = max(0.0, self._started_at - began) if began else 0.0
        session, origin = await self._group.begin(session=session, already_s=already_s)
        self._loading = Loading(
            spec=self._spec,
            options=self._options,
            clients=self._group,
            results=self._results,
            enough=enough,
            talks=Conversations(self._spec, self._results, measured),
            progress=self._progress,
        )
        if self._not_exact:
            self._progress.message(self._not_exact)
        self._note(*self._group.told(), *enough.told())
        loop_lag = LoopLag()
        watching = asyncio.create_task(loop_lag.watch())
        try:
            await self._probe_arms(prompts, session=session, origin=origin, loop_lag=loop_lag)
            self._delivery.keep(self._servers())  # a later process must know what was measured
            await self._load_all(prompts)
            self._note(*self._loading.talks.unasked())
        except BaseException:
            with contextlib.suppress(OSError):  # of a full disk: what ended the load is told
                self._delivery.keep(self._servers())
            self._delivery.finish(self._raw_names(self._group.client))
            raise
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        self._delivery.keep(self._servers())
        self._problems += self._delivery.finish()
        return Outcome(servers=self._servers(), sent=self._sent, problems=tuple(self._problems))

    async def _load_all(self, prompts: Mapping[str, list[Prompt]]) -> None:
        """Load all blocks in their order."""
        order = list(blocks(self._spec, self._loading.talks.unfinished))
        began, count = time.monotonic(), len(order)
        left = takes_s(
            self._spec,
            [arm.facts for arm in self._arms.values()],
            ramp_s=self._options.ramp_s,
            portions=lambda case, level: len(list(self._portions(case, level, prompts[case.name]))),
        )
        more = "" if self._options.meeting else " (--requests, --output-tokens and --case set how long)"
        self._progress.message(f"{counted(count, 'cell')}, about {in_time(left)} at the pace of one request{more}")
        for number, block in enumerate(order):
            if number:
                left = (time.monotonic() - began) / number * (count - number)
            cell = f"cell {number + 1} of {count}: {block.case.name}, {block.level}"
            self._progress.message(f"{cell}; about {in_time(left)} left")
            await self._block(block, prompts[block.case.name])

    def _portions(self, case: TestCase, level: Level, prompts: Sequence[Prompt]) -> Iterator[int]:
        """Number of requests that each arm has been sent after each portion."""
        alternate = self._spec.workload.load is Load.INTERLEAVED and len(self._arms) > 1 and not self._spec.duration_s
        turns = 1 + max(prompt.turn for prompt in prompts)
        return self._loading.enough.portions(case, level, alternate=alternate, turns=turns)

    def _note(self, *texts: str) -> None:
        self._notes += texts
        for text in texts:
            self._progress.message(text)

    def _raw_names(self, client: int) -> list[str]:
        cases = self._spec.workload.cases
        return [raw_file(arm.variant, case.name, client) for arm in self._spec.arms for case in cases]

    async def _probe_arms(
        self, prompts: Mapping[str, list[Prompt]], *, session: int, origin: float, loop_lag: LoopLag
    ) -> None:
        """Probe all arms before the first is loaded: an arm that does not answer must not cost the others' time."""
        for arm in self._spec.arms:
            client = Client(
                endpoint=self._endpoints[arm.variant],
                run_id=self._spec.run_id,
                variant=arm.variant,
                round=self._spec.round,
                session=session,
                origin=origin,
                loop_lag=loop_lag,
            )
            model = arm.model or self._spec.model or None
            facts = await probe(client, model=model, prompt=longest(prompts.values()), workload=self._spec.workload)
            before = self._delivery.earlier.arms.get(arm.variant) if self._delivery.earlier else None
            told = resumed(arm.variant, before, facts.server, self._loading.enough, same_urls=self._options.same_urls)
            self._note(*told)
            self._arms[arm.variant] = LoadedArm(client=client, facts=facts)
            self._progress.message(f"{arm.variant} {facts.told}")
        served = {name: loaded.facts.server.model for name, loaded in self._arms.items()}
        if not any(arm.model for arm in self._spec.arms) and len(set(served.values())) > 1:
            shown = ", ".join(f"{name}: {model}" for name, model in served.items())
            self._note(
                f"The arms serve different models ({shown}): a speed-up between them is not speculation's alone."
            )

    async def _block(self, block: LoadBlock, prompts: list[Prompt]) -> None:
        """Load the arms alternately: A B B A A B B A …, so that what the machine does meanwhile weighs on all alike."""
        case, level = block.case, block.level
        if self._group.load_slice(level) is None:
            return
        gc.collect()
        gc.freeze()
        arms = [self._arms[name] for together in block.order for name in together]
        for arm in arms:
            self._loading.begin(arm, case, level)
        delivered = time.monotonic()
        for portion, requests in enumerate(self._portions(case, level, prompts)):
            for together in block.order if portion % 2 == 0 or block.led else reversed(block.order):
                at_once = [self._arms[name] for name in together]
                await self._loading.load(at_once, case, level, prompts, portion=portion, requests=requests)
            if time.monotonic() - delivered > DELIVER_EVERY_S:
                await self._deliver(arms, case)
                delivered = time.monotonic()
        for arm in arms:
            self._progress.end(arm.client.variant, case.name)
            self._count(arm, case, level)
        await self._deliver(arms, case)

    def _count(self, arm: LoadedArm, case: TestCase, level: Level) -> None:
        """Count the requests of a block that has ended, and tell the user if its times are doubtful."""
        variant = arm.client.variant
        records = [
            record
            for record in self._results.load(variant, case.name)
            if record.round == self._spec.round and record.level in ("", level.name) and not record.warmup
        ]
        failed = sum(record.error is not None for record in records)
        self._sent[variant, case.name, level.name] = SentCounts(started=len(records), failed=failed)
        streams = (self._group.load_slice(level) or ALL).streams(level.concurrency or 1)
        self._note(*(f"{variant} / {case.name} at {level}: {less}." for less in smaller_load(records, streams)))
        for doubt in doubts(records):
            self._progress.message(f"{variant}/{case.name}: {doubt}")

    async def _deliver(self, arms: Sequence[LoadedArm], case: TestCase) -> None:
        """Store what the arms have answered so far."""
        self._delivery.keep(self._servers())
        for variant in [arm.client.variant for arm in arms]:
            if kept := self._loading.talks.to_keep(case.name, variant):
                self._delivery.keep_file(*kept)
            problems = await asyncio.to_thread(self._delivery.block, variant, case.name)
            for problem in problems:
                self._progress.message(problem)
            self._problems += problems

    def _servers(self) -> Servers:
        return Servers(
            run_id=self._spec.run_id,
            prompt_tokens=self._not_exact or self._counter.description,
            arms={name: arm.facts.server for name, arm in self._arms.items()},
            counters=self._loading.counters.whole(trusted=self._spec.trusted_counters),
            sets=self._sets,
            notes=(*self._notes, *self._loading.counters.unused()),
        ).with_earlier(self._delivery.earlier, measured=self._loading.counters.blocks)


def takes_s(
    spec: BenchmarkSpec,
    arms: Sequence[ArmFacts],
    *,
    ramp_s: float = 0.0,
    portions: Callable[[TestCase, Level], int] = lambda case, level: 1,
) -> float:
    """Seconds that the load takes if every answer is as long as it may be, at the pace of the probes. `portions`: how
    often the load of an arm begins, each time with the ramp.
    """
    workload, found = spec.workload, 0.0
    for case in workload.cases:
        for level in workload.levels:
            count = workload.requests_of(case, level)
            ramps_s = ramp_s and ramp_s * portions(case, level)
            whole = []
            for arm in arms:
                each = arm.first_s + arm.token_s * workload.output_tokens_of(case)
                if level.rate:
                    load = latest_s(count, level.rate, ramp_s) + each
                else:
                    load = count / (level.concurrency or 1) * each + ramps_s
                whole.append(workload.warmup_requests * each + (spec.duration_s or load))
            found += max(whole) if workload.load is Load.SIMULTANEOUS else sum(whole)
    return found


def in_time(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def launch(
    spec: BenchmarkSpec, endpoints: Mapping[str, Endpoint], options: Options, *, max_error_rate: float
) -> tuple[int, Outcome | str]:
    """Exit code (0 all measured, 1 an arm or too many requests failed, 2 bad input); outcome, or why there is none.

    SIGINT and SIGTERM stop the load. Everything that was measured is kept either way.
    """
    with progress_for() as progress:
        try:
            outcome = asyncio.run(_until_signal(Benchmark(spec, endpoints, options, progress)))
        except asyncio.CancelledError:
            stopped = f"stopped; {progress.cancelled} cancelled; what was measured is in {options.folder}"
            progress.message(stopped)
            return EXIT_FAILED, stopped
        except Exception as error:
            cause = error
            while isinstance(cause, ExceptionGroup):  # of the tasks of a load
                cause = cause.exceptions[0]
            if not isinstance(cause, BadPrompts | BadResults | ArmNotReady | NotTogether | PlaceError | OSError):
                raise
            progress.message(f"error: {cause}")
            return EXIT_BAD_INPUT if isinstance(cause, BadPrompts | BadResults) else EXIT_FAILED, str(cause)
        failures = [*failed_beyond(outcome, max_error_rate), *outcome.problems]
        for failure in failures:
            progress.message(f"error: {failure}")
        return (EXIT_FAILED if failures else EXIT_OK), outcome


async def _until_signal(benchmark: Benchmark) -> Outcome:
    running = asyncio.ensure_future(benchmark.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    return await running


def failed_beyond(outcome: Outcome, max_error_rate: float) -> list[str]:
    """The blocks in which more than `max_error_rate` of the requests failed, or all of them."""
    return [
        f"{variant}/{case}/{level}: "
        + (f"{sent.failed / sent.started:.0%} of the requests failed" if sent.started else "no request was sent")
        for (variant, case, level), sent in outcome.sent.items()
        if sent.failed > max_error_rate * sent.started or sent.failed == sent.started
    ]
