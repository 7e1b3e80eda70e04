"""Simulated runs: records as the benchmark writes them, from a known truth."""

import hashlib
import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specdecode.analysis import RunContext, compare
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.pairs import CaseResult
from specdecode.experiment.model import Experiment, ServedExperiment
from specdecode.experiment.step import most_tokens
from specdecode.experiment.variants import ModelRef, ServedVariant, Serving, Speculation
from specdecode.experiment.workload import PromptKind, TestCase, Workload
from specdecode.records import Chunk, EngineCounters, ErrorKind, RequestError, RequestRecord

WORDS = ("the sun rose over a quiet hill and every stone on it threw a long blue shadow toward the sea").split()  # noqa: SIM905 - prose reads better


def experiment(
    *,
    ks: tuple[int, ...] = (7,),
    requests: int = 8,
    rounds: int = 1,
    cases: tuple[TestCase, ...] | None = None,
    devices: int = 8,
    engine: str = "rehearsal-cpu",
) -> Experiment:
    """A base arm and one speculative arm for each k."""
    draft = ModelRef(id="Qwen/Qwen3-1.7B", size_gib=3.4)
    speculative = [
        ServedVariant(
            name="sd" if len(ks) == 1 else f"sd-k{k}",
            label="SD" if len(ks) == 1 else f"SD k={k}",
            compare_to="base",
            speculation=Speculation(draft=draft, num_speculative_tokens=k),
        )
        for k in ks
    ]
    return ServedExperiment(
        name="simulated",
        title="Qwen3-32B with a Qwen3-1.7B draft",
        engine=engine,
        target=ModelRef(id="Qwen/Qwen3-32B", size_gib=65.0),
        serving=Serving(tensor_parallel_size=32, devices=devices, max_num_seqs=4, max_model_len=1024),
        variants=(ServedVariant(name="base", label="Base"), *speculative),
        workload=Workload(
            cases=cases
            or (
                TestCase(name="repeat", label="repeat", kind=PromptKind.LINE, text="a", structured=True),
                TestCase(name="sonnet", label="__SHAKESPEARE__", kind=PromptKind.SONNET, structured=False),
            ),
            input_tokens=64,
            output_tokens=200,
            requests=requests,
            concurrency=4,
            rounds=rounds,
        ),
    )


def context(**overrides: object) -> RunContext:
    values: dict[str, object] = {
        "run_id": "run-1",
        "started_at": datetime(2026, 11, 21, 12, 0, tzinfo=UTC),
        "finished_at": datetime(2026, 11, 21, 13, 0, tzinfo=UTC),
        "price_per_node_hour": 36.0,
        "node_seconds": 3600.0,
        "capacity_type": "on-demand",
    }
    return RunContext.model_validate(values | overrides)


def text(rng: random.Random, tokens: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(tokens))


def request(
    *,
    variant: str,
    case: str,
    index: int,
    rng: random.Random,
    round: int = 0,
    sent_s: float = 0.0,
    tokens: int = 200,
    k: int = 0,
    acceptance: float = 0.0,
    step_s: float = 0.020,
    ttft_s: float = 0.150,
    noise: float = 0.02,
    slow: float = 1.0,
    output: str | None = None,
    failed: bool = False,
) -> RequestRecord:
    """One request: each engine step yields 1 + (accepted of k verified drafts); `slow` multiplies all times."""
    prompt = f"{case}-{index}"
    output = output if output is not None else text(random.Random(prompt), tokens)
    factor = slow * rng.lognormvariate(0.0, noise)
    at, made = ttft_s * factor, 1
    chunks = [Chunk(at_s=at, chars=4, tokens=1)]
    while made < tokens:
        accepted = 0
        while accepted < k and rng.random() < acceptance:
            accepted += 1
        size = min(1 + accepted, tokens - made)
        made += size
        at += step_s * factor
        chunks.append(Chunk(at_s=at, chars=4 * size, tokens=size))
    if failed:
        chunks = chunks[: len(chunks) // 2]
    return RequestRecord(
        run_id="run-1", variant=variant, case=case, round=round, index=index, started_at=1_790_000_000.0 + sent_s,
        sent_s=sent_s, end_s=chunks[-1].at_s, chunks=tuple(chunks), requested_input_tokens=64,
        requested_output_tokens=tokens, prompt_tokens=64, completion_tokens=None if failed else tokens,
        prompt_sha256=hashlib.sha256(prompt.encode()).hexdigest(), output=output,
        finish_reason=None if failed else "length",
        error=RequestError(kind=ErrorKind.RESET, message="connection reset by peer") if failed else None,
    )  # fmt: skip


def run(
    tested: Experiment,
    *,
    seed: int = 1,
    acceptance: dict[str, float] | None = None,
    draft_cost: float = 0.12,
    overhead: float = 0.10,
    noise: float = 0.02,
    slow: dict[tuple[str, int], float] | None = None,
) -> Iterator[RequestRecord]:
    """All records of an experiment: a, per case, with c and v as given; `slow`: (variant, round) -> factor."""
    acceptance = acceptance or {"repeat": 0.92, "sonnet": 0.45}
    rng = random.Random(seed)
    clock = 0.0
    for round_number in range(tested.rounds):
        for case in tested.workload.cases:
            for variant in tested.variants:
                k = variant.k or 0
                step_s = 0.020 * (1.0 + (k * draft_cost + overhead if k else 0.0))
                factor = (slow or {}).get((variant.name, round_number), 1.0)
                for index in range(tested.workload.requests.max):
                    record = request(
                        variant=variant.name, case=case.name, index=index, rng=rng, round=round_number, sent_s=clock,
                        k=most_tokens(tested, variant).verified(k), acceptance=acceptance.get(case.name, 0.5),
                        step_s=step_s, noise=noise, slow=factor, tokens=tested.workload.output_tokens,
                    )  # fmt: skip
                    clock += record.end_s
                    yield record


COUNTERS = EngineCounters(
    variant="sd", case="repeat", drafts=320, draft_tokens=2240, accepted_tokens=1280,
    accepted_per_position=(300, 280, 260, 200, 140, 100, 0),
)  # fmt: skip


def case(comparison: Comparison, name: str, variant: str = "sd") -> CaseResult:
    pair = next(pair for pair in comparison.pairs if pair.variant == variant)
    return next(result for result in pair.cases if result.case == name)


def simulated(
    records: Iterable[RequestRecord] | None = None,
    *,
    tested: Experiment | None = None,
    around: RunContext | None = None,
    **truth: Any,
) -> Comparison:
    """The comparison of `records`, else of a run with such a truth."""
    tested = tested or experiment()
    found = run(tested, **truth) if records is None else records
    return compare(experiment=tested, records=list(found), context=around or context())


def write_raw(folder: Path, records: Iterable[RequestRecord]) -> None:
    """The raw files of a run's folder."""
    for record in records:
        path = folder / "raw" / record.variant / f"{record.case}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as out:
            out.write(record.model_dump_json() + "\n")


def of_types(count: int) -> Comparison:
    """A comparison over so many prompt types, half of them structured."""
    cases = tuple(
        TestCase(name=f"type-{n}", label=f"type {n}", kind=PromptKind.LINE, text=f"{n}", structured=n % 2 == 0)
        for n in range(count)
    )
    tested = experiment(requests=6, cases=cases)
    gained = {each.name: 0.3 + 0.6 * n / count for n, each in enumerate(cases)}
    return simulated(tested=tested, acceptance=gained)
