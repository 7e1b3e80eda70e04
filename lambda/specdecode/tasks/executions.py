"""Which runs go on, as Step Functions knows it: asked where the bucket's documents may be gone."""

from __future__ import annotations

from botocore.exceptions import ClientError

from specdecode.cluster.lease import Claim
from specdecode.tasks.runtime import Runtime


def machine_of(execution_arn: str) -> str:
    """ARN of the state machine that an execution is of."""
    return execution_arn.rpartition(":")[0].replace(":execution:", ":stateMachine:")


def running(rt: Runtime, *, machine: str) -> set[str]:
    """Run ids of all executions of the state machine with the ARN `machine` that run. The listing may lag seconds."""
    pages = (
        rt.clients("stepfunctions")
        .get_paginator("list_executions")
        .paginate(stateMachineArn=machine, statusFilter="RUNNING")
    )
    return {item["name"] for page in pages for item in page["executions"]}


def is_running(rt: Runtime, claim: Claim, *, machine: str) -> bool:
    """Whether the claim's execution runs. One that Step Functions no longer knows does not, nor one that is not of the
    machine: nobody could ever end it.
    """
    arn = f"{machine.replace(':stateMachine:', ':execution:')}:{claim.run_id}"
    if claim.execution_arn != arn:
        return False
    try:
        answer = rt.clients("stepfunctions").describe_execution(executionArn=arn)
    except ClientError as error:
        if error.response["Error"]["Code"] in {"ExecutionDoesNotExist", "InvalidArn"}:
            return False
        raise
    return str(answer["status"]) in {"RUNNING", "PENDING_REDRIVE"}
