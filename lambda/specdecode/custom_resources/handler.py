"""The Lambda handler of the guards. It always answers CloudFormation: else the stack would hang for an hour."""

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import urllib3
from botocore.exceptions import ClientError
from pydantic import BaseModel, ConfigDict, Field

from specdecode import aws, names
from specdecode.custom_resources import in_use
from specdecode.custom_resources.waiting import (
    ASKED_ONCE,
    DEADLINE,
    LIMIT_S,
    READABLE_S,
    REFUSED_S,
    SECOND_DEADLINE,
    SOON_S,
    Context,
    HandedOver,
    StillThere,
    readable,
    wait_until_gone,
    works,
)
from specdecode.experiment import kept
from specdecode.kubernetes.connect import connect
from specdecode.kubernetes.node_group import pools_of
from specdecode.kubernetes.pools import Pools
from specdecode.runs.lease import LeaseStore

REASON_LIMIT = 3000
"""Most characters of a reason that CloudFormation shows."""


class Request(BaseModel):
    """CloudFormation's request. Keys that no guard reads are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    RequestType: Literal["Create", "Update", "Delete"]
    RequestId: str
    ResponseURL: str
    StackId: str
    LogicalResourceId: str
    PhysicalResourceId: str | None = None
    ResourceProperties: dict[str, Any] = Field(default_factory=dict)
    OldResourceProperties: dict[str, Any] | None = None

    @property
    def identity(self) -> str:
        """The physical id to answer with if there is no new one."""
        return self.PhysicalResourceId or self.LogicalResourceId


def answer(request: Request, *, physical_id: str, failure: str | None = None) -> None:
    """Tell CloudFormation that the request is done, or why it failed. Raises urllib3's errors if it cannot be told."""
    body = {
        "Status": "FAILED" if failure else "SUCCESS",
        "Reason": (failure or "")[:REASON_LIMIT],
        "PhysicalResourceId": physical_id,
        "StackId": request.StackId,
        "RequestId": request.RequestId,
        "LogicalResourceId": request.LogicalResourceId,
    }
    http = urllib3.PoolManager(retries=urllib3.Retry(5, backoff_factor=1.0, allowed_methods={"PUT"}))
    # An empty content type: the URL was signed without one.
    http.request("PUT", request.ResponseURL, body=json.dumps(body).encode(), headers={"Content-Type": ""})


LOGGER = logging.getLogger("specdecode")

Act = Callable[[Request, dict[str, Any], Context, Pools], str]
"""Does what a request asks for and returns the physical id. Raises Refused to refuse it."""


class Refused(Exception):
    """The change must not be made now. The message says why and what to do."""


def settings(request: Request) -> str:
    """Refuse settings that drop or change one of SpecDecodeStack, which is deployed last, unless they say which value
    they replace, and those that cannot change (ADR 199). A rollback, which brings the old ones back, is let through.
    """
    given, stacks = request.ResourceProperties, aws.client("cloudformation")
    if request.RequestType == "Delete":
        return request.identity
    is_last = f":stack/{names.STACK}/" in request.StackId
    deployed = (request.OldResourceProperties or {}).get("Settings", {}) if is_last else kept.of_stack(stacks) or {}
    reason = kept.refusal(deployed, given["Settings"], given.get("Replaces", {}))
    if reason:
        (stack,) = stacks.describe_stacks(StackName=request.StackId)["Stacks"]
        if "ROLLBACK" not in stack["StackStatus"]:
            raise Refused(reason)
    return request.identity


def update(request: Request, event: dict[str, Any], context: Context, pools: Pools) -> str:
    """Allow a change of what the node depends on only while no run has it."""
    return _let_through(
        request,
        lambda: in_use.in_use(pools),
        "This deployment would change the NodePool, Karpenter or the Neuron driver, and {}. It would end the run, "
        "because applying the NodePool anew puts it back to 0 replicas.",
    )


