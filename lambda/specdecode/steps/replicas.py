"""Which runs go on, as Step Functions knows it, and the NodePools' replicas, which follow the lease (ADR 52)."""

from collections.abc import Sequence

from botocore.exceptions import ClientError

from specdecode.kubernetes.pools import Pools
from specdecode.runs.lease import Claim, Lease, LeaseStore
from specdecode.steps.runtime import Runtime

LOOKS = 5
"""How often the replicas are set again if the lease changes meanwhile. After that the next look goes on."""


def running(rt: Runtime, *, machine: str) -> set[str]:
    """Run ids of all running executions of the state machine with the ARN `machine`. The list may be seconds old."""
    listing = rt.clients("stepfunctions").get_paginator("list_executions")
    pages = listing.paginate(stateMachineArn=machine, statusFilter="RUNNING")
    return {item["name"] for page in pages for item in page["executions"]}


def is_running(rt: Runtime, claim: Claim, *, machine: str) -> bool:
    """Whether the claim's execution runs. Not if Step Functions no longer knows it, nor if it is not of the machine:
    nobody could ever end such a claim.
    """
    arn = f"{machine.replace(':stateMachine:', ':execution:')}:{claim.run_id}"
    if claim.execution_arn != arn:
        return False
    try:
        found = rt.clients("stepfunctions").describe_execution(executionArn=arn)
    except ClientError as error:
        if error.response["Error"]["Code"] in {"ExecutionDoesNotExist", "InvalidArn"}:
            return False
        raise
    return found["status"] in {"RUNNING", "PENDING_REDRIVE"}


def set_replicas(pools: Pools, lease: Lease, slots: Sequence[str]) -> None:
    """Set the replicas of the pools `slots`: 1 if a run holds the pool, else 0. Missing pools are skipped.

    Pools that get 0 come first. If one cannot be scaled, the others still are, and its error is raised at the end.
    """
    failed: Exception | None = None
    for name in sorted(slots, key=lease.replicas_of):
        try:
            wanted = lease.replicas_of(name)
            if pools.replicas(name) not in (None, wanted):
                pools.scale(name, wanted)
        except Exception as error:
            failed = failed or error
    if failed:
        raise failed


def follow_lease(pools: Pools, lease: LeaseStore, *, known: Lease | None = None) -> Lease:
    """Set the replicas to what the lease says, also if it changes meanwhile. Returns the lease that they follow.

    `known`: what the caller has just stored or read. It is read again after the scaling: another run may have become a
    holder in between, and a slow release must not leave it without its node.
    """
    wanted = known or lease.read()
    for _ in range(LOOKS):
        set_replicas(pools, wanted, lease.slots)
        after = lease.read()
        if after.pools == wanted.pools:
            break
        wanted = after
    return wanted
