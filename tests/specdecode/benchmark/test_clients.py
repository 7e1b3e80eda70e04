"""Several clients that load one server together, from their notes to their merged records."""

import asyncio
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from specdecode.benchmark import clients
from specdecode.benchmark.clients import Arrived, Clients, Meeting, NotTogether, Start
from specdecode.benchmark.load import LoadPlan, arrival_times
from specdecode.benchmark.loading import Options
from specdecode.benchmark.place import LocalFolder, PlaceError, S3Folder, place_of
from specdecode.benchmark.runner import EXIT_FAILED, Benchmark, Outcome, launch
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.measures.plausibility import apart, doubtful
from specdecode.records import RequestRecord, raw_file

from tests.specdecode.benchmark.making import spec
from tests.specdecode.benchmark.pace import Pace, paced_server
from tests.specdecode.benchmark.running import benchmark, run

pytestmark = pytest.mark.usefixtures("world")
"""Virtual time: clients in one process come together however busy the machine is."""

COUNTERS = "vllm:spec_decode_num_draft_tokens_total 6\nvllm:spec_decode_num_accepted_tokens_total 5"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "POLL_S", 0.01)


def together(given: BenchmarkSpec, folder: Path, pace: Pace, *clients: int, place: str = "notes") -> list[Outcome]:
    """The clients at once, each with a folder of its own, as pods have."""

    async def measure() -> list[Outcome]:
        async with paced_server(pace) as url:
            running = []
            for client in clients:
                meeting = Meeting(place=LocalFolder(folder / place), client=client)
                options = Options(folder=folder / str(client), meeting=meeting)
                running.append(benchmark(given, options, *[url] * len(given.arms)).run())
            return list(await asyncio.gather(*running))

    return asyncio.run(measure())


def records_of(folder: Path, *clients: int, variant: str = "base") -> list[RequestRecord]:
    found = []
    for client in clients:
        path = folder / str(client) / raw_file(variant, "case", client)
        found += [RequestRecord.model_validate_json(line) for line in path.read_text().splitlines()]
    return [record for record in found if not record.warmup]


def test_two_clients_send_each_request_once_and_together(tmp_path: Path) -> None:
    given = spec(requests=24, concurrency=6, streams_per_client=3, warmup_requests=2)
    assert given.most_clients == 2
    pace = Pace(first_s=0.05, gap_s=0.05, metrics=COUNTERS)
    first, second = together(given, tmp_path, pace, 0, 1)
    found = records_of(tmp_path, 0, 1)
    assert Counter(record.index for record in found) == dict.fromkeys(range(24), 1)
    assert Counter((record.client, record.clients) for record in found) == {(0, 2): 12, (1, 2): 12}
    assert pace.most_under_way == 6, "three streams each, at the same time"
    assert {record.session for record in found} == {0}
    spans = [
        (min(r.sent_s for r in found if r.client == n), max(r.sent_s + r.end_s for r in found if r.client == n))
        for n in (0, 1)
    ]
    assert spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1], "one clock, and they overlap"
    assert [(c.block, c.draft_tokens) for c in first.servers.counters] == [(("base", "case", 0, "c6"), 0)]
    assert second.servers.counters == () and not (tmp_path / "1" / "servers.json").exists()
    warmups = len(pace.prompts) - 24 - 2
    assert warmups == 2, "a probe of each client, and the warm-up requests of one of them"
    assert "6 at a time: measured by 2 clients together" in first.servers.notes[0]


def test_a_level_that_one_client_can_measure_is_measured_by_one(tmp_path: Path) -> None:
    given = spec(requests=4, concurrency=(1, 4), streams_per_client=2, warmup_requests=0)
    together(given, tmp_path, Pace(), 0, 1)
    found = records_of(tmp_path, 0, 1)
    assert Counter((record.level, record.client, record.clients) for record in found) == {
        ("c1", 0, 1): 4,
        ("c4", 0, 2): 4,
        ("c4", 1, 2): 4,
    }


def test_an_open_loop_is_one_process_of_arrivals(tmp_path: Path) -> None:
    given = spec(requests=30, rate=100.0, streams_per_client=8, output_tokens=8, warmup_requests=0)
    assert given.most_clients == 2, "800 tokens a second, and 8 streams have 400 chunks"
    together(given, tmp_path, Pace(), 0, 1)
    found = sorted(records_of(tmp_path, 0, 1), key=lambda record: record.index)
    assert [record.client for record in found] == [0, 1] * 15
    times = list(islice(arrival_times(LoadPlan(requests=None, rate=100.0, seed=given.workload.seed)), 30))
    for client in (0, 1):
        due = [record.scheduled_s or 0.0 for record in found if record.client == client]
        own = times[client::2]
        assert [at - due[0] for at in due] == pytest.approx([at - own[0] for at in own], abs=1e-6)


def test_precision_ends_no_level_of_several_clients(tmp_path: Path) -> None:
    given = spec(
        arms=("base", "sd"), concurrency=4, streams_per_client=2, requests={"min": 4, "max": 24, "precision": 1.0}
    )
    base, sd = given.arms
    given = given.model_copy(update={"arms": (base, sd.model_copy(update={"compare_to": "base"}))})
    together(given, tmp_path, Pace(), 0, 1)
    assert len(records_of(tmp_path, 0, 1)) == 24


