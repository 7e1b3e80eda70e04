"""The watchdog: makes lease, workloads and replicas follow the running executions, whatever happened to a state
machine.

It needs to know of an execution only whether it runs. So it works even if a machine never reached its own release. The
node comes first. A part that fails stops no other part; failures are counted, so that a person gets an alarm.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from specdecode import names
from specdecode.kubernetes.resources import WORKLOAD_KINDS
from specdecode.kubernetes.teardown import delete_workloads
from specdecode.runs import lease as leases
from specdecode.runs.lease import Claim, Lease
from specdecode.runs.lease_store import LeaseDamaged, LeaseStore
from specdecode.steps import executions, logs, nodes
from specdecode.steps.guarded import Guarded
from specdecode.steps.reconciled import Reconciled, publish
from specdecode.steps.replicas import follow_lease, set_replicas
from specdecode.steps.runtime import Runtime, StepInput, run_step

EXECUTIONS, NODE, QUEUE = "the running executions", "the node", "the queue of the servers that already run"
COUNT, WORKLOADS, METRICS = "the nodes", "workloads that no run stands for", "the metrics"


def watch(_: StepInput, rt: Runtime) -> Reconciled:
    """One round. A second one changes nothing more.

    The node is given up before workloads are deleted: an object that cannot be deleted must not keep it.
    """
    parts = Guarded()
    running: set[str] | None = None
    with parts.part(EXECUTIONS):
        running = executions.running(rt, machine=_machine(rt))
    lease, ended, wanted = _nodes(rt, running, parts)
    with parts.part(QUEUE):
        ended += _turns(rt, running, parts)
    count: Counter[str] | None = None
    deleted: tuple[str, ...] = ()
    cleaned: tuple[str, ...] = ()
    with parts.part(COUNT):
        if wanted is not None and rt.ends_nodes:
            deleted = nodes.delete_left(rt.node_pools, rt.lease, now=rt.now())
        count = rt.pools.billed()
    with parts.part(WORKLOADS):
        cleaned = _clean_orphans(rt)
    found = Reconciled(
        ended=tuple(claim.run_id for claim in ended),
        cleaned=cleaned,
        replicas=None if wanted is None else wanted.replicas,
        nodes=None if count is None else count.total(),
        too_many=None if count is None or wanted is None else _too_many(rt.lease.slots, count, wanted),
        deleted=deleted,
        ages_s=_ages_s(rt.lease.slots, lease, rt.now()),
        holding=len(lease.holders),
        waiting=len(lease.queue),
        problems=tuple(parts.problems),
    )
    with parts.part(METRICS):
        publish(rt, found, beats=not parts.errors.keys() & {EXECUTIONS, NODE, COUNT})
    return found.model_copy(update={"problems": tuple(parts.problems)})


def _nodes(rt: Runtime, running: set[str] | None, parts: Guarded) -> tuple[Lease, list[Claim], Lease | None]:
    """Bring the replicas to what the lease asks for. Returns the lease, the claims that were taken out of it, and the
    lease that the replicas follow (None if they stay as they are).

    A damaged lease counts as empty, whichever runs go on: each step of a run reads it, and ends the run if it cannot.
    If the lease cannot be read for another reason, it counts as empty only if no execution runs. Else the replicas stay
    as they are; those executions cannot read it either and end by themselves (ADR 52). If it can be read but not
    written, the replicas follow what it should say.
    """
    lease, ended, followed = Lease(), list[Claim](), None
    wanted = Lease() if running == set() else None
    with parts.part(NODE):
        try:
            lease = rt.lease.read()
            ended = _ended(rt, lease, running, parts)
            if ended:
                without = partial(_without, ended=ended, now=rt.now(), slots=rt.lease.slots)
                wanted = without(lease)
                lease = rt.lease.update(without)
        except LeaseDamaged as damage:
            set_replicas(rt.pools, Lease(), rt.lease.slots)
            followed = Lease()
            _mend(rt.lease, damage, running, parts)
        except Exception:
            if wanted is not None:
                set_replicas(rt.pools, wanted, rt.lease.slots)
                followed = wanted
            raise
        else:
            followed = follow_lease(rt.pools, rt.lease, known=lease)
    return lease, ended, followed


def _turns(rt: Runtime, running: set[str] | None, parts: Guarded) -> list[Claim]:
    """The same for the queue of servers that already run, which takes no node."""
    try:
        ended = _ended(rt, rt.turns.read(), running, parts)
        if ended:
            rt.turns.update(partial(_without, ended=ended, now=rt.now(), slots=rt.turns.slots))
        return ended
    except LeaseDamaged as damage:
        _mend(rt.turns, damage, running, parts)
        return []


def _mend(queue: LeaseStore, damage: LeaseDamaged, running: set[str] | None, parts: Guarded) -> None:
    """Keep a damaged queue for a person. Begin it anew if no run can be in it: if no execution runs."""
    with parts.part("a damaged queue"):
        kept = queue.set_aside()
        if running == set():
            queue.begin_anew()
        state = "it begins anew, empty" if running == set() else "it begins anew when no execution runs"
        parts.note(f"{damage}: kept as {kept}; {state}")


def _ended(rt: Runtime, lease: Lease, running: set[str] | None, parts: Guarded) -> list[Claim]:
    """Claims whose execution has ended. Empty if Step Functions cannot be asked.

    One call lists the executions that run, but its answer may be late. So each holder, and each run that the list
    lacks, is looked up by name.
    """
    if running is None:
        return []
    asked = [claim for claim in lease.claims if claim in lease.holders or claim.run_id not in running]
    with parts.part(EXECUTIONS):
        return [claim for claim in asked if not executions.is_running(rt, claim, machine=_machine(rt))]
    return []


def _without(lease: Lease, *, ended: Sequence[Claim], now: datetime, slots: Sequence[str]) -> Lease:
    """The lease without them, in one write. Runs that wait come out first, so that none of them becomes a holder on the
    way.
    """
    for run_id in sorted((claim.run_id for claim in ended), key=lease.held_by):
        lease = leases.release(lease, run_id=run_id, now=now, slots=slots)
    return lease


def _clean_orphans(rt: Runtime) -> tuple[str, ...]:
    """Delete workloads of runs that neither hold, nor wait, nor run."""
    found = {
        obj["metadata"]["labels"][names.RUN_LABEL]
        for kind in WORKLOAD_KINDS
        for obj in rt.kube.list(kind, namespace=names.NAMESPACE, selector=names.RUN_LABEL)
    }
    # Asked after the objects were seen: a run that began in between is not taken for an orphan.
    claimed = {claim.run_id for queue in (rt.lease, rt.turns) for claim in _claims(queue)}
    alive = {names.run_label(run_id) for run_id in claimed | executions.running(rt, machine=_machine(rt))}
    orphans = sorted(found - alive)
    for label in orphans:
        delete_workloads(rt.kube, selector=f"{names.RUN_LABEL}={label}")
    return tuple(orphans)


def _machine(rt: Runtime) -> str:
    return rt.environ["STATE_MACHINE_ARN"]


def _claims(queue: LeaseStore) -> tuple[Claim, ...]:
    """The claims in a queue. Empty if it cannot be read: running executions are known without it."""
    try:
        return queue.read().claims
    except Exception:
        logs.LOGGER.exception("a queue cannot be read")
        return ()


def _too_many(slots: Sequence[str], count: Counter[str], wanted: Lease) -> dict[str, int]:
    """Nodes of each pool above the number that `wanted` asks for. It includes pools that a smaller deployment no longer
    has.
    """
    return {pool: max(0, count[pool] - wanted.replicas_of(pool)) for pool in (*slots, *sorted(set(count) - set(slots)))}


def _ages_s(slots: Sequence[str], lease: Lease, now: datetime) -> dict[str, float]:
    """0 while no run holds the node. Above 0 from the first moment on, whatever the clocks say (LeaseStore)."""
    since = {claim.pool: claim.held_since for claim in lease.holders if claim.held_since}
    return {pool: max(1.0, (now - since[pool]).total_seconds()) if pool in since else 0.0 for pool in slots}


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Takes any event (of a schedule, an execution's end, a user): it looks at everything in any case."""
    return run_step(watch, {"run_id": "watchdog"}, context)
