"""Runs at several loads against a server whose step time is a known function of the number of running sequences."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

from specdecode.analysis import Comparison, compare
from specdecode.experiment.model import Experiment
from specdecode.experiment.workload import MOST_AT_A_TIME, Level, Slo
from specdecode.records import Chunk, RequestRecord

from tests.specdecode.analysis.simulate import context, experiment

TOKENS = 64


@dataclass(frozen=True, kw_only=True)
class Server:
    """An engine with continuous batching: a step takes `base_s + per_sequence_s * running` seconds."""

    base_s: float = 0.020
    per_sequence_s: float = 0.0002
    k: int = 0
    acceptance: float = 0.0
    """Chance that a draft token is accepted, given that those before it were."""

    def slower(self, factor: float) -> Server:
        """The same with steps that take `factor` times as long."""
        return replace(self, base_s=self.base_s * factor, per_sequence_s=self.per_sequence_s * factor)

    def step_s(self, running: float) -> float:
        return self.base_s + self.per_sequence_s * running

    def yields(self, rng: random.Random) -> int:
        accepted = 0
        while accepted < self.k and rng.random() < self.acceptance:
            accepted += 1
        return 1 + accepted

    def steps(self, rng: random.Random, tokens: int = TOKENS) -> int:
        """Steps of an answer; the first yields one token."""
        made, count = 1, 1
        while made < tokens:
            made, count = made + self.yields(rng), count + 1
        return count

    def mean_steps(self) -> float:
        rng = random.Random(0)
        return sum(self.steps(rng) for _ in range(10_000)) / 10_000

    @cache  # noqa: B019 - of a few servers
    def log_steps(self) -> float:
        """Mean logarithm of the number of steps of an answer."""
        if not self.k:
            return math.log(TOKENS)
        rng = random.Random(0)
        return sum(math.log(self.steps(rng)) for _ in range(40_000)) / 40_000


def true_gain(base: Server, other: Server, running: float) -> float:
    """The speed-up on whole requests with so many sequences running."""
    return math.exp(base.log_steps() - other.log_steps()) * base.step_s(running) / other.step_s(running)


def true_crossover(base: Server, other: Server) -> float:
    """The number of running sequences at which both arms take the same time for a token."""
    ratio = math.exp(other.log_steps() - base.log_steps())
    return (base.base_s - ratio * other.base_s) / (ratio * other.per_sequence_s - base.per_sequence_s)


def loads(
    levels: tuple[float, ...],
    *,
    requests: int = 16,
    ks: tuple[int, ...] = (5,),
    slo: Slo | None = None,
    batch: int = 64,
    open_loop: bool = False,
    cases: int = 1,
    rounds: int = 1,
) -> Experiment:
    """Two arms or more at several loads; `open_loop`: the levels are requests a second; `cases`: types of prompts."""
    found = experiment(ks=ks, requests=requests, cases=experiment().workload.cases[-cases:])
    workload = found.workload.model_copy(
        update={
            "rate" if open_loop else "concurrency": levels,
            "output_tokens": TOKENS,
            "slo": slo or Slo(),
            "rounds": rounds,
        }
    )
    serving = found.serving.model_copy(update={"max_num_seqs": batch})
    return found.model_copy(update={"workload": workload, "serving": serving})


def run(
    tested: Experiment,
    servers: Mapping[str, Server],
    *,
    seed: int,
    noise: float = 0.05,
    shared: float = 0.0,
    queues: bool = False,
) -> Iterator[RequestRecord]:
    """All records of an experiment. `noise`: spread of a step's time; `shared`: of all steps of an arm at a level in a
    round together; `queues`: beyond `max_num_seqs` requests wait.
    """
    batch = tested.serving.max_num_seqs if queues else MOST_AT_A_TIME
    rng = random.Random(seed)
    clock = 0.0
    for number, case in product(range(tested.rounds), tested.workload.cases):
        for level in tested.workload.levels:
            for name, server in servers.items():
                requests = tested.workload.requests_of(case, level)
                own = server.slower(rng.lognormvariate(0.0, shared) if shared else 1.0)
                records, clock = _level(own, name, case.name, level, requests, rng, clock, noise, batch)
                yield from (record.model_copy(update={"round": number}) if number else record for record in records)


def compared(
    tested: Experiment,
    servers: Mapping[str, Server],
    *,
    seed: int = 1,
    change: Callable[[RequestRecord], RequestRecord] = lambda record: record,
    **how: Any,
) -> Comparison:
    """What comes of a run whose records are changed."""
    records = [change(record) for record in run(tested, servers, seed=seed, **how)]
    return compare(experiment=tested, records=records, context=context())


def at_loads(levels: tuple[float, ...] = (1, 2, 4, 8, 16, 32), *, open_loop: bool = False, seed: int = 3) -> Comparison:
    """A run whose crossover is at 9 requests, with an objective; at a time more than 16 queue."""
    slo = Slo(ttft_s=0.2, tpot_s=0.021, share=0.7)
    tested = loads(levels, slo=slo, batch=16, open_loop=open_loop)
    arm = Server(base_s=0.026, per_sequence_s=0.0022, k=5, acceptance=0.55)
    return compared(tested, {"base": Server(), "sd": arm}, seed=seed, queues=True)


def _level(
    server: Server,
    name: str,
    case: str,
    level: Level,
    requests: int,
    rng: random.Random,
    clock: float,
    noise: float,
    batch: int,
) -> tuple[list[RequestRecord], float]:
    """Closed loop: a request is sent when another ends. Open loop: Poisson arrivals, whatever is under way."""
    due = list(_due(level, requests, rng, clock))
    running: dict[int, tuple[float, list[tuple[float, int]], int]] = {}
    waiting: dict[int, float] = {}
    done: list[RequestRecord] = []
    while due or running:
        if not running:
            clock = max(clock, due[0])
        while due and due[0] <= clock and len(running) + len(waiting) < (level.concurrency or requests):
            waiting[requests - len(due)] = max(due.pop(0), clock if level.concurrency else 0.0)
        while waiting and len(running) < batch:
            index = next(iter(waiting))
            running[index] = (waiting.pop(index), [], 0)
        clock += server.step_s(len(running)) * rng.lognormvariate(0.0, noise)
        for index, (sent, steps, made) in list(running.items()):
            size = 1 if not steps else min(server.yields(rng), TOKENS - made)
            steps.append((clock - sent, size))
            running[index] = (sent, steps, made + size)
            if made + size >= TOKENS:
                del running[index]
                done.append(_record(name, case, level.name, index, sent, steps))
    return done, clock


def _due(level: Level, requests: int, rng: random.Random, clock: float) -> Iterator[float]:
    for _ in range(requests):
        clock += rng.expovariate(level.rate) if level.rate else 0.0
        yield clock


def _record(name: str, case: str, level: str, index: int, sent: float, steps: list[tuple[float, int]]) -> RequestRecord:
    return RequestRecord.model_construct(
        run_id="run-1", variant=name, case=case, level=level, index=index, started_at=1_790_000_000.0 + sent,
        sent_s=sent, end_s=steps[-1][0],
        chunks=tuple(Chunk(at_s=at, chars=4 * size, tokens=size) for at, size in steps), requested_input_tokens=64,
        requested_output_tokens=TOKENS, prompt_tokens=64, completion_tokens=TOKENS, prompt_sha256=f"{index:064x}",
        output="text" * TOKENS, finish_reason="length", error=None,
    )  # fmt: skip
