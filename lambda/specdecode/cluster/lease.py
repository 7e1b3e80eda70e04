"""Who may use the accelerator node: one exclusive holder and a first-come queue. Pure state transitions.

Runs on servers that already run stand in a queue of their own of the same form: they need no node, but two that load
one server at once would measure each other.

The NodePools' replicas follow this document: 1 of the holder's pool while somebody holds it, 0 otherwise. When the
holder leaves, the first in the queue becomes the holder in the same write, so that a node that it needs too is handed
over and not bought twice.

Fields that this version does not know are passed over: a newer one wrote them before it was rolled back. What cannot
be true is no lease at all (`impossible`): a wrong time would keep the node from everybody who goes by it (ADR 134).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict

from specdecode import names

LONGEST_QUEUE = 300
"""Claims that may wait. The watchdog may have to ask Step Functions for each by name within its three minutes:
DescribeExecution gives 250 to 300 at once and 10 to 15 more a second (Step Functions quotas, API action throttling)."""
SKEW = timedelta(minutes=5)
"""How far the clocks of two functions may be apart."""


class QueueFull(Exception):
    """LONGEST_QUEUE runs wait already."""


class Claim(BaseModel):
    """A run that holds, or waits for, the node (or its turn at servers that already run)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str
    execution_arn: str
    pool: str = names.NODEPOOL
    """NodePool of the node that it needs."""
    queued_at: AwareDatetime
    held_since: AwareDatetime | None = None


class Lease(BaseModel):
    """A whole document, state/capacity.json or state/endpoints.json."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    holder: Claim | None = None
    queue: tuple[Claim, ...] = ()

    @property
    def replicas(self) -> int:
        """Nodes that this state is worth."""
        return 0 if self.holder is None else 1

    @property
    def pool(self) -> str | None:
        """NodePool that has the node; None while nobody holds it."""
        return None if self.holder is None else self.holder.pool

    def replicas_of(self, pool: str) -> int:
        """Nodes of the NodePool `pool` that this state is worth."""
        return int(pool == self.pool)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The holder and all who wait, in order."""
        return (*((self.holder,) if self.holder else ()), *self.queue)

    def held_by(self, run_id: str) -> bool:
        return self.holder is not None and self.holder.run_id == run_id

    def position(self, run_id: str) -> int | None:
        """0 for the holder, 1 for the first in the queue, None for a stranger."""
        for index, claim in enumerate(self.queue, start=1):
            if claim.run_id == run_id:
                return index
        return 0 if self.held_by(run_id) else None


def impossible(lease: Lease, *, now: datetime) -> str | None:
    """What of `lease` cannot be true at `now`, in words; None where everything can.

    Ages and limits are counted from its times, and a claim is asked after by its name.
    """
    if len(lease.queue) > LONGEST_QUEUE:
        return f"{len(lease.queue)} claims wait, of which there can be {LONGEST_QUEUE}"
    run_ids = [claim.run_id for claim in lease.claims]
    if len(set(run_ids)) < len(run_ids):
        return "a run stands in it twice"
    for claim in lease.claims:
        if not names.is_run_id(claim.run_id):
            return f"{claim.run_id[:100]!r} is no run's id"
        if claim.pool not in names.HELD_POOLS:
            return f"{claim.run_id} waits for a node of {claim.pool[:100]!r}, which is no pool of ours"
        if claim.queued_at > now + SKEW:
            return f"{claim.run_id} has waited since {claim.queued_at.isoformat()}, which is yet to come"
    if lease.holder is not None:
        since = lease.holder.held_since
        if since is None:
            return "nobody knows since when the holder holds it"
        if since > now + SKEW:
            return f"the holder holds it since {since.isoformat()}, which is yet to come"
        if since < lease.holder.queued_at - SKEW:
            return f"the holder holds it since {since.isoformat()}, before it asked"
    return None


def request(lease: Lease, *, run_id: str, execution_arn: str, now: datetime, pool: str = names.NODEPOOL) -> Lease:
    """Join the queue, or hold the node at once if nobody does. Asking again changes nothing. Raises QueueFull."""
    if lease.position(run_id) is not None:
        return lease
    if len(lease.queue) >= LONGEST_QUEUE:
        raise QueueFull(f"{LONGEST_QUEUE} runs wait already: start this one later")
    claim = Claim(run_id=run_id, execution_arn=execution_arn, pool=pool, queued_at=now)
    return _promote(lease.model_copy(update={"queue": (*lease.queue, claim)}), now=now)


def release(lease: Lease, *, run_id: str, now: datetime) -> Lease:
    """Leave, whether holding or waiting; the first in the queue takes over. Releasing twice changes nothing."""
    holder = None if lease.held_by(run_id) else lease.holder
    queue = tuple(claim for claim in lease.queue if claim.run_id != run_id)
    return _promote(Lease(holder=holder, queue=queue), now=now)


def _promote(lease: Lease, *, now: datetime) -> Lease:
    if lease.holder is not None or not lease.queue:
        return lease
    first, *rest = lease.queue
    return Lease(holder=first.model_copy(update={"held_since": now}), queue=tuple(rest))
