"""Many runs that want nodes at once: each joins, waits, holds one a moment, leaves; some are stopped before."""

import io
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import md5
from typing import Any

from specdecode import names
from specdecode.runs import lease as leases
from specdecode.runs.lease import Contended, Lease, LeaseStore
from specdecode.steps.watchdog import _without

from tests.specdecode.steps.aws_fake import client_error

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


def etag(body: bytes) -> str:
    """That of an object of S3 that was stored in one part and is not encrypted with KMS (S3 API reference, Object)."""
    return f'"{md5(body, usedforsecurity=False).hexdigest()}"'


class Counted:
    """An S3 client whose calls are counted, and whose accepted documents are kept."""

    def __init__(self, s3: Any) -> None:
        self._s3, self._lock = s3, threading.Lock()
        self.calls = self.lost = 0
        self._written = defaultdict[str, list[tuple[str, bytes]]](list)
        """ETag that writes replaced ("" for none) -> ETag that each made, and the document. There are several where a
        document came back: everybody who joined after it was stopped.
        """
        self._refused: dict[str, list[bytes]] = {}
        """ETag that a refused write would have replaced -> the documents."""
        self._seen = set[str]()
        """ETags of what was read."""

    def get_object(self, **given: Any) -> dict[str, Any]:
        with self._lock:
            self.calls += 1
        answer = dict(self._s3.get_object(**given))
        with self._lock:
            self._seen.add(answer["ETag"])
        return answer

    def put_object(self, **given: Any) -> None:
        with self._lock:
            self.calls += 1
        before, body = given.get("IfMatch", ""), given["Body"]
        try:
            made = self._s3.put_object(**given)["ETag"]
        except Exception:
            with self._lock:
                self.lost += 1
                self._refused.setdefault(before, []).append(body)
            raise
        with self._lock:
            self._written[before].append((made, body))

    @property
    def documents(self) -> list[bytes]:
        """All that were accepted, in order."""
        found, tag, left = list[bytes](), "", {tag: list(steps) for tag, steps in self._written.items()}
        while step := left[tag].pop(0) if left.get(tag) else self._lost(tag):
            tag, body = step
            found.append(body)
        return found

    def _lost(self, tag: str) -> tuple[str, bytes] | None:
        """The write that replaced `tag`, if its answer was lost. The SDK asks again then, and S3 refuses what it has
        accepted. A refused document was accepted if it was read, or if another replaced it.
        """
        if tag in self._written:
            return None
        known = self._seen.union(self._written)
        return next(((etag(body), body) for body in self._refused.get(tag, ()) if etag(body) in known), None)


@dataclass
class Crowd:
    s3: Counted
    joined: list[float] = field(default_factory=list)
    """Seconds until each was in the queue."""
    held: list[str] = field(default_factory=list)
    """Who held a node and used it."""
    overlaps: list[str] = field(default_factory=list)
    """Who held one that another held too, or found itself on another one than before."""
    doomed: set[str] = field(default_factory=set)
    """Who was stopped before it could use a node."""
    gave_up: int = 0
    """Times that all attempts of one update lost the race; the state machine then tries the step again."""
    calls_to_join: int = 0
    largest: int = 0
    """Bytes of the document with everybody in it."""


def gather(
    s3: Any,
    *,
    bucket: str,
    runs: int,
    stopped: int,
    nodes: int = 1,
    sleep: Callable[[float], None] = time.sleep,
) -> Crowd:
    """`runs` threads join at once; then the last `stopped` of the queue are stopped; the others hold in turn.

    Each that is stopped leaves by itself while the watchdog takes all of them out.
    """
    crowd, slots = Crowd(s3=Counted(s3)), names.held_pools(nodes)
    using, lock, joined, go = dict[str, str](), threading.Lock(), threading.Barrier(runs + 1), threading.Event()

    def update(change: Callable[[Lease], Lease]) -> Lease:
        while True:
            try:
                return LeaseStore(s3=crowd.s3, bucket=bucket, slots=slots, sleep=sleep).update(change)
            except Contended:
                with lock:
                    crowd.gave_up += 1

    def pool_of(lease: Lease, run_id: str) -> str | None:
        return next((claim.pool for claim in lease.holders if claim.run_id == run_id), None)

    def live(run_id: str) -> None:
        started, pool = time.monotonic(), None
        asks = partial(
            leases.request, run_id=run_id, execution_arn=EXECUTION + run_id, now=datetime.now(UTC), slots=slots
        )
        update(asks)
        with lock:
            crowd.joined.append(time.monotonic() - started)
        joined.wait()
        go.wait()
        while run_id not in crowd.doomed and (pool := pool_of(update(asks), run_id)) is None:
            sleep(2)
        if pool is not None:
            with lock:
                crowd.held.append(run_id)
                crowd.overlaps += [run_id] if pool in using else []
                using[pool] = run_id
            sleep(0.05)
            moved = pool_of(update(lambda lease: lease), run_id) != pool
            with lock:
                crowd.overlaps += [run_id] if moved else []
                using.pop(pool, None)
        update(partial(leases.release, run_id=run_id, now=datetime.now(UTC), slots=slots))

    ids = [f"qwen3-32b-20260801-131500-{n:04x}" for n in range(runs)]
    threads = [threading.Thread(target=live, args=(run_id,)) for run_id in ids]
    for thread in threads:
        thread.start()
    joined.wait()
    crowd.calls_to_join, crowd.largest = crowd.s3.calls, max(map(len, crowd.s3.documents))
    whole = LeaseStore(s3=crowd.s3, bucket=bucket, slots=slots).read()
    ended = whole.queue[len(whole.queue) - stopped :]
    crowd.doomed |= {claim.run_id for claim in ended}
    go.set()
    update(partial(_without, ended=ended, now=datetime.now(UTC), slots=slots))
    for thread in threads:
        thread.join()
    return crowd


def check(crowd: Crowd, *, runs: int, nodes: int = 1) -> None:
    """What must hold: one holder a node, nodes given in the order of joining and never idle while somebody waits, a
    holder stays on its node, nobody lost, every write one step of the last (or the watchdog's one of many).
    """
    documents = [Lease.model_validate_json(body) for body in crowd.s3.documents]
    order: list[str] = []
    before = Lease()
    for lease in documents:
        now, was = [claim.run_id for claim in lease.claims], [claim.run_id for claim in before.claims]
        assert len(lease.holders) == min(nodes, len(now)), "idle while somebody waits, or more nodes than there are"
        assert lease.pools <= set(names.held_pools(nodes)) and len(lease.pools) == len(lease.holders)
        new = [run for run in now if run not in was]
        assert now == [run for run in was if run in now] + new, "somebody was overtaken"
        assert {(claim.run_id, claim.pool) for claim in before.holders if claim.run_id in now} <= {
            (claim.run_id, claim.pool) for claim in lease.holders
        }, "a run was moved to another node"
        gone = set(was) - set(now)
        assert len(new) + len(gone) == 1 or (not new and gone <= crowd.doomed), "a write undid another's"
        order += new
        before = lease
    assert before.claims == (), f"{len(before.claims)} never left, and {crowd.s3.lost} writes were refused"
    assert len(order) == len(set(order)) == runs
    assert crowd.overlaps == []
    assert sorted(crowd.held) == sorted(set(order) - crowd.doomed)
    if nodes == 1:
        assert crowd.held == [run for run in order if run in crowd.held], "not first come, first served"
