"""ReleaseCapacity: give the lease up, then scale the NodePool. It never fails because there is nothing to release."""

from functools import partial

from specdecode.runs import lease as leases
from specdecode.runs.lease import Lease, LeaseDamaged
from specdecode.runs.state import load_state, save_state
from specdecode.steps.logs import Guarded
from specdecode.steps.replicas import follow_lease, running, set_replicas
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step

NODE = "the node"


def release(given: StepInput, rt: Runtime) -> Progress:
    """Done when the run neither holds a node nor waits for one, and the replicas follow the lease.

    The node comes first. It raises, and is tried again, only if that was not given back for certain: the watchdog mends
    what is left in the queue or the record.
    """
    now, parts = rt.now(), Guarded()
    give_up = partial(leases.release, run_id=given.run_id, now=now)
    done = "the node may still be there"
    with parts.part(NODE):
        lease = _node(given, rt, give_up)
        others = ", ".join(claim.run_id for claim in lease.holders)
        done = f"released; the node pools have {lease.replicas} replicas{f', for {others}' if others else ''}"
    with parts.part("the queue of the servers that already run"):
        rt.queue.update(partial(give_up, slots=rt.queue.slots))
    with parts.part("the run's record"):
        state = load_state(rt.store, given.run_id)
        if state is not None and state.held_since is not None and state.released_at is None:
            save_state(rt.store, state.model_copy(update={"released_at": now}))
    if NODE in parts.errors:
        raise parts.errors[NODE]
    return Progress(done=True, message="; ".join([done, *parts.problems]))


def _node(given: StepInput, rt: Runtime, give_up: partial[Lease]) -> Lease:
    """Give the node up. Returns the lease that holds now. If its document is damaged, no run holds by it."""
    try:
        lease = rt.lease.update(partial(give_up, slots=rt.lease.slots))
    except LeaseDamaged:
        set_replicas(rt.pools, Lease(), rt.lease.slots)
        return Lease()
    except Exception:
        machine = given.execution_arn.rpartition(":")[0].replace(":execution:", ":stateMachine:")
        if not running(rt, machine=machine) - {given.run_id}:
            set_replicas(rt.pools, Lease(), rt.lease.slots)
        raise
    follow_lease(rt.pools, rt.lease, known=lease)
    return lease


handler = partial(run_step, release)