def test_a_client_that_was_started_again_measures_what_is_left_and_the_level_is_doubtful(tmp_path: Path) -> None:
    given = spec(requests=16, concurrency=4, streams_per_client=2, warmup_requests=0)
    pace = Pace(first_s=0.05)
    together(given, tmp_path, pace, 0, 1)
    whole = records_of(tmp_path, 0, 1)
    path = tmp_path / "1" / raw_file("base", "case", 1)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    together(given, tmp_path, pace, 1)  # alone: nobody is waited for, as all have begun
    found = records_of(tmp_path, 0, 1)
    assert Counter(record.index for record in found) == dict.fromkeys(range(16), 1)
    assert sorted((r.client, r.session) for r in found).count((1, 1)) == 5
    (said,) = apart(found)
    assert said.startswith("The load on base/case at c4 is doubtful: for ") and doubtful(found)
    assert len(whole) == 16


def test_a_job_that_is_made_anew_begins_together_again(tmp_path: Path) -> None:
    given = spec(requests=16, concurrency=4, streams_per_client=2, warmup_requests=0)
    together(given, tmp_path, Pace(), 0, 1)
    for client in (0, 1):
        path = tmp_path / str(client) / raw_file("base", "case", client)
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))
    together(given, tmp_path, Pace(), 0, 1, place="notes of the next Job")
    found = records_of(tmp_path, 0, 1)
    assert Counter(record.index for record in found) == dict.fromkeys(range(16), 1)
    assert {record.session for record in found} == {0, 1}
    assert Counter((r.client, r.session) for r in found)[1, 1] == 4


def test_client_0_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "PATIENCE_S", 0.05)
    given = spec(requests=8, concurrency=4, streams_per_client=2)
    with pytest.raises(ExceptionGroup) as raised:
        together(given, tmp_path, Pace(), 0)
    assert raised.group_contains(NotTogether, match="client 1 did not come .arrived., and client 0 waits")


@pytest.mark.parametrize("error", [NotTogether("client 1 did not come"), PlaceError("cannot read it")])
def test_the_command_tells_it_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    async def fails(self: Benchmark) -> Outcome:
        raise ExceptionGroup("of the load", [ExceptionGroup("within", [error])])

    monkeypatch.setattr(Benchmark, "run", fails)
    assert launch(spec(), {}, Options(folder=tmp_path), max_error_rate=0.1) == (EXIT_FAILED, str(error))
    assert capsys.readouterr().err == f"error: {error}\n"


def test_a_clock_that_is_behind_is_an_error(tmp_path: Path) -> None:
    place = LocalFolder(tmp_path)
    place.write("block/start.json", Start(at=time.time() + 3602, said_at=time.time() + 3600).model_dump_json().encode())
    with pytest.raises(NotTogether, match=r"the clock of client 1 is 3[0-9]{3}\.\d s or more behind that of client 0"):
        asyncio.run(Meeting(place=place, client=1).start("block"))


def test_who_comes_to_a_block_that_began_is_late(tmp_path: Path) -> None:
    place = LocalFolder(tmp_path)
    place.write("block/start.json", Start(at=time.time() - 60, said_at=time.time() - 62).model_dump_json().encode())
    meeting = Meeting(place=place, client=1)
    assert asyncio.run(meeting.arrive("block", Arrived(already=3, left=5), clients=2)).late
    assert asyncio.run(meeting.start("block")) >= 60, "it begins at once, so much after the others"


def test_client_0_that_was_started_again_waits_for_nobody_and_reads_no_counters(tmp_path: Path) -> None:
    """The others are loading already. Counters that it read now would be of a part of the level."""
    given = spec(requests=8, concurrency=4, streams_per_client=2)
    (level,) = given.workload.levels
    place = LocalFolder(tmp_path)
    group = Clients(spec=given, meeting=Meeting(place=place, client=0))
    load_slice = group.load_slice(level)
    assert load_slice is not None and load_slice.clients == 2
    place.write(f"base/case/{level.name}/start.json", Start(at=0.0, said_at=0.0).model_dump_json().encode())
    arrives = group.barrier(load_slice, variant="base", case="case", level=level, already=1, left=3)
    barrier = asyncio.run(asyncio.wait_for(arrives, timeout=5))
    assert barrier.arrival.late and not barrier.leads
    assert (barrier.arrival.already, barrier.arrival.left) == (1, 3), "its own, not those of all"


def test_a_note_that_cannot_be_written_or_read_is_told(tmp_path: Path) -> None:
    place = LocalFolder(tmp_path)
    place.write("block/start.json", b"{")
    with pytest.raises(NotTogether, match=r"the note block/start\.json of the other clients cannot be read"):
        asyncio.run(Meeting(place=place, client=1).arrive("block", Arrived(already=0, left=1), clients=2))
    (tmp_path / "other").write_bytes(b"a file, not a folder")
    with pytest.raises(NotTogether, match="the other clients cannot be told"):
        asyncio.run(Meeting(place=place, client=1).end("other", 2, within=1))


def test_alone_a_load_beyond_one_client_is_measured_and_said(tmp_path: Path) -> None:
    given = spec(requests=8, concurrency=4, streams_per_client=2)

    outcome = run(given, Options(folder=tmp_path / "0"), Pace())
    assert (
        "4 at a time is more than one client is known to measure truthfully (2 at a time)" in outcome.servers.notes[0]
    )
    assert {record.clients for record in records_of(tmp_path, 0)} == {1}


def test_where_notes_lie(tmp_path: Path) -> None:
    assert isinstance(place_of("s3://bucket/runs/r/raw/@clients/uid/"), S3Folder)
    place = place_of(str(tmp_path))
    place.write("a/b.json", b"{}")
    assert place.get("a/b.json") == b"{}" and place.get("a/c.json") is None
