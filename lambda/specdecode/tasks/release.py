"""ReleaseCapacity: give the lease up and let the NodePool follow. Never fails because there is nothing to release."""

from __future__ import annotations

from functools import partial
from typing import Any

from specdecode.cluster import lease as leases
from specdecode.runs.state import load_state, save_state
from specdecode.tasks.capacity import follow_lease
from specdecode.tasks.runtime import Progress, Runtime, StepInput, run_step


def release(given: StepInput, rt: Runtime) -> Progress:
    """Done when the run neither holds nor waits, and the NodePool's replicas are what the lease is worth."""
    now = rt.now()
    give_up = partial(leases.release, run_id=given.run_id, now=now)
    lease = rt.lease.update(give_up)
    rt.turns.update(give_up)
    replicas = follow_lease(rt.kube, rt.lease)
    state = load_state(rt.store, given.run_id)
    if state is not None and state.held_since is not None and state.released_at is None:
        save_state(rt.store, state.model_copy(update={"released_at": now}))
    heir = f", handed over to {lease.holder.run_id}" if lease.holder else ""
    return Progress(done=True, message=f"released; the node pool has {replicas} replicas{heir}")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(release, event, context)
