"""Many runs that want the one node at once: each joins, waits, holds it a moment, leaves; some are stopped before."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from specdecode.cluster import lease as leases
from specdecode.cluster.lease import Lease
from specdecode.cluster.lease_store import LeaseContended, LeaseStore

from tests.specdecode.tasks.aws_fake import client_error

EXECUTION = "arn:aws:states:us-east-2:000000000000:execution:PipelineStateMachine1A2B3C4D-abcdefghijkl:"


class StrictS3:
    """One object with S3's promises for conditional writes, for many threads. Every answer takes `latency_s`."""

    def __init__(self, *, latency_s: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._latency_s = latency_s
        self._body: bytes | None = None
        self._version = 0

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        with self._lock:
            body, version = self._body, self._version
        time.sleep(self._latency_s)
        if body is None:
            raise client_error("NoSuchKey", "GetObject", 404)
        return {"Body": io.BytesIO(body), "ETag": f'"{version}"'}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, ContentType: str, **condition: str) -> dict[str, Any]:
        time.sleep(self._latency_s)
        with self._lock:
            wanted = {"IfNoneMatch": "*"} if self._body is None else {"IfMatch": f'"{self._version}"'}
            if condition != wanted:
                raise client_error("PreconditionFailed", "PutObject", 412)
            self._body, self._version = Body, self._version + 1
            return {"ETag": f'"{self._version}"'}


class Counted:
    """An S3 client whose calls are counted, and whose accepted documents are kept."""

    def __init__(self, s3: Any) -> None:
        self._s3, self._lock = s3, threading.Lock()
        self.calls = self.lost = 0
        self._written: dict[str, tuple[str, bytes]] = {}
        """ETag that a write replaced ("" for none) -> ETag that it made, and the document."""

    def get_object(self, **given: Any) -> dict[str, Any]:
        with self._lock:
            self.calls += 1
        return self._s3.get_object(**given)

    def put_object(self, **given: Any) -> None:
        with self._lock:
            self.calls += 1
        try:
            made = self._s3.put_object(**given)["ETag"]
        except Exception:
            with self._lock:
                self.lost += 1
            raise
        with self._lock:
            self._written[given.get("IfMatch", "")] = made, given["Body"]

    @property
    def documents(self) -> list[bytes]:
        """In the order of their writing."""
        found, tag = [], ""
        while tag in self._written:
            tag, body = self._written[tag]
            found.append(body)
        return found


@dataclass
class Crowd:
    """What was seen."""

    s3: Counted
    joined: list[float] = field(default_factory=list)
    """Seconds until each was in the queue."""
    held: list[str] = field(default_factory=list)
    """Who held the node, in order."""
    overlaps: list[str] = field(default_factory=list)
    """Who held it while another did."""
    gave_up: int = 0
    """Times that all attempts of one update lost the race; the state machine then tries the step again."""
    calls_to_join: int = 0
    largest: int = 0
    """Bytes of the document with everybody in it."""


def gather(s3: Any, *, bucket: str, runs: int, stopped: int, sleep: Callable[[float], None] = time.sleep) -> Crowd:
    """`runs` threads join at once; then the last `stopped` of the queue are stopped; the others hold in turn."""
    crowd = Crowd(s3=Counted(s3))
    holding, lock, joined, go = set[str](), threading.Lock(), threading.Barrier(runs + 1), threading.Event()
    doomed: set[str] = set()

    def update(change: Callable[[Lease], Lease]) -> Lease:
        while True:
            try:
                return LeaseStore(s3=crowd.s3, bucket=bucket, sleep=sleep).update(change)
            except LeaseContended:
                with lock:
                    crowd.gave_up += 1

    def live(run_id: str) -> None:
        started = time.monotonic()
        asks = partial(leases.request, run_id=run_id, execution_arn=EXECUTION + run_id, now=datetime.now(UTC))
        update(asks)
        with lock:
            crowd.joined.append(time.monotonic() - started)
        joined.wait()
        go.wait()
        while run_id not in doomed and not update(asks).held_by(run_id):
            sleep(2)
        if run_id not in doomed:
            with lock:
                crowd.held.append(run_id)
                crowd.overlaps += [run_id] if holding else []
                holding.add(run_id)
            sleep(0.05)
            with lock:
                holding.discard(run_id)
        update(partial(leases.release, run_id=run_id, now=datetime.now(UTC)))

    threads = [threading.Thread(target=live, args=(f"qwen3-32b-20260801-131500-{n:04x}",)) for n in range(runs)]
    for thread in threads:
        thread.start()
    joined.wait()
    crowd.calls_to_join, crowd.largest = crowd.s3.calls, max(map(len, crowd.s3.documents))
    doomed |= {claim.run_id for claim in LeaseStore(s3=crowd.s3, bucket=bucket).read().queue[runs - 1 - stopped :]}
    go.set()
    for thread in threads:
        thread.join()
    return crowd


def check(crowd: Crowd, *, runs: int, stopped: int) -> None:
    """What must hold: one holder at a time, in the order of joining, nobody lost, every write one step of the last."""
    documents = [Lease.model_validate_json(body) for body in crowd.s3.documents]
    order: list[str] = []
    before: list[str] = []
    for lease in documents:
        now = [claim.run_id for claim in lease.claims]
        assert (not lease.holders) == (not now), "idle while somebody waits"
        new = [run for run in now if run not in before]
        assert now == [run for run in before if run in now] + new, "somebody was overtaken"
        assert len(set(now) ^ set(before)) == 1, "a write did more than one thing, or undid another's"
        order += new
        before = now
    assert before == [] and len(order) == len(set(order)) == runs
    assert crowd.overlaps == []
    assert crowd.held == [run for run in order if run in crowd.held], "not first come, first served"
    assert len(crowd.held) == runs - stopped
    assert len(documents) == 2 * runs
