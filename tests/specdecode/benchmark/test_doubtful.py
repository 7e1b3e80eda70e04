"""A load at which the load generator fell behind is marked: by the rule, and in a real run whose client stalls."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from specdecode.analysis import compare
from specdecode.benchmark.client import Client
from specdecode.benchmark.loading import Options
from specdecode.experiment.workload import PromptKind
from specdecode.measures.plausibility import DOUBTFUL_S, HELD_BACK_S, doubtful
from specdecode.records import RequestRecord

from benchmarks.client_levels import LEVELS, aims
from tests.specdecode.analysis.simulate import context, experiment
from tests.specdecode.benchmark.making import case, record, spec
from tests.specdecode.benchmark.reference import serving
from tests.specdecode.benchmark.running import records, run
from tests.specdecode.benchmark.virtual import World


def load(requests: int, *late: tuple[float, int | None], first_merged: bool = False) -> list[RequestRecord]:
    """Requests of ten chunks; `late`: of the first ones, how wrong how many chunks may be."""
    times = [0.1, *([0.1] if first_merged else [0.2]), *(0.3 + 0.1 * number for number in range(8))]
    made, plain = record(times, tokens=10), record([0.1 * number for number in range(1, 11)], tokens=10)
    changed = [made.model_copy(update={"time_doubt_s": doubt, "doubtful_chunks": count}) for doubt, count in late]
    return [*changed, *[plain] * (requests - len(late))]


def test_a_load_that_is_not_marked_has_99_percent_of_its_chunks_within_the_tightest_p99_bound() -> None:
    assert not doubtful(load(24, (0.006, 2))) and doubtful(load(24, (0.006, 3))), "of 240 chunks: above 1%"
    assert not doubtful(load(24, (0.005, 9))), "none of them is wrong by more"
    assert doubtful(load(24, (0.006, None))), "a record of an earlier version does not say how many"
    assert not doubtful(load(24))
    assert min(limits["chunk_p99_ms"] for limits in map(aims, LEVELS) if "chunk_p99_ms" in limits) == DOUBTFUL_S * 1000


def test_a_load_is_marked_where_the_first_token_of_more_than_1_percent_of_the_requests_is_doubtful() -> None:
    """Few of its chunks are: of an answer of hundreds the first is one."""
    assert doubtful(load(99, (0.006, 1), first_merged=True)) and not doubtful(load(99, (0.006, 1)))
    assert not doubtful(load(100, (0.006, 1), first_merged=True))
    one_chunk = record([0.1], tokens=10, time_doubt_s=0.006, doubtful_chunks=1)
    assert doubtful([one_chunk, *load(98)]) and not doubtful([one_chunk, *load(99)])
    held = [each.model_copy(update={"scheduled_s": 0.0, "sent_s": HELD_BACK_S}) for each in load(2)]
    assert not doubtful(held) and doubtful([held[0].model_copy(update={"sent_s": HELD_BACK_S + 0.01})])


def test_every_load_has_the_bounds_of_the_next_larger_one() -> None:
    assert aims(1) == aims(4) != aims(16) == aims(64) and aims(256) == aims(512) == {
        "chunk_mean_ms": 3.0,
        "chunk_p99_ms": 10.0,
    }


def one_token_a_chunk(made: RequestRecord) -> RequestRecord:
    """The arms of the experiment have other k than the reference server, which sends up to seven tokens a chunk."""
    chunks = tuple(replace(chunk, tokens=1) for chunk in made.chunks)
    return made.model_copy(update={"chunks": chunks, "completion_tokens": len(chunks)})


def test_a_client_that_stalls_at_one_load_marks_that_load_in_the_curve_where_no_kernel_timed_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    """The server goes on while the client's own loop stands still, again and again while eight streams run."""
    plain = Client.request

    async def stalling(self: Client, plan: Any, deliver: Any, scheduled_s: float | None = None) -> None:
        if plan.level == "c8":
            asyncio.get_running_loop().call_later(0.15, server.while_the_client_stalls, 0.06)
        await plain(self, plan, deliver, scheduled_s)

    monkeypatch.setattr(Client, "request", stalling)
    prompt = case("sonnet", text="hello", kind=PromptKind.TEXT)
    given = spec(
        arms=("base", "sd"),
        model="reference",
        cases=(prompt,),
        requests=8,
        output_tokens=60,
        concurrency=(1, 8),
        warmup_requests=0,
    )
    with serving(world) as server:
        assert not run(given, Options(folder=tmp_path), *[server.url] * 2).problems
    measured = [each for arm in ("base", "sd") for each in records(tmp_path, arm, "sonnet")]
    late_at = {name: [r for r in measured if r.level == name and r.time_doubt_s > 0.03] for name in ("c1", "c8")}
    assert len(late_at["c8"]) == sum(r.level == "c8" for r in measured), (
        "a stall of 60 ms brings several chunks of 20 ms at once"
    )
    assert not late_at["c1"]
    tested = experiment()
    tested = tested.model_copy(update={"workload": given.workload})
    told = [one_token_a_chunk(each) for each in measured]
    by_read = [
        each.model_copy(update={"doubtful_chunks": len(each.chunks)} if each.time_doubt_s > 0.03 else {})
        for each in told
    ]
    for timed, marked in ((told, [False, False]), (by_read, [False, True])):
        points = compare(experiment=tested, records=timed, context=context()).curve[0].points
        assert [(each.level.name, each.doubtful) for each in points] == list(zip(("c1", "c8"), marked, strict=True))
        assert [doubtful([r for r in timed if r.level == name]) for name in ("c1", "c8")] == [False, True]
