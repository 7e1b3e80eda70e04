"""Executions of the deployed state machine that queue up and are stopped."""

import time
from collections.abc import Callable
from typing import Any

from specdecode import s3_keys
from specdecode.experiment import load_preset
from specdecode.runs.lease import LeaseStore

from rehearsal.rehearse import Rehearsal
from tests.end_to_end.cloud import looks
from tests.end_to_end.endurance.measuring import Note, timed
from tests.patience import LONG_S

EXECUTIONS = 25
"""Each is a few processes at a time on this machine; a hundred in the queue are in tests/specdecode/steps."""


def test_executions_queue_up_and_are_stopped(cloud: Rehearsal, note: Note) -> None:
    """The deployed state machine. One holds the node; the others wait, are stopped, and the last two go on in order."""
    cloud.deploy()
    cloud.import_models(load_preset("rehearsal"))
    lease = LeaseStore(s3=cloud.services.client("s3"), bucket=cloud.bucket)
    small = {"workload.cases": ["repeat-line"], "workload.requests": 2, "workload.output_tokens": 16}
    runs = [cloud.start("first", {"experiment": "rehearsal", "set": small | {"workload.requests": 5000}})]
    until(cloud, lambda: lease.read().holders)
    begun = time.monotonic()
    for number in range(1, EXECUTIONS):
        runs.append(cloud.start(f"queued-{number}", {"experiment": "rehearsal", "set": small}))
        until(cloud, lambda: len(lease.read().claims) >= len(runs) - 4)
    until(cloud, lambda: len(lease.read().claims) == EXECUTIONS)
    gathered = time.monotonic() - begun
    order = [claim.run_id for claim in lease.read().claims]
    size = len(cloud.services.client("s3").get_object(Bucket=cloud.bucket, Key=s3_keys.CAPACITY_KEY)["Body"].read())
    assert order[0] == runs[0].run_id and set(order) == {run.run_id for run in runs}
    by_id = {run.run_id: run for run in runs}
    waiting = by_id[order[-1]]
    events = waiting.deployment.events(waiting.arn, newest=1000)
    looked = looks(waiting, "AcquireCapacity")
    asked = timed(lambda: waiting.deployment.cluster(), 3)

    begun = time.monotonic()
    for run_id in order[1:-2]:
        by_id[run_id].deployment.stop(by_id[run_id].arn)
    until(cloud, lambda: len(lease.read().claims) == 3)
    left = time.monotonic() - begun
    assert [claim.run_id for claim in lease.read().claims] == [order[0], *order[-2:]]
    runs[0].deployment.stop(runs[0].arn)
    for run_id in order[-2:]:
        until(cloud, lambda run_id=run_id: by_id[run_id].look().status != "RUNNING")
        assert by_id[run_id].look().status == "SUCCEEDED", by_id[run_id].look().cause
    ended = [by_id[run_id].look().stopped or "" for run_id in order[-2:]]
    assert ended == sorted(ended)
    until(cloud, lambda: lease.read().claims == () and cloud.replicas() == 0)
    note(
        f"{EXECUTIONS} executions of the deployed state machine; all but three are stopped while they wait",
        f"all in the queue after {gathered:.0f} s, lease {size / 1024:.0f} KiB; `specdecode capacity` takes "
        f"{max(asked):.1f} s; {len(events)} events of the last one after {looked} looks; the stopped have left "
        f"{left:.0f} s after the first stop",
        "the watchdog alone takes the stopped out; the last two run in order; then 0 replicas, nobody in the lease",
    )


def until(cloud: Rehearsal, condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + LONG_S
    while not condition():
        cloud.services.check()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.5)
