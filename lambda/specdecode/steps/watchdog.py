"""The watchdog: lease, workloads and replicas follow the executions that run, whatever happened to a state machine.

It need not know more of them, so it works even if a machine never reached its own release. The node comes first. A part
that fails stops no other part; failures are counted, so that a person gets an alarm.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict

from specdecode import names
from specdecode.giving_back import CLAIM_GRACE_MINUTES
from specdecode.kubernetes.pods import created_at
from specdecode.kubernetes.pools import NodePools
from specdecode.kubernetes.resources import WORKLOAD_KINDS, KubeObject, name_of, parse_time
from specdecode.kubernetes.teardown import delete_workloads
from specdecode.runs import lease as leases
from specdecode.runs.lease import Claim, Lease, LeaseDamaged, LeaseStore
from specdecode.steps import logs, replicas
from specdecode.steps.logs import Guarded
from specdecode.steps.replicas import follow_lease, set_replicas
from specdecode.steps.runtime import Runtime, StepInput, run_step


class Reconciled(BaseModel):
    model_config = ConfigDict(frozen=True)

    ended: tuple[str, ...] = ()
    """Runs that held or waited though their execution had ended."""
    executions: int | None = None
    """Those that go on. None if Step Functions cannot be asked."""
    cleaned: tuple[str, ...] = ()
    """Values of the run label whose workloads were deleted because no run claims them."""
    replicas: int | None = None
    """Of the NodePools now. None if they were left as they are: it is not known which run holds the node."""
    nodes: int | None = None
    """Instances that are billed. None if they cannot be counted."""
    too_many: dict[str, int] | None = None
    """NodePool -> its nodes above the number that the lease asks for. None if that is not known."""
    deleted: tuple[str, ...] = ()
    """NodeClaims that Karpenter had not begun to end though the replicas are 0."""
    ages_s: dict[str, float] = {}
    """NodePool -> seconds for which its node has been held. 0 if no run holds it."""
    holding: int = 0
    waiting: int = 0
    problems: tuple[str, ...] = ()
    """What could not be done, each with its reason."""


EXECUTIONS, NODE, COUNT = "the running executions", "the node", "the nodes"
GRACE = timedelta(minutes=CLAIM_GRACE_MINUTES)


def watch(_: StepInput, rt: Runtime) -> Reconciled:
    """One round; a second one changes nothing more. No object that cannot be deleted keeps the node: it comes first."""
    parts = Guarded()
    running: set[str] | None = None
    with parts.part(EXECUTIONS):
        running = replicas.running(rt, machine=_machine(rt))
    lease, ended, wanted = _nodes(rt, running, parts)
    with parts.part("the queue of the servers that already run"):
        ended += _turns(rt, running, parts)
    count: Counter[str] | None = None
    deleted: tuple[str, ...] = ()
    cleaned: tuple[str, ...] = ()
    with parts.part(COUNT):
        if wanted is not None and rt.ends_nodes:
            deleted = delete_left(rt.node_pools, rt.lease, now=rt.now())
        count = rt.pools.billed()
    with parts.part("workloads that no run stands for"):
        cleaned = _clean_orphans(rt)
    found = Reconciled(
        ended=tuple(claim.run_id for claim in ended),
        executions=None if running is None else len(running),
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
    with parts.part("the metrics"):
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
        ended = _ended(rt, rt.queue.read(), running, parts)
        if ended:
            rt.queue.update(partial(_without, ended=ended, now=rt.now(), slots=rt.queue.slots))
        return ended
    except LeaseDamaged as damage:
        _mend(rt.queue, damage, running, parts)
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
        return [claim for claim in asked if not replicas.is_running(rt, claim, machine=_machine(rt))]
    return []


def _without(lease: Lease, *, ended: Sequence[Claim], now: datetime, slots: Sequence[str]) -> Lease:
    """The lease without them, in one write. Runs that wait come out first, so that none becomes a holder on the way."""
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
    claimed = {claim.run_id for queue in (rt.lease, rt.queue) for claim in _read(queue).claims}
    alive = {names.run_label(run_id) for run_id in claimed | replicas.running(rt, machine=_machine(rt))}
    orphans = sorted(found - alive)
    for label in orphans:
        delete_workloads(rt.kube, selector=f"{names.RUN_LABEL}={label}")
    return tuple(orphans)


def _machine(rt: Runtime) -> str:
    return rt.environ["STATE_MACHINE_ARN"]


def _read(queue: LeaseStore) -> Lease:
    """The lease. Empty if it cannot be read: no run can hold by it, and running executions are known without it."""
    try:
        return queue.read()
    except Exception:
        logs.LOGGER.exception("a queue cannot be read")
        return Lease()


def _too_many(slots: Sequence[str], count: Counter[str], wanted: Lease) -> dict[str, int]:
    """Nodes of each pool above those that `wanted` asks for, also of pools that a smaller deployment no longer has."""
    return {pool: max(0, count[pool] - wanted.replicas_of(pool)) for pool in (*slots, *sorted(set(count) - set(slots)))}


def _ages_s(slots: Sequence[str], lease: Lease, now: datetime) -> dict[str, float]:
    """0 while no run holds the node. Above 0 from the first moment on, whatever the clocks say (LeaseStore)."""
    since = {claim.pool: claim.held_since for claim in lease.holders if claim.held_since}
    return {pool: max(1.0, (now - since[pool]).total_seconds()) if pool in since else 0.0 for pool in slots}


def delete_left(pools: NodePools, lease: LeaseStore, *, now: datetime) -> tuple[str, ...]:
    """Delete NodeClaims that Karpenter has not begun to end GRACE after their pool went to 0 replicas; their names.

    Only of pools whose node no run holds: by a lease that is damaged nobody does. One that cannot be read says nothing,
    and its error is raised. RBAC cannot limit the right to them, since Karpenter makes their names up. The label does
    it, here.
    """
    left = [claim for claim in pools.claims() if "deletionTimestamp" not in claim["metadata"]]
    slots = {name_of(claim): str(pools.slot_of(claim)) for claim in left}
    scaled = {slot: _scaled_at(pools.get(slot)) for slot in set(slots.values())}
    old = [claim for claim in left if now - max(scaled[slots[name_of(claim)]], created_at(claim)) > GRACE]
    if not old:
        return ()
    try:
        held = lease.read().pools
    except LeaseDamaged:
        held = frozenset()
    deleted = [name_of(claim) for claim in old if slots[name_of(claim)] not in held]
    for name in deleted:
        pools.kube.delete("NodeClaim", name)
    return tuple(deleted)


def _scaled_at(pool: KubeObject | None) -> datetime:
    """When the pool was last scaled, by metadata.managedFields. Its creation if it was never scaled."""
    if pool is None:
        return datetime.fromtimestamp(0, UTC)
    entries = pool["metadata"].get("managedFields") or []
    times = [parse_time(entry["time"]) for entry in entries if entry.get("subresource") == "scale" and "time" in entry]
    return max([created_at(pool), *times])


def publish(rt: Runtime, found: Reconciled, *, beats: bool) -> None:
    """Publish the metrics. The heartbeat says that the nodes are as they must be, if the watchdog can do that.

    Those of each pool by itself are for the backstop, which ends no other run's instance.
    """
    metrics: list[tuple[str, float | None, str]] = [
        ("WatchdogHeartbeat", 1 if beats else None, ""),
        ("Nodes", found.nodes, ""),
        ("NodesWithoutLease", None if found.too_many is None else sum(found.too_many.values()), ""),
        ("RunsHolding", found.holding, ""),
        ("RunsWaiting", found.waiting, ""),
        ("RunsReleasedByWatchdog", len(found.ended), ""),
        ("WatchdogProblems", len(found.problems), ""),
        ("LeaseAge", max(found.ages_s.values()), ""),
        *(("LeaseAge", age, slot) for slot, age in found.ages_s.items()),
        *(("NodesWithoutLease", count, slot) for slot, count in (found.too_many or {}).items()),
    ]
    data = [
        {"MetricName": name, "Value": value, "Unit": "Seconds" if name == "LeaseAge" else "Count"}
        | ({"Dimensions": [{"Name": "NodePool", "Value": rt.pools.name(slot)}]} if slot else {})
        for name, value, slot in metrics
        if value is not None
    ]
    rt.clients("cloudwatch").put_metric_data(Namespace=rt.environ["OPERATIONS_NAMESPACE"], MetricData=data)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Takes any event (of a schedule, an execution's end, a user): it looks at everything in any case."""
    return run_step(watch, {"run_id": "watchdog"}, context)
