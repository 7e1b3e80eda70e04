"""AcquireCapacity: wait in the queue, hold the lease, wait for a node with its devices."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from specdecode import names
from specdecode.experiment import Capacity
from specdecode.kubernetes.pools import PoolBusy
from specdecode.kubernetes.resources import name_of
from specdecode.planning.cost import NODE_START_MINUTES
from specdecode.runs.state import change_state
from specdecode.steps.errors import CapacityUnavailable, LeaseLost, NodeLost
from specdecode.steps.node_pools import outside_window, usable_node
from specdecode.steps.pace import attentive
from specdecode.steps.replicas import follow_lease
from specdecode.steps.run import Run, load_run
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step
from specdecode.steps.turn import stand_in_line


def acquire(given: StepInput, rt: Runtime) -> Progress:
    """Done when this run holds the lease and a Ready node of the pool has published its devices.

    If the nodes are not ours to see, the lease is enough: the pods show whether there is a node. Raises
    CapacityUnavailable at once if no node can come. After the deadline it raises it with the reason.
    """
    now, run = rt.now(), load_run(rt.store, given.run_id)
    if run.is_all_settled:
        return Progress(done=True, message="nothing is left to measure: no node is needed")
    shape = run.plan.experiment.shape
    claim = stand_in_line(given, rt, rt.lease, kind=shape.pool)
    if isinstance(claim, Progress):
        return claim
    if not rt.brings_node(claim.pool):
        change_state(rt.store, given.run_id, held_since=claim.held_since or now, pool=claim.pool)
        label = f"{names.ACCELERATOR_LABEL}={claim.pool}"
        return Progress(done=True, message=f"it is this run's turn; the nodes with the label {label} are not ours")
    closed = outside_window(Capacity.model_validate_json(rt.environ["CAPACITY"]).of(shape.name), now)
    if closed:
        raise CapacityUnavailable(closed)
    try:
        follow_lease(rt.pools, rt.lease)
    except PoolBusy as busy:
        return Progress(done=False, message=str(busy), wait_s=run.plan.poll_seconds)
    since = claim.held_since or now
    nodes = rt.pools.nodes(claim.pool)
    node = usable_node(nodes, rt.kube.list("ResourceSlice") if shape.has_devices else None)
    if node is not None:
        change_state(rt.store, given.run_id, held_since=since, pool=claim.pool, node=node)
        return Progress(done=True, message=f"node {node} is ready")
    missing = rt.pools.missing(claim.pool, nodes=nodes, since=since, now=now)
    if missing.is_final:
        raise CapacityUnavailable(f"no node can come: {missing.reason}")
    if missing.is_settling:
        return Progress(done=False, message=missing.reason, wait_s=run.plan.poll_seconds)
    reason = missing.reason
    limit = run.plan.experiment.deadlines.capacity
    if now - since > timedelta(minutes=limit):
        if nodes or rt.pools.launched(claim.pool):  # it was billed, and the run has its cost
            change_state(rt.store, given.run_id, held_since=since, pool=claim.pool)
        raise CapacityUnavailable(f"no usable node within {limit} min: {reason}")
    wait_s = attentive(run.plan, now - since, expected_min=NODE_START_MINUTES.high)
    return Progress(done=False, message=reason, wait_s=wait_s)


def require_node(given: StepInput, rt: Runtime, run: Run) -> None:
    """Refuse to go on without the node (or the turn). A run that was stopped or released must not come back, and a run
    whose node went away must not wait for it.
    """
    holds_node = run.plan.experiment.holds_node
    lease = (rt.lease if holds_node else rt.turns).read()
    if not lease.held_by(given.run_id):
        holders = ", ".join(claim.run_id for claim in lease.holders) or "nobody"
        what = "its node" if holds_node else "its turn at servers that already run"
        raise LeaseLost(f"run {given.run_id} no longer holds {what}; held now by {holders}")
    if not holds_node or not rt.brings_node(run.state.pool or names.NODEPOOL):
        return
    if run.state.node not in {name_of(node) for node in rt.kube.list("Node")}:
        raise NodeLost(f"the run's node {run.state.node} no longer exists")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(acquire, event, context)
