"""A hundred runs at one lease, and a bucket of a thousand runs."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

from specdecode import s3_keys
from specdecode.store import Store

from tests.end_to_end.endurance.measuring import Note, spread, timed
from tests.specdecode.runs.crowd import StrictS3, check, gather


def test_a_hundred_runs_contend_for_the_lease(bucket: Store, note: Note) -> None:
    crowd = gather(
        bucket.s3,
        bucket=bucket.bucket,
        runs=100,
        stopped=60,
    )
    check(crowd, runs=100)
    assert crowd.largest < 64 * 1024
    note(
        "100 runs ask for the node at the same moment, 60 of them are stopped while they wait (embedded S3)",
        f"{crowd.calls_to_join / 100:.1f} S3 calls to join, {spread(crowd.joined)}; {crowd.gave_up} updates lost every "
        f"race and were tried again; the document is {crowd.largest / 1024:.0f} KiB with all in it",
        "never two holders; first come, first served; every write one step of the one before; nobody lost, nobody left",
    )


def test_a_hundred_runs_contend_at_the_latency_of_a_far_bucket(note: Note) -> None:
    crowd = gather(StrictS3(latency_s=0.04), bucket="b", runs=100, stopped=90)
    check(crowd, runs=100)
    note(
        "100 runs ask for the node at the same moment, 90 of them are stopped (a store that takes 40 ms an answer)",
        f"{crowd.calls_to_join / 100:.1f} calls to join, {spread(crowd.joined)}; {crowd.gave_up} updates lost every "
        "race and were tried again",
        "the same",
    )


def test_a_bucket_of_a_thousand_runs(bucket: Store, note: Note) -> None:
    state = json.dumps({"run_id": "r", "execution_arn": "a", "experiment": "e", "started_at": "2026-01-01T00:00:00Z"})

    def put(number: int) -> None:
        run_id = f"e-{20250101 + number}-120000-abcd"
        for name in ("state.json", "plan.json", "raw/base/a.jsonl"):
            bucket.write(s3_keys.run_key(run_id, name), state)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(1000)))
    bucket.write("runs/wide/state.json", state)
    for number in range(1200):
        bucket.write(f"runs/wide/raw/base/{number}.jsonl", "")
    begun = time.monotonic()
    assert len(bucket.folders("runs/")) == 1001
    folders = time.monotonic() - begun
    assert len(bucket.keys("runs/wide/")) == 1201
    reads = timed(lambda: bucket.read("runs/wide/state.json"), 50)
    note(
        "a bucket with 1,000 runs, one of them of 1,201 files",
        f"its folders in {folders:.1f} s, a state {spread(reads)}",
        "listings go over pages; a report looks at the 500 newest states for the run before it, however many there are",
    )
