"""What an earlier deployment left: things that would stop the next deployment, and things that still cost money."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specdecode.cli.preflight.check import Ask, Check, looked, unless
from specdecode.cli.runs_deployment import stack_named
from specdecode.experiment.kept import deploy_with
from specdecode.names import CLUSTER_STACK, STACK

DEPLOYABLE = frozenset({"REVIEW_IN_PROGRESS", "CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"})
"""States of a stack that `cdk deploy` can continue from."""
ROLLED_BACK = "ROLLBACK_COMPLETE"
"""The first deployment failed and was undone. The CDK CLI deletes such a stack and creates it again (aws-cdk 2.1148.1,
`isCreationFailure` in its deployStack)."""
EMPTY = frozenset({"REVIEW_IN_PROGRESS", ROLLED_BACK})
"""States of a stack that has no resources."""


def leftovers(ask: Ask) -> Iterator[Check]:
    """Everything with our names and tags, before the first deployment. A refused look does not stop the others."""
    found: list[Check] = []
    for name, look in LOOKS.items():
        found += looked(name, lambda look=look: look(ask))  # type: ignore[misc]
    yield from found or [Check("leftovers", "ok", "nothing of an earlier deployment")]


def stacks(ask: Ask) -> Iterator[Check]:
    """A stack that failed must be deleted before it can be created again: by hand, unless the CDK CLI does it."""
    for name in (STACK, CLUSTER_STACK):
        status = state(ask, name)
        if status == ROLLED_BACK:
            detail = f"{status}: its first deployment failed and was undone"
            yield Check(f"stack {name}", "warn", detail, "the next cdk deploy deletes it and creates it again")
        elif status and status not in DEPLOYABLE:
            fix = f"aws cloudformation delete-stack --stack-name {name} --region {ask.region}"
            fix = "wait until it ends" if status.endswith("_IN_PROGRESS") else fix
            yield Check(f"stack {name}", "fail", f"{status}: it cannot be deployed now", fix)


def cluster(ask: Ask) -> Iterator[Check]:
    """A cluster or queue of our name that no stack owns stops the creation of ours."""
    name, fix = ask.facts.cluster, f"delete it, or choose another name: {deploy_with({'cluster_name': 'NAME'})}"
    if ask.facts.existing or owned(ask):
        return
    eks = ask.client("eks")
    if unless("ResourceNotFoundException", lambda: eks.describe_cluster(name=name)):
        yield Check("leftover cluster", "fail", f"an EKS cluster {name} exists", fix)
    urls = ask.client("sqs").list_queues(QueueNamePrefix=name).get("QueueUrls", [])
    if any(url.rpartition("/")[2] == name for url in urls):
        yield Check("leftover queue", "fail", f"an SQS queue {name} exists", fix)


def instances(ask: Ask) -> Iterator[Check]:
    """Instances of a cluster of our name that still run without a stack. They cost money."""
    if ask.facts.existing or owned(ask):
        return
    alive = {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}
    pages = ask.client("ec2").get_paginator("describe_instances").paginate(Filters=[tagged(ask), alive])
    found = [item for page in pages for group in page["Reservations"] for item in group["Instances"]]
    if found:
        ids = " ".join(item["InstanceId"] for item in found)
        kinds = ", ".join(sorted({item["InstanceType"] for item in found}))
        fix = f"aws ec2 terminate-instances --instance-ids {ids} --region {ask.region}"
        yield Check("leftover instances", "fail", f"{len(found)} of {kinds}: they cost as long as they run", fix)


def small_things(ask: Ask) -> Iterator[Check]:
    """Things that neither stop a deployment nor cost much."""
    if ask.facts.existing or owned(ask):
        return
    ec2, where = ask.client("ec2"), f"--region {ask.region}"
    free = {"Name": "status", "Values": ["available"]}
    cni = {"Name": "tag:cluster.k8s.amazonaws.com/name", "Values": [ask.facts.cluster]}
    interfaces = ec2.describe_network_interfaces(Filters=[cni, free])["NetworkInterfaces"]
    yield from listed(
        "network interfaces",
        [item["NetworkInterfaceId"] for item in interfaces],
        f"aws ec2 delete-network-interface {where} --network-interface-id",
    )
    templates = ec2.describe_launch_templates(Filters=[tagged(ask)])["LaunchTemplates"]
    yield from listed(
        "launch templates",
        [item["LaunchTemplateId"] for item in templates],
        f"aws ec2 delete-launch-template {where} --launch-template-id",
    )
    logs = ask.client("logs")
    groups = [
        group["logGroupName"]
        for prefix in (f"/aws/eks/{ask.facts.cluster}/", f"/aws/containerinsights/{ask.facts.cluster}/")
        for page in logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix)
        for group in page["logGroups"]
    ]
    yield from listed("log groups", groups, f"aws logs delete-log-group {where} --log-group-name")
    pages = (
        ask.client("resourcegroupstaggingapi")
        .get_paginator("get_resources")
        .paginate(TagFilters=[{"Key": "project", "Values": ["specdecode"]}], ResourceTypeFilters=["s3"])
    )
    buckets = [item["ResourceARN"].rpartition(":")[2] for page in pages for item in page["ResourceTagMappingList"]]
    yield from listed("buckets", buckets, "its runs and models are yours to keep, or: aws s3 rb --force s3://")


def listed(what: str, names: Sequence[str], command: str) -> Iterator[Check]:
    """One line for all things of a kind, with the command that deletes one."""
    if names:
        gap = "" if command.endswith("/") else " "
        yield Check(f"leftover {what}", "warn", ", ".join(names), f"{command}{gap}{names[0]}")


def owned(ask: Ask) -> bool:
    """Whether the cluster's stack exists, whole or not. Then things with our names are its own."""
    return state(ask, CLUSTER_STACK) not in (None, *EMPTY)


def state(ask: Ask, name: str) -> str | None:
    """The status of the stack. None if there is none."""
    return (stack_named(ask.client("cloudformation"), name) or {}).get("StackStatus")


def tagged(ask: Ask) -> Mapping[str, Any]:
    """EC2's filter for instances that Karpenter made for the cluster (v1.14.1, pkg/apis/v1/labels.go)."""
    return {"Name": "tag:eks:eks-cluster-name", "Values": [ask.facts.cluster]}


LOOKS = {"stacks": stacks, "leftover cluster": cluster, "leftover instances": instances, "leftovers": small_things}
