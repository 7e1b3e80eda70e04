"""`specdecode destroy`: deletes the deployment's stacks, after it said what goes, what stays and what that costs.

`cdk destroy` of stacks that are not in the region says "destroyed" all the same (aws-cdk#22240).
"""

import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any

from specdecode.cli.options import Profile, Region, Yes
from specdecode.cli.output import EXIT_ENVIRONMENT, EXIT_FAILED, agree, say, stop_with
from specdecode.names import CLUSTER_STACK, STACK

if TYPE_CHECKING:
    from specdecode.experiment.deployment_facts import DeploymentFacts

PAUSE_S = 15.0
OURS = "(specdecode "
"""A part of the description of each of our stacks."""
MOST_PAGES = 50
"""Most pages of a thousand objects that are counted of a bucket."""


def destroy(yes: Yes = False, region: Region = None, profile: Profile = None) -> None:
    """Delete the deployment: runs end, nodes go, then both stacks. It says first what goes, what stays and its cost.

    It takes 20 to 40 minutes. If you end the command, the deletion goes on: call it again to follow it.

    Exit codes: 0 deleted, 1 not agreed to or a stack could not be deleted, 3 there is no deployment in that region.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    from specdecode.cli.aws_errors import what_to_do
    from specdecode.cli.runs_deployment import session_of

    session = session_of(region, profile)
    try:
        stacks = _stacks(session.client("cloudformation"))
        if not stacks:
            elsewhere = [name for name in session.get_available_regions("eks") if name != session.region_name]
            there = [name for name in elsewhere if _is_in(session, name)]
            hint = "; ".join(f"one is in {name}: `.venv/bin/specdecode destroy --region {name}`" for name in there)
            hint = hint or "nor in another region that these credentials may look at"
            said = f"there is no deployment in {session.region_name}: nothing was deleted ({hint})"
            raise stop_with(said, EXIT_ENVIRONMENT)
        for line in consequences(session, stacks):
            say(line)
        agree(
            f"Delete {' and '.join(stacks)} in {session.region_name}?", yes=yes, ask=True, refused="nothing was deleted"
        )
        for name, stack in stacks.items():
            _delete(session.client("cloudformation"), name, stack)
    except (ClientError, BotoCoreError) as error:
        hint = f"{what_to_do(error)}; `npx cdk destroy --all` does it with the CDK's own roles"
        raise stop_with(f"{error} ({hint})", EXIT_ENVIRONMENT) from None


def _stacks(cloudformation: Any) -> dict[str, dict[str, Any]]:
    """Our stacks that are there, in the order in which they must go."""
    from specdecode.cli.runs_deployment import stack_named

    found = {name: stack_named(cloudformation, name) or {} for name in (STACK, CLUSTER_STACK)}
    gone = "DELETE_COMPLETE"
    return {n: s for n, s in found.items() if OURS in s.get("Description", "") and s["StackStatus"] != gone}


def _is_in(session: Any, region: str) -> bool:
    """Whether a region has a deployment. Regions that are off, or that may not be looked at, count as without."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    once = Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 1})
    cloudformation = session.client("cloudformation", region_name=region, config=once)
    try:
        return bool(_stacks(cloudformation))
    except (ClientError, BotoCoreError):
        return False


def consequences(session: Any, stacks: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What goes, what stays, and what each costs."""
    from specdecode.experiment import kept, prices
    from specdecode.experiment.deployment_facts import DeploymentFacts
    from specdecode.experiment.standing import DESTROY_MINUTES

    outputs = {item["OutputKey"]: item["OutputValue"] for stack in stacks.values() for item in stack.get("Outputs", ())}
    low, high = DESTROY_MINUTES
    standing = " and ".join(f"{name} ({stack['StackStatus']})" for name, stack in stacks.items())
    yield f"{session.region_name} has {standing}"
    if resting := json.loads(outputs.get("Capacity", "{}")).get("resting_price_per_hour"):
        yield f"  what ends: {resting:.2f} USD an hour, what it costs at rest"
    if machine := outputs.get("StateMachineArn"):
        going = session.client("stepfunctions").list_executions(stateMachineArn=machine, statusFilter="RUNNING")
        if names := [item["name"] for item in going["executions"]]:
            yield f"  runs that are ended: {', '.join(names)}"
    settings = kept.of_stack(session.client("cloudformation")) or {}
    if settings.get("removal_policy") == "destroy":
        yield "  the bucket goes too, with all models, artifacts and results"
    elif bucket := outputs.get("BucketName"):
        yield f"  what stays: the bucket {bucket}, {_size(session.client('s3'), bucket)}, and that of its access logs"
        if settings.get("bucket_encryption") == "kms":
            yield f"  what stays: their KMS key at ${prices.KEY.usd:.2f} a month; without it the bucket cannot be read"
    if facts := outputs.get("DeploymentFacts"):
        yield from _paid_nodes(DeploymentFacts.model_validate_json(facts))
    yield "  what stays: five log groups, empty after log_retention_days, and the CDK's own stack CDKToolkit"
    yield f"  it takes {low} to {high} minutes"


def _paid_nodes(facts: "DeploymentFacts") -> Iterator[str]:
    """The nodes that are billed without the deployment too. Nobody can cancel a Capacity Block (EC2 API Reference,
    CancelCapacityReservation).
    """
    price, own, reserved = facts.node_price or 0, facts.existing, facts.reservation
    if own and not (own.node_role or own.node_group):
        yield f"  what stays: your nodes, {price:.2f} USD an hour for a {facts.node}"
    elif facts.block_end:
        end = f"{facts.block_end.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        yield f"  what stays: the Capacity Block {reserved}, paid for in advance, until its end ({end})"
    elif reserved:
        yield (
            f"  what stays: the On-Demand Capacity Reservation {reserved}, {facts.nodes * price:.2f} USD an hour, "
            f"until `aws ec2 cancel-capacity-reservation --region {facts.region} --capacity-reservation-id {reserved}`"
        )


def _size(s3: Any, bucket: str) -> str:
    from specdecode.experiment import prices

    size, pages = 0, 0
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        size += sum(item["Size"] for item in page.get("Contents", ()))
        pages += 1
        if pages == MOST_PAGES:
            break
    more = " or more" if pages == MOST_PAGES else ""
    return f"{size / 1e9:.1f} GB{more} at ${size / 1e9 * prices.STORAGE.usd:.2f} a month"


def _delete(cloudformation: Any, name: str, stack: Mapping[str, Any]) -> None:
    """Delete a stack and wait until it is gone. Ends the command with 1 if it cannot be deleted."""
    began, identity = time.monotonic(), stack["StackId"]
    cloudformation.delete_stack(StackName=identity)
    say(f"{name} is being deleted …")
    while True:
        status = cloudformation.describe_stacks(StackName=identity)["Stacks"][0]["StackStatus"]
        if status == "DELETE_COMPLETE":
            say(f"{name} is gone, after {(time.monotonic() - began) / 60:.0f} min")
            return
        if status.endswith("FAILED"):
            events = cloudformation.describe_stack_events(StackName=identity)["StackEvents"]
            failed = [item for item in events if item["ResourceStatus"] == "DELETE_FAILED"]
            why = [f"{item['LogicalResourceId']}: {item.get('ResourceStatusReason', '')}" for item in failed]
            listed = "\n  ".join(why[:5])
            raise stop_with(
                f"{name} could not be deleted:\n  {listed}\nIt is billed until it is gone (docs/operations.md#destroy)",
                EXIT_FAILED,
            )
        time.sleep(PAUSE_S)
