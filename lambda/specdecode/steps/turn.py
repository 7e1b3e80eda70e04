"""TakeTurn: wait in the queue of the runs on servers that already run. It takes no node."""

from __future__ import annotations

from functools import partial
from typing import Any

from specdecode import names
from specdecode.planning.events import QUEUE_LIMIT, QUEUE_POLL_S
from specdecode.runs import lease as leases
from specdecode.runs.lease import Claim
from specdecode.runs.lease_store import LeaseStore
from specdecode.steps.errors import CapacityUnavailable
from specdecode.steps.run import load_run
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step

FEW = 3
"""Most holders that a message names."""


def turn(given: StepInput, rt: Runtime) -> Progress:
    """Done when no other run loads servers that already run. Two runs that load one server would measure each other."""
    run = load_run(rt.store, given.run_id)
    if run.is_all_settled:
        return Progress(done=True, message="nothing is left to measure")
    found = stand_in_line(given, rt, rt.turns)
    return found if isinstance(found, Progress) else Progress(done=True, message="no other run loads such servers")


def stand_in_line(given: StepInput, rt: Runtime, queue: LeaseStore, *, kind: str = names.NODEPOOL) -> Claim | Progress:
    """What the run holds by `queue`, or how it waits. Raises CapacityUnavailable after QUEUE_LIMIT, or if the queue is
    full.
    """
    now = rt.now()
    asks = partial(leases.request, run_id=given.run_id, execution_arn=given.execution_arn, now=now, kind=kind)
    try:
        lease = queue.update(partial(asks, slots=queue.slots))
    except leases.QueueFull as full:
        raise CapacityUnavailable(str(full)) from None
    position = lease.position(given.run_id)
    claim = next(claim for claim in lease.claims if claim.run_id == given.run_id)
    if not position:
        return claim
    if now - claim.queued_at > QUEUE_LIMIT:
        raise CapacityUnavailable(f"still number {position} in the queue after {QUEUE_LIMIT}")
    holders = [held.run_id for held in lease.holders_of(kind)]
    who = ", ".join(holders) if len(holders) <= FEW else f"{len(holders)} runs"
    return Progress(done=False, message=f"number {position} in the queue; held by {who}", wait_s=QUEUE_POLL_S)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(turn, event, context)
