"""Which runs may use the nodes: slots with one holder each, and a first-come queue; and the document of it in S3.

A slot is a NodePool of one node. A run asks for a node of a kind and gets the first free slot of that kind; no run of
the same kind is passed over. Runs on servers that already run have a queue of their own, with one slot: they need no
node, but two runs that load one server at once would measure each other.

The NodePools' replicas follow this document: 1 for each pool that a run holds, 0 for the others. When a holder leaves,
the first run in the queue for that kind takes the slot in the same write. So the node is handed over, and not launched
twice.

Unknown fields are skipped: a newer version wrote them before it was rolled back. A document that cannot be true is no
lease at all (`impossible`): a wrong time could keep a node from every run (ADR 52).
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator

from specdecode import names, s3_keys
from specdecode.store import ABSENT, Store, error_code
from specdecode.untrusted import placed

LONGEST_QUEUE = 300
"""Most claims that may wait. The watchdog may have to ask Step Functions for each by name within its three minutes:
DescribeExecution gives 250 to 300 at once and 10 to 15 more a second (Step Functions quotas, API action throttling).
"""
SKEW = timedelta(minutes=5)
"""Largest difference between the clocks of two functions."""
ONE_SLOT = names.held_pools(1)
"""Slots of a deployment with one node of each kind, and of the servers that already run."""


class QueueFull(Exception):
    """LONGEST_QUEUE runs wait already."""


class Closed(Exception):
    """No run gets a node any more."""


class Claim(BaseModel):
    """A run that holds, or waits for, a node (or servers that already run)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str
    execution_arn: str
    pool: str = names.NODEPOOL
    """NodePool of the node that the run holds. While it waits: the kind of node that it needs."""
    queued_at: AwareDatetime
    held_since: AwareDatetime | None = None

    @property
    def kind(self) -> str:
        return names.kind_of(self.pool)


class Lease(BaseModel):
    """A whole document, state/capacity.json or state/endpoints.json."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_by_name=True, serialize_by_alias=True)

    holders: tuple[Claim, ...] = Field((), alias="holder")
    """The runs that hold a slot, in the order in which they got it. Stored as `holder`: older versions stored one claim
    or null there, which is still read, and refuse a list as damaged.
    """
    queue: tuple[Claim, ...] = ()
    closed: bool = False
    """Whether the deployment is being deleted: nobody holds, waits or joins."""

    @field_validator("holders", mode="before")
    @classmethod
    def _of_one_holder(cls, value: Any) -> Any:
        return value if isinstance(value, (list, tuple)) else () if value is None else (value,)

    @field_serializer("holders")
    def _none_or_list(self, holders: tuple[Claim, ...]) -> list[Claim] | None:
        return list(holders) or None

    @property
    def replicas(self) -> int:
        return len(self.holders)

    @property
    def pools(self) -> frozenset[str]:
        return frozenset(claim.pool for claim in self.holders)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All claims: holders first, then the queue in order."""
        return (*self.holders, *self.queue)

    def replicas_of(self, pool: str) -> int:
        """Number of nodes that the NodePool `pool` should have: 1 if a run holds it, else 0."""
        return int(pool in self.pools)

    def held_by(self, run_id: str) -> bool:
        return any(claim.run_id == run_id for claim in self.holders)

    def holders_of(self, kind: str) -> tuple[Claim, ...]:
        return tuple(claim for claim in self.holders if claim.kind == kind)

    def position(self, run_id: str) -> int | None:
        """0 for a holder, 1 for the first of its kind in the queue, None for a run that neither holds nor waits."""
        for claim in self.queue:
            if claim.run_id == run_id:
                return [other.run_id for other in self.queue if other.kind == claim.kind].index(run_id) + 1
        return 0 if self.held_by(run_id) else None


def impossible(lease: Lease, *, slots: Sequence[str] = ONE_SLOT, now: datetime) -> str | None:
    """Why `lease` cannot be true at `now` with these `slots`: ages, limits and executions are looked up by it."""
    if len(lease.queue) > LONGEST_QUEUE:
        return f"{len(lease.queue)} claims wait, of which there can be {LONGEST_QUEUE}"
    run_ids = [claim.run_id for claim in lease.claims]
    if len(set(run_ids)) < len(run_ids):
        return "a run stands in it twice"
    for claim in lease.claims:
        if not names.is_run_id(claim.run_id):
            return f"{claim.run_id[:100]!r} is no run's id"
        if claim.queued_at > now + SKEW:
            return f"{claim.run_id} has waited since {claim.queued_at.isoformat()}, which is yet to come"
    for claim in lease.queue:
        if claim.pool not in _kinds(slots):
            return f"{claim.run_id} waits for a node of {claim.pool[:100]!r}, which is no pool of ours"
    for claim in lease.holders:
        if wrong := _wrong_holder(claim, slots, now):
            return wrong
    if len(lease.pools) < len(lease.holders):
        return "two runs hold the same node"
    return None


def _kinds(slots: Sequence[str]) -> set[str]:
    return {names.kind_of(pool) for pool in slots}


def _wrong_holder(claim: Claim, slots: Sequence[str], now: datetime) -> str | None:
    since = claim.held_since
    if claim.pool not in slots:
        return f"{claim.run_id} holds the node of {claim.pool[:100]!r}, which is no pool of ours"
    if since is None:
        return f"nobody knows since when {claim.run_id} holds its node"
    if since > now + SKEW:
        return f"{claim.run_id} holds its node since {since.isoformat()}, which is yet to come"
    if since < claim.queued_at - SKEW:
        return f"{claim.run_id} holds its node since {since.isoformat()}, before it asked"
    return None