def code(request: Request, event: dict[str, Any], context: Context, pools: Pools) -> str:
    """Allow a change of the code of functions and pods only while no run goes on."""
    return _let_through(
        request,
        lambda: in_use.in_use(pools) or in_use.at_work(pools.kube),
        "This deployment would change the code of the pipeline and of its pods, and {}. Its pods would be refused the "
        "code that they were made for, and other code would carry out its next step.",
    )


def _let_through(request: Request, in_the_way: Callable[[], str | None], refusal: str) -> str:
    """The physical id holds the digest that was last accepted.

    A refused update that is rolled back asks for it again. That is accepted: nothing was changed.
    """
    watched = json.dumps(request.ResourceProperties.get("Watched"), sort_keys=True)
    digest = hashlib.sha256(watched.encode()).hexdigest()[:16]
    identity = f"update-guard-{digest}"
    if request.RequestType == "Delete":
        return request.identity
    if request.RequestType == "Update" and request.PhysicalResourceId != identity:
        reason = in_the_way()
        if reason:
            raise Refused(
                refusal.format(reason)
                + " Wait for the run (`specdecode status`) or stop it (`specdecode stop`), then deploy again. "
                "Nothing was changed."
            )
    return identity


def drain(request: Request, event: dict[str, Any], context: Context, pools: Pools) -> str:
    """On deletion, wait for the last NodeClaim to go: after the NodePools are deleted, and before Karpenter is."""
    if request.RequestType == "Delete":
        _wait(lambda: in_use.delete_node_claims(pools.kube), event, context)
    return request.identity


def teardown(request: Request, event: dict[str, Any], context: Context, pools: Pools) -> str:
    """On deletion, close the lease, so that no run gets a node any more. Then stop executions, delete their workloads
    and wait until the node is gone; each look does all of it, since a list of executions may be late. Then detach the
    policies of the backstop from Karpenter's role: else neither could be deleted.

    Nothing opens the lease again: a stack that could not be deleted can only be deleted again.
    """

    def look() -> list[str]:
        with contextlib.suppress(s3.exceptions.NoSuchBucket):  # then there is no lease, and no run can get a node
            lease.close()
        return _stop_executions(str(given["StateMachineArn"])) + in_use.give_up(pools)

    if request.RequestType == "Delete":
        given, s3 = request.ResourceProperties, aws.client("s3")
        lease = LeaseStore(s3=s3, bucket=str(given["Bucket"]))
        _wait(look, event, context)
        for policy in given.get("NoLaunchPolicies", ()):
            _detach(role=str(given["KarpenterRole"]), policy=str(policy))
    return request.identity


def ready(request: Request, event: dict[str, Any], context: Context, pools: Pools) -> str:
    """Accept a deployment only if Karpenter calls its NodePools and node classes Ready.

    A dry run that AWS refused is waited for much longer: Karpenter repeats it only after it forgets the refusal.
    """
    if request.RequestType != "Delete":
        watched = [str(name) for name in request.ResourceProperties["Pools"]]
        otherwise = (
            "Karpenter would launch no node: {}. A run would wait for its node in vain. What to do is in "
            "docs/operations.md, under `ReadyGuard`."
        )
        if SECOND_DEADLINE not in event:
            but_refused = partial(in_use.not_ready, pools.kube, watched, but_refused=True)
            _wait(but_refused, event, context, limit_s=SOON_S, otherwise=otherwise)
        everything = partial(in_use.not_ready, pools.kube, watched)
        _wait(everything, event, context, limit_s=REFUSED_S, key=SECOND_DEADLINE, otherwise=otherwise)
    return request.identity


