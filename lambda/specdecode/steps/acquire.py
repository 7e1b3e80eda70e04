"""AcquireCapacity: wait in the queue, hold the lease, wait for a node with its devices, if the run takes one."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial, wraps

from specdecode import names
from specdecode.experiment import Capacity
from specdecode.experiment.capacity import DRAIN_BEFORE_BLOCK_END_MINUTES
from specdecode.experiment.sizing import unfit
from specdecode.kubernetes.node_room import DRA_DRIVER, room_of_node
from specdecode.kubernetes.pods import is_true, why_hung
from specdecode.kubernetes.pools import PoolBusy
from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.planning.events import QUEUE_LIMIT, QUEUE_POLL_S
from specdecode.planning.timeline import NODE_START_MINUTES
from specdecode.runs import lease as leases
from specdecode.runs.lease import Claim, LeaseStore
from specdecode.runs.state import change_state
from specdecode.steps import logs
from specdecode.steps.errors import CapacityUnavailable, LeaseLost, NodeLost, StepFailed
from specdecode.steps.paid import require_paid_node
from specdecode.steps.replicas import follow_lease
from specdecode.steps.run import Run, attentive, load_run
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step

FEW = 3


def acquire(given: StepInput, rt: Runtime) -> Progress:
    """Done when this run holds the lease and a Ready node of the pool has published its devices. The lease is enough if
    the nodes are not ours to see, or if the arms are servers that already run: two runs that load one would measure
    each other.

    Raises CapacityUnavailable at once if no node can come, and after the deadline with the reason.
    """
    now, run = rt.now(), load_run(rt.store, given.run_id)
    if run.is_all_settled:
        return Progress(done=True, message="nothing is left to measure: no node is needed")
    if not run.plan.experiment.holds_node:
        found = stand_in_line(given, rt, rt.queue)
        return found if isinstance(found, Progress) else Progress(done=True, message="no other run loads such servers")
    shape = run.plan.experiment.shape
    claim = stand_in_line(given, rt, rt.lease, kind=shape.pool)
    if isinstance(claim, Progress):
        return claim
    if run.state.held_since is None:
        require_paid_node(run, rt)
    if not rt.brings_node(claim.pool):
        change_state(rt.store, given.run_id, held_since=claim.held_since or now, pool=claim.pool)
        label = f"{names.ACCELERATOR_LABEL}={claim.pool}"
        return Progress(done=True, message=f"this run is first; the nodes with the label {label} are not ours")
    closed = outside_window(Capacity.model_validate_json(rt.environ["CAPACITY"]).of(shape.name), now)
    if closed:
        raise CapacityUnavailable(closed)
    since, limit = claim.held_since or now, run.plan.experiment.deadlines.capacity
    is_late = now - since > timedelta(minutes=limit)
    try:
        follow_lease(rt.pools, rt.lease)
    except PoolBusy as busy:
        if is_late:
            raise CapacityUnavailable(f"no usable node within {limit} min: {busy}") from None
        return Progress(done=False, message=str(busy), wait_s=run.plan.poll_seconds)
    nodes = rt.pools.nodes(claim.pool)
    slices = rt.kube.list("ResourceSlice") if shape.has_devices else None
    node = usable_node(nodes, slices)
    if node is not None:
        change_state(rt.store, given.run_id, held_since=since, pool=claim.pool, node=node)
        _require_room(next(each for each in nodes if name_of(each) == node), slices, run)
        return Progress(done=True, message=f"node {node} is ready")
    missing = rt.pools.missing(claim.pool, nodes=nodes, since=since, now=now)
    if missing.is_final:
        raise CapacityUnavailable(f"no node can come: {missing.reason}")
    if missing.is_settling:
        return Progress(done=False, message=missing.reason, wait_s=run.plan.poll_seconds)
    reason = missing.reason
    if is_late:
        if nodes or rt.pools.launched(claim.pool):  # it was billed, and the run has its cost
            change_state(rt.store, given.run_id, held_since=since, pool=claim.pool)
        raise CapacityUnavailable(f"no usable node within {limit} min: {reason}")
    wait_s = attentive(run.plan, now - since, expected_min=NODE_START_MINUTES.high)
    return Progress(done=False, message=reason, wait_s=wait_s)


def _require_room(node: KubeObject, slices: Sequence[KubeObject] | None, run: Run) -> None:
    """Refuse a node on which the run's largest pods would wait for ever. It was billed, and the run has its cost."""
    if why := list(unfit(run.plan.served, run.plan.engine, room_of_node(node, slices))):
        raise CapacityUnavailable(f"the node is no place for this run: {'; '.join(why)}")


