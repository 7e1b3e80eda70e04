import asyncio
import itertools
import socket
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from specdecode.benchmark import loading
from specdecode.benchmark.clients import LoadSlice
from specdecode.benchmark.load import LoadPlan, arrival_times, most_open, run_load
from specdecode.benchmark.loading import BACKLOG, Options, Recorder
from specdecode.measures.metrics.formulas import ttft
from specdecode.measures.plausibility import held_back
from specdecode.records import RequestRecord

from tests.specdecode.benchmark.making import client, keep_in, planned, record, spec
from tests.specdecode.benchmark.pace import Pace
from tests.specdecode.benchmark.running import records, run
from tests.specdecode.benchmark.virtual import World


@pytest.mark.parametrize("load", ["interleaved", "simultaneous"])
def test_a_warm_up_takes_the_place_of_no_request(load: str, tmp_path: Path, world: World) -> None:
    given = spec(arms=("base", "sd"), load=load, requests=4, warmup_requests=3)
    run(given, Options(folder=tmp_path), Pace(), Pace())
    for arm in ("base", "sd"):
        found = records(tmp_path, arm)
        assert [sorted(r.index for r in found if r.warmup is warmup) for warmup in (True, False)] == [
            [0, 1, 2],
            [0, 1, 2, 3],
        ]


def test_simultaneous_arms_overlap(tmp_path: Path, world: World) -> None:
    given = spec(arms=("base", "sd"), load="simultaneous", requests=2, warmup_requests=0)
    run(given, Options(folder=tmp_path), Pace(first_s=0.1), Pace(first_s=0.1))
    base, sd = (records(tmp_path, arm)[0] for arm in ("base", "sd"))
    assert abs(base.sent_s - sd.sent_s) < 0.08


def test_a_server_with_one_slot_does_not_slow_the_open_loop(tmp_path: Path, world: World) -> None:
    """20 requests a second against a server that answers 10 a second: a queue grows, and the figures show it."""
    pace = Pace(first_s=0.1, slots=1)
    given = spec(requests=12, rate=20, warmup_requests=0)
    run(given, Options(folder=tmp_path, arrivals="constant"), pace)
    measured = sorted(records(tmp_path), key=lambda r: r.index)
    assert [r.scheduled_s - measured[0].scheduled_s for r in measured] == pytest.approx([i / 20 for i in range(12)])
    gaps = [after - before for before, after in zip(pace.arrivals[1:], pace.arrivals[2:], strict=False)]
    assert sum(gaps) == pytest.approx(11 / 20, abs=0.15)
    assert measured[-1].chunks[0].at_s > 0.5
    assert pace.most_under_way > 4


def test_an_open_loop_has_a_limit_and_the_wait_for_it_is_in_the_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    """50 requests a second of 0.2 s each, 2 at a time: the last of 12 is due after 0.22 s and sent after 1 s."""
    monkeypatch.setattr(loading, "most_open", lambda arms: 2)
    pace = Pace(first_s=0.2)
    given = spec(requests=12, rate=50, warmup_requests=0)
    outcome = run(given, Options(folder=tmp_path, arrivals="constant"), pace)
    assert pace.most_under_way == 2
    measured = sorted(records(tmp_path), key=lambda r: r.index)
    assert [r.scheduled_s - measured[0].scheduled_s for r in measured] == pytest.approx([i / 50 for i in range(12)])
    assert outcome.sent["base", "case", "r50"] == (12, 0)
    assert held_back(measured) == pytest.approx(1.0 - 11 / 50, abs=0.15)
    longest = max(ttft.value(record) for record in measured)
    assert longest == pytest.approx(1.2 - 11 / 50, abs=0.2), "counted from when it was due"


def test_the_limit_is_what_the_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (1024, 4096))
    assert most_open(1) == 960
    assert most_open(2) == 480, "arms loaded at once share it"
    monkeypatch.setattr("resource.getrlimit", lambda which: (10**6, 10**6))
    assert most_open(1) == 20_000


def test_ramp_and_duration(tmp_path: Path, world: World) -> None:
    pace = Pace(first_s=0.03)
    given = spec(concurrency=4).model_copy(update={"duration_s": 0.5})
    run(given, Options(folder=tmp_path, ramp_s=0.3), pace)
    measured = [r for r in records(tmp_path) if not r.warmup]
    began = min(r.sent_s for r in measured)
    first_half, second_half = (
        sum(r.sent_s - began < 0.25 for r in measured),
        sum(r.sent_s - began >= 0.25 for r in measured),
    )
    assert second_half > first_half
    assert 0.25 < max(r.sent_s for r in measured) - began < 1.0
    assert pace.most_under_way == 4