def request(
    lease: Lease,
    *,
    run_id: str,
    execution_arn: str,
    now: datetime,
    kind: str = names.NODEPOOL,
    slots: Sequence[str] = ONE_SLOT,
) -> Lease:
    """Join the queue, or hold a node of `kind` at once if one is free. Twice is as once. Raises QueueFull, Closed."""
    if lease.position(run_id) is not None:
        return lease
    if lease.closed:
        raise Closed("the deployment is being deleted: no run gets a node any more")
    if len(lease.queue) >= LONGEST_QUEUE:
        raise QueueFull(f"{LONGEST_QUEUE} runs wait already: start this one later")
    claim = Claim(run_id=run_id, execution_arn=execution_arn, pool=kind, queued_at=now)
    return _promote(lease.model_copy(update={"queue": (*lease.queue, claim)}), slots=slots, now=now)


def release(lease: Lease, *, run_id: str, now: datetime, slots: Sequence[str] = ONE_SLOT) -> Lease:
    """Leave, as a holder or from the queue; the first of that kind in the queue takes over. Twice is as once."""
    holders = tuple(claim for claim in lease.holders if claim.run_id != run_id)
    queue = tuple(claim for claim in lease.queue if claim.run_id != run_id)
    return _promote(lease.model_copy(update={"holders": holders, "queue": queue}), slots=slots, now=now)


def _promote(lease: Lease, *, slots: Sequence[str], now: datetime) -> Lease:
    """Give each free slot to the first run that waits for one of its kind."""
    holders, queue = list(lease.holders), []
    free = [pool for pool in slots if pool not in lease.pools]
    for claim in lease.queue:
        pool = next((pool for pool in free if names.kind_of(pool) == claim.kind), None)
        if pool is None:
            queue.append(claim)
        else:
            free.remove(pool)
            holders.append(claim.model_copy(update={"pool": pool, "held_since": now}))
    return lease.model_copy(update={"holders": tuple(holders), "queue": tuple(queue)})


LARGEST = 1 << 20
"""Most bytes of a document that are read. A hundred claims are 26 KiB (docs/reference/faults.md)."""
ATTEMPTS = 20
"""Enough for 100 writers at once at S3's latencies (docs/reference/faults.md)."""
_LOST_RACE = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}


class Contended(Exception):
    """Other writers won every attempt; the caller may simply try again."""


class LeaseDamaged(Exception):
    """The stored document is no lease, or cannot be true: no run can prove by it that it holds a node."""


class LeaseStore:
    """The document `key` in `bucket`, through the boto3 S3 client `s3`. `slots`: the NodePools that it gives out.

    Several writers change it by compare-and-swap, and no update is lost: If-Match writes only over the object that was
    read, If-None-Match only where there is none (user guide of Amazon S3, "Conditional writes").
    """

    def __init__(
        self,
        *,
        s3: Any,
        bucket: str,
        key: str = s3_keys.CAPACITY_KEY,
        slots: Sequence[str] = ONE_SLOT,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = Store(s3=s3, bucket=bucket)
        self._key, self._url = key, self._store.url(key)
        self.slots = slots
        self._sleep = sleep
        self._now = now

    def read(self) -> Lease:
        """The lease now. Empty if there is no document. Raises LeaseDamaged, or boto3's errors."""
        return self._load()[0]

    def set_aside(self) -> str:
        """Copy the document for a person below s3_keys.DAMAGED; the copy's key. Twice is as once."""
        etag = self._etag()
        target = s3_keys.damaged_key(self._key, etag.strip('"'))
        self._store.copy(self._key, target, condition={"CopySourceIfMatch": etag})
        return target

    def begin_anew(self) -> None:
        """Put an empty queue in place of a damaged document. Only while no execution runs: who waited in it is lost."""
        etag = self._etag()
        try:
            self._load()
        except LeaseDamaged:
            self._write(Lease(), {"IfMatch": etag})

    def close(self) -> None:
        """Give no node out any more, and take each from its run, whatever is stored. Whoever changes the document
        meanwhile loses the race, and then reads that it is closed.
        """
        self._write(Lease(closed=True), {})

    def update(self, change: Callable[[Lease], Lease]) -> Lease:
        """Apply the pure function `change` to the newest state and store what changes. Returns the lease that now
        holds.

        Raises LeaseDamaged, Contended, or boto3's errors.
        """
        for attempt in range(ATTEMPTS):
            before, etag = self._load()
            after = change(before)
            if after == before:
                return before
            try:
                self._write(after, {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag})
            except Exception as error:
                # Absent at a conditional write: the object was deleted between the read and the write.
                if error_code(error) not in _LOST_RACE | ABSENT:
                    raise
                self._sleep(random.random() * 0.05 * 2.0 ** min(attempt, 6))
            else:
                return after
        raise Contended(f"{ATTEMPTS} attempts to change {self._url} lost the race")

    def _etag(self) -> str:
        return str(self._store.s3.head_object(Bucket=self._store.bucket, Key=self._key)["ETag"])

    def _load(self) -> tuple[Lease, str | None]:
        data, etag = self._store.read_tagged(self._key, at_most=LARGEST + 1)
        if data is None:
            return Lease(), None
        if len(data) > LARGEST:
            raise LeaseDamaged(f"{self._url} is larger than {LARGEST} bytes")
        try:
            lease = Lease.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise LeaseDamaged(f"{self._url} is no lease: {placed(first)}") from None
        if wrong := impossible(lease, slots=self.slots, now=self._now()):
            raise LeaseDamaged(f"{self._url} cannot be true: {wrong}")
        return lease, etag

    def _write(self, lease: Lease, condition: Mapping[str, str]) -> None:
        self._store.write(self._key, lease.model_dump_json(indent=1), condition=condition)
