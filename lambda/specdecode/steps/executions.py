"""Which runs go on, as Step Functions knows it. Used where the bucket's documents may be missing."""

from botocore.exceptions import ClientError

from specdecode.runs.lease import Claim
from specdecode.steps.runtime import Runtime

GOES_ON = frozenset({"RUNNING", "PENDING_REDRIVE"})
"""Step Functions' state of an execution that has not ended."""


def arn_of(run_id: str, *, machine: str) -> str:
    """ARN of the execution called `run_id` of the state machine with the ARN `machine`."""
    return f"{machine.replace(':stateMachine:', ':execution:')}:{run_id}"


def machine_of(execution_arn: str) -> str:
    """ARN of an execution's state machine."""
    return execution_arn.rpartition(":")[0].replace(":execution:", ":stateMachine:")


def running(rt: Runtime, *, machine: str) -> set[str]:
    """Run ids of all running executions of the state machine with the ARN `machine`. The list may be seconds old."""
    pages = (
        rt.clients("stepfunctions")
        .get_paginator("list_executions")
        .paginate(stateMachineArn=machine, statusFilter="RUNNING")
    )
    return {item["name"] for page in pages for item in page["executions"]}


def is_running(rt: Runtime, claim: Claim, *, machine: str) -> bool:
    """Whether the claim's execution runs. False if Step Functions no longer knows it, or if it is not of the machine:
    nobody could ever end such a claim.
    """
    return claim.execution_arn == arn_of(claim.run_id, machine=machine) and goes_on(rt, claim.run_id, machine=machine)


def goes_on(rt: Runtime, run_id: str, *, machine: str) -> bool:
    """Whether the run's execution runs. False if Step Functions does not know it."""
    try:
        found = rt.clients("stepfunctions").describe_execution(executionArn=arn_of(run_id, machine=machine))
    except ClientError as error:
        if error.response["Error"]["Code"] in {"ExecutionDoesNotExist", "InvalidArn"}:
            return False
        raise
    return found["status"] in GOES_ON