def test_a_server_that_is_gone_is_not_flooded(world: World) -> None:
    """Four workers for half a second, each at most every 0.1 s; the pause is in no record."""
    found: list[RequestRecord] = []
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        sender = client(f"http://127.0.0.1:{unused.getsockname()[1]}")

        async def send(index: int, due: float | None) -> None:
            await sender.request(planned("good", index=index), keep_in(found))
            assert len(found) <= 24, "no time passes between them"

        asyncio.run(run_load(LoadPlan(requests=None, concurrency=4, duration_s=0.5), send, indices=itertools.count()))
    assert len(found) >= 4
    assert max(record.end_s for record in found) < 0.1


@given(
    rate=st.floats(0.1, 500),
    ramp=st.floats(0, 20),
    arrivals=st.sampled_from(["poisson", "constant"]),
    seed=st.integers(0, 5),
)
def test_arrivals_follow_the_rate(rate: float, ramp: float, arrivals: str, seed: int) -> None:
    plan = LoadPlan(requests=None, rate=rate, ramp_s=ramp, arrivals=arrivals, seed=seed)
    count = 2000
    times = list(itertools.islice(arrival_times(plan), count))
    assert times == sorted(times)
    assert times == list(itertools.islice(arrival_times(plan), count))
    expected = count / rate + ramp / 2 if count > rate * ramp / 2 else (2 * ramp * count / rate) ** 0.5
    assert times[-1] == pytest.approx(expected, rel=0.1)


def test_poisson_gaps_are_exponential() -> None:
    plan = LoadPlan(requests=None, rate=10.0, seed=3)
    times = list(itertools.islice(arrival_times(plan), 5000))
    gaps = sorted(after - before for before, after in itertools.pairwise(times))
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(0.1, rel=0.05)
    assert gaps[len(gaps) // 2] == pytest.approx(mean * 0.693, rel=0.05)
    assert sum(gap > 2 * mean for gap in gaps) / len(gaps) == pytest.approx(0.135, abs=0.02)


SIZES = [(1, 7, 20), (2, 8, 33), (3, 8, 64), (4, 512, 1024), (5, 5, 4)]


@pytest.mark.parametrize(("clients", "concurrency", "requests"), SIZES)
def test_streams_and_requests_are_dealt_once_and_evenly(clients: int, concurrency: int, requests: int) -> None:
    slices = [LoadSlice(client=client, clients=clients) for client in range(clients)]
    assert sum(load_slice.streams(concurrency) for load_slice in slices) == concurrency
    dealt = [load_slice.of(range(requests), concurrency=concurrency) for load_slice in slices]
    assert Counter(index for each in dealt for index in each) == dict.fromkeys(range(requests), 1)
    rounds = requests // concurrency
    for load_slice, own in zip(slices, dealt, strict=True):
        streams = load_slice.streams(concurrency)
        assert rounds * streams <= len(own) <= (rounds + 1) * streams, "as many for each of its streams as the others"


def test_the_arrivals_of_all_clients_are_those_of_one() -> None:
    all_of_them = list(itertools.islice(arrival_times(LoadPlan(requests=None, rate=50.0, seed=3)), 12))
    slices = [LoadSlice(client=client, clients=3) for client in range(3)]
    plans = [LoadPlan(requests=None, rate=50.0, seed=3, load_slice=load_slice) for load_slice in slices]
    own = [list(itertools.islice(arrival_times(plan), 4)) for plan in plans]
    assert sorted(time for each in own for time in each) == all_of_them
    assert own[1] == all_of_them[1::3]
    assert slices[1].of(range(12), concurrency=None) == [1, 4, 7, 10], "requests go with the times"


def test_answers_that_come_faster_than_records_are_made_do_not_pile_up() -> None:
    """Two answers a turn of the loop, one record a turn: without a bound the half of all would wait at the end."""
    kept, made, waiting = [], record(), []

    async def load():
        async with Recorder(kept.append).running() as recorder:
            for _ in range(2 * BACKLOG):
                recorder.add(lambda: made)
                recorder.add(lambda: made)
                await asyncio.sleep(0)
                waiting.append(len(recorder._waiting))

    asyncio.run(load())
    assert len(kept) == 4 * BACKLOG
    assert BACKLOG // 2 < max(waiting) <= BACKLOG + 2


def test_a_burst_is_worked_off_one_by_one_so_that_others_are_read_in_between() -> None:
    kept, made = [], record()

    async def load():
        async with Recorder(kept.append).running() as recorder:
            for _ in range(BACKLOG // 2):
                recorder.add(lambda: made)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return len(kept)

    assert asyncio.run(load()) <= 2