def stand_in_line(given: StepInput, rt: Runtime, queue: LeaseStore, *, kind: str = names.NODEPOOL) -> Claim | Progress:
    """What the run holds by `queue`, or how it waits. Raises CapacityUnavailable after QUEUE_LIMIT, or if it is full or
    closed.
    """
    now = rt.now()
    asks = partial(leases.request, run_id=given.run_id, execution_arn=given.execution_arn, now=now, kind=kind)
    try:
        lease = queue.update(partial(asks, slots=queue.slots))
    except (leases.QueueFull, leases.Closed) as refused:
        raise CapacityUnavailable(str(refused)) from None
    position = lease.position(given.run_id)
    claim = next(claim for claim in lease.claims if claim.run_id == given.run_id)
    if not position:
        return claim
    if now - claim.queued_at > QUEUE_LIMIT:
        raise CapacityUnavailable(f"still number {position} in the queue after {QUEUE_LIMIT}")
    holders = [held.run_id for held in lease.holders_of(kind)]
    who = ", ".join(holders) if len(holders) <= FEW else f"{len(holders)} runs"
    return Progress(done=False, message=f"number {position} in the queue; held by {who}", wait_s=QUEUE_POLL_S)


def outside_window(capacity: Capacity, now: datetime) -> str | None:
    """Why a Capacity Block gives no node now: it has not begun, or its node will be drained soon. None if it does."""
    if capacity.block_start is not None and now < capacity.block_start:
        return f"the Capacity Block starts at {capacity.block_start.isoformat()}: start the run then"
    if capacity.block_end is not None:
        drained = capacity.block_end - timedelta(minutes=DRAIN_BEFORE_BLOCK_END_MINUTES)
        if now >= drained:
            return (
                f"the Capacity Block's node is drained from {drained.isoformat()} on: deploy with another reservation"
            )
    return None


def usable_node(nodes: Iterable[KubeObject], slices: Iterable[KubeObject] | None) -> str | None:
    """Name of a Ready node whose Neuron devices are in `slices`, or None. `slices` None: nodes have no devices."""
    published = {item["spec"].get("nodeName") for item in slices or () if item["spec"].get("driver") == DRA_DRIVER}
    for node in nodes:
        ready = is_true(node, "Ready") and "deletionTimestamp" not in node["metadata"]
        if ready and (slices is None or name_of(node) in published):
            return name_of(node)
    return None


def require_node(given: StepInput, rt: Runtime, run: Run) -> None:
    """Refuse to go on without the node (or its place). A run that was stopped or released must not come back, and a run
    whose node went away, or does not answer, must not wait for it. Every step on the node asks this first.
    """
    holds_node = run.plan.experiment.holds_node
    lease = (rt.lease if holds_node else rt.queue).read()
    if not lease.held_by(given.run_id):
        holders = ", ".join(claim.run_id for claim in lease.holders) or "nobody"
        what = "its node" if holds_node else "its place at servers that already run"
        raise LeaseLost(f"run {given.run_id} no longer holds {what}; held now by {holders}")
    if not holds_node or not rt.brings_node(run.state.pool or names.NODEPOOL):
        return
    node = next((node for node in rt.kube.list("Node") if name_of(node) == run.state.node), None)
    if node is None:
        raise NodeLost(f"the run's node {run.state.node} no longer exists")
    if hung := why_hung(node, rt.now()):
        raise NodeLost(f"the run's node {run.state.node} {hung}")


Step = Callable[[StepInput, Runtime], Progress]


def on_the_node(step: Callable[[StepInput, Runtime, Run], Progress], *, makes_servers: bool = False) -> Step:
    """`step` of a wave in its run. It is done if nothing is left to do for the wave, and needs the node else.

    `makes_servers`: it has nothing to do for servers that already run, and may not look at their queue.
    """

    @looks_twice
    @wraps(step)
    def begins(given: StepInput, rt: Runtime) -> Progress:
        run = load_run(rt.store, given.run_id)
        if makes_servers and not run.plan.experiment.holds_node:
            return Progress(done=True, message="the servers run already")
        if why := run.settled(given.wave):
            return Progress(done=True, message=why)
        require_node(given, rt, run)
        return step(given, rt, run)

    return begins


def looks_twice(step: Step) -> Step:
    """`step`, and a second look for the node if it fails: pods of a node that went away after the first look show
    everything but that. Where nobody can look, the step's own error stands.
    """

    @wraps(step)
    def looks(given: StepInput, rt: Runtime) -> Progress:
        try:
            return step(given, rt)
        except StepFailed as failed:
            if not isinstance(failed, LeaseLost | NodeLost):
                try:
                    require_node(given, rt, load_run(rt.store, given.run_id))
                except (LeaseLost, NodeLost):
                    raise
                except Exception:
                    logs.LOGGER.exception("nobody could look for the node again")
            raise

    return looks


handler = partial(run_step, acquire)
