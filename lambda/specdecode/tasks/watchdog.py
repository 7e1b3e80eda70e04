"""The watchdog: whatever became of the state machines, lease, workloads and replicas follow the running executions.

It needs nothing of an execution but whether it runs, so that it suffices when a machine never reached its own release.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from botocore.exceptions import ClientError
from pydantic import BaseModel, ConfigDict

from specdecode import names
from specdecode.cluster import lease as leases
from specdecode.cluster.lease import Claim, Lease
from specdecode.cluster.resources import WORKLOAD_KINDS
from specdecode.cluster.teardown import delete_workloads
from specdecode.tasks.capacity import NODEPOOL_LABEL, follow_lease
from specdecode.tasks.runtime import Runtime, StepInput, run_step


class Reconciled(BaseModel):
    """What the watchdog found and did."""

    model_config = ConfigDict(frozen=True)

    ended: tuple[str, ...]
    """Runs that held or waited though their execution no longer runs."""
    cleaned: tuple[str, ...]
    """Values of the run label whose workloads were deleted because no claim stands for them."""
    replicas: int
    nodes: int
    """NodeClaims of the trn2 pool; each is an instance that bills."""
    lease_age_s: float
    """How long the run that holds the node has held it; 0 where none does."""

    @property
    def nodes_without_lease(self) -> int:
        return self.nodes if self.replicas == 0 else 0


def watch(given: StepInput, rt: Runtime) -> Reconciled:
    """One round; running it again changes nothing more.

    The node is given up before workloads are deleted: an object that cannot be deleted must not keep it.
    """
    running, ended = _running(rt), list[Claim]()
    for queue in (rt.lease, rt.turns):
        if over := _ended(rt, queue.read(), running):
            queue.update(partial(_release_all, run_ids=[claim.run_id for claim in over], now=rt.now()))
            ended += over
    replicas = follow_lease(rt.kube, rt.lease)
    result = Reconciled(
        ended=tuple(claim.run_id for claim in ended),
        cleaned=_clean_orphans(rt),
        replicas=replicas,
        nodes=_nodes(rt),
        lease_age_s=_lease_age_s(rt),
    )
    _publish(rt, result)
    return result


def _ended(rt: Runtime, lease: Lease, running: set[str]) -> list[Claim]:
    """Claims whose execution no longer runs. The listing of those that run is one question however long the queue, but
    may lag behind: the holder, and whoever is missing in it, is asked for by name.
    """
    asked = [claim for claim in lease.claims if claim == lease.holder or claim.run_id not in running]
    return [claim for claim in asked if not is_running(rt, claim)]


def _release_all(lease: Lease, *, run_ids: Sequence[str], now: datetime) -> Lease:
    """All of them in one write: those that wait first, so that none of them is promoted on the way."""
    for run_id in sorted(run_ids, key=lease.held_by):
        lease = leases.release(lease, run_id=run_id, now=now)
    return lease


def is_running(rt: Runtime, claim: Claim) -> bool:
    """Whether the claim's execution runs; one that Step Functions no longer knows does not."""
    try:
        answer = rt.clients("stepfunctions").describe_execution(executionArn=claim.execution_arn)
    except ClientError as error:
        if error.response["Error"]["Code"] in {"ExecutionDoesNotExist", "InvalidArn"}:
            return False
        raise
    return str(answer["status"]) in {"RUNNING", "PENDING_REDRIVE"}


def _clean_orphans(rt: Runtime) -> tuple[str, ...]:
    """Delete what belongs to runs that neither hold nor wait nor run."""
    found = {
        obj["metadata"]["labels"][names.RUN_LABEL]
        for kind in WORKLOAD_KINDS
        for obj in rt.kube.list(kind, namespace=names.NAMESPACE, selector=names.RUN_LABEL)
    }
    # Asked after the objects were seen: a run that began in between is not taken for an orphan.
    claimed = {claim.run_id for queue in (rt.lease, rt.turns) for claim in queue.read().claims}
    alive = {names.run_label(run_id) for run_id in claimed | _running(rt)}
    orphans = sorted(found - alive)
    for label in orphans:
        delete_workloads(rt.kube, selector=f"{names.RUN_LABEL}={label}")
    return tuple(orphans)


def _running(rt: Runtime) -> set[str]:
    """Run ids of all executions that run."""
    pages = (
        rt.clients("stepfunctions")
        .get_paginator("list_executions")
        .paginate(stateMachineArn=rt.environ["STATE_MACHINE_ARN"], statusFilter="RUNNING")
    )
    return {item["name"] for page in pages for item in page["executions"]}


def _nodes(rt: Runtime) -> int:
    return len(rt.kube.list("NodeClaim", selector=f"{NODEPOOL_LABEL}={names.NODEPOOL}"))


def _lease_age_s(rt: Runtime) -> float:
    holder = rt.lease.read().holder
    return (rt.now() - holder.held_since).total_seconds() if holder and holder.held_since else 0.0


def _publish(rt: Runtime, result: Reconciled) -> None:
    rt.clients("cloudwatch").put_metric_data(
        Namespace=rt.environ["OPERATIONS_NAMESPACE"],
        MetricData=[
            {"MetricName": "WatchdogHeartbeat", "Value": 1, "Unit": "Count"},
            {"MetricName": "Nodes", "Value": result.nodes, "Unit": "Count"},
            {"MetricName": "LeaseAge", "Value": result.lease_age_s, "Unit": "Seconds"},
            {"MetricName": "NodesWithoutLease", "Value": result.nodes_without_lease, "Unit": "Count"},
            {"MetricName": "RunsReleasedByWatchdog", "Value": len(result.ended), "Unit": "Count"},
        ],
    )


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Takes any event (a schedule's, an execution's end, a person's): it looks at everything anyway."""
    return run_step(watch, {"run_id": "watchdog"}, context)