def retention(request: Request, event: dict[str, Any], context: Context, pools: Pools) -> str:
    """Make each missing log group of those that AWS writes under fixed names and keeps for ever (of EKS and of
    Container Insights), and let each delete its lines after some days. They stay when the stack is deleted: EKS and the
    agent's pods make them again with their last lines (terraform-aws-eks#920, #2446), so a stack that owned them could
    not be deployed again.
    """
    if request.RequestType != "Delete":
        given, logs = request.ResourceProperties, aws.client("logs")
        for name in map(str, given["Groups"]):
            with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
                logs.create_log_group(logGroupName=name)
            logs.put_retention_policy(logGroupName=name, retentionInDays=int(given["Days"]))
    return request.identity


def beat(request: Request, event: dict[str, Any], context: Context, pools: Pools) -> str:
    """On creation, run the watchdog once and look for its heartbeat, before the alarm on it exists.

    Only an error of the watchdog itself fails the deployment: a heartbeat that is shown too late costs one false mail.
    """
    if request.RequestType == "Create":
        given = request.ResourceProperties
        if SECOND_DEADLINE not in event:
            _wait(
                works(str(given["Function"]), lambda_client=aws.client("lambda", config=ASKED_ONCE)),
                event,
                context,
                limit_s=SOON_S,
                otherwise="The watchdog, which gives the node back when nothing else does, does not work: {}. Its log "
                "group has the rest.",
            )
        namespace, metric = str(given["Namespace"]), str(given["Metric"])
        seen = readable(namespace=namespace, metric=metric, metrics=aws.client("cloudwatch"))
        try:
            _wait(seen, event, context, limit_s=READABLE_S, key=SECOND_DEADLINE, otherwise="{}")
        except Refused as late:
            LOGGER.warning("%s. The watchdog works; the alarm NoHeartbeat may send one false mail.", late)
    return request.identity


def _stop_executions(state_machine_arn: str) -> list[str]:
    """Stop all that run. Returns them: each may be in the middle of a call."""
    states = aws.client("stepfunctions")
    pages = states.get_paginator("list_executions").paginate(stateMachineArn=state_machine_arn, statusFilter="RUNNING")
    found = [str(item["executionArn"]) for page in pages for item in page["executions"]]
    for arn in found:
        states.stop_execution(executionArn=arn, error="StackDeleted", cause="SpecDecodeStack is being deleted")
    return [f"execution {arn.rpartition(':')[2]}" for arn in found]


def _detach(*, role: str, policy: str) -> None:
    try:
        aws.client("iam").detach_role_policy(RoleName=role, PolicyArn=policy)
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchEntity":
            raise


_INSTANCES_LEFT = (
    "Still there after the time that CloudFormation gives: {}. An instance may still be billed. See why with `kubectl "
    "describe nodeclaims`, then delete the stack again."
)


def _wait(
    look: Callable[[], list[str]],
    event: dict[str, Any],
    context: Context,
    *,
    limit_s: float = LIMIT_S,
    key: str = DEADLINE,
    otherwise: str = _INSTANCES_LEFT,
) -> None:
    """Wait until `look` names nothing any more. After `limit_s` raise Refused with `otherwise` and the names."""
    try:
        wait_until_gone(
            look, event=event, context=context, lambda_client=aws.client("lambda"), limit_s=limit_s, key=key
        )
    except StillThere as error:
        raise Refused(otherwise.format(error)) from error


_ACTS: dict[str, Act] = {
    "update": update,
    "code": code,
    "drain": drain,
    "teardown": teardown,
    "ready": ready,
    "retention": retention,
    "beat": beat,
}


def handler(event: dict[str, Any], context: Context) -> None:
    """Run the guard that the resource's property `Guard` names, and answer."""
    request = Request.model_validate(event)
    try:
        guard = str(request.ResourceProperties["Guard"])
        if guard == "settings":  # there may be no cluster yet
            identity = settings(request)
        else:
            act = _ACTS[guard]
            identity = act(request, event, context, pools_of(connect(os.environ), os.environ, aws.client))
    except HandedOver:
        return
    except Exception as error:
        message = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        answer(request, physical_id=request.identity, failure=message)
        return
    answer(request, physical_id=identity)
