"""The account: what is deployed in it, or would be, who is told, what AWS must still offer, and what was left."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

from pydantic import ValidationError

from specdecode.cli.output import EXIT_ENVIRONMENT, stop_with
from specdecode.cli.preflight.check import Ask, Check, tried, unless
from specdecode.cli.runs_deployment import stack_named
from specdecode.experiment import assets_dir, kept, prices
from specdecode.experiment.deployment_facts import DeploymentFacts
from specdecode.experiment.kept import CONFIGURE, DEPLOY, deploy_with, of_stack
from specdecode.experiment.prices import HOURS_A_MONTH
from specdecode.names import CLUSTER_STACK, STACK
from specdecode.runs.subscriptions import GIVE, confirmed, of, untold

OUTPUT = "DeploymentFacts"
PRINTS_FACTS = "constructs_lib.settings.facts"
"""Prints the facts. It is started, not imported, because this package does without the CDK."""


def facts_of_stack(outputs: Mapping[str, str], *, stack: str) -> DeploymentFacts:
    """The facts of a deployed stack. Ends the command with 3 if its version has none."""
    try:
        return DeploymentFacts.model_validate_json(outputs[OUTPUT])
    except (KeyError, ValidationError):
        hint = f"it is of another version: deploy again with `{DEPLOY}`"
        raise stop_with(f"{stack} has no output {OUTPUT} that can be read; {hint}", EXIT_ENVIRONMENT) from None


def facts_of_checkout(settings: Sequence[str]) -> DeploymentFacts:
    """The facts of `cdk deploy -c KEY=VALUE…` in this checkout. Ends the command with 2 if it would be refused."""
    root = assets_dir().parent
    if not (root / "constructs_lib").is_dir():
        raise stop_with("nothing is deployed here, and this is no checkout that could be", EXIT_ENVIRONMENT)
    program = [sys.executable, "-m", PRINTS_FACTS, *settings]
    ended = subprocess.run(program, cwd=root, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise stop_with(ended.stderr.strip() or f"{PRINTS_FACTS} ended with {ended.returncode}")
    return DeploymentFacts.model_validate_json(ended.stdout)


def refuse_contradictions() -> None:
    """Ends the command with 2, as the next deployment would, if cdk.json contradicts what the checkout keeps."""
    root = kept.checkout()
    if root is not None and kept.context(root).keys() & kept.read(root).settings:
        facts_of_checkout([])


def credentials(client: Callable[[str], Any], accounts: list[str]) -> Iterator[Check]:
    """The caller's identity. The account's number is put into `accounts`."""
    found = client("sts").get_caller_identity()
    accounts.append(found["Account"])
    yield Check("credentials", "ok", found["Arn"])


def place(facts: DeploymentFacts, *, account: str | None, region: str) -> Iterator[Check]:
    """The session's account (None: not known) and region against the deployment's."""
    if account is not None and facts.account not in (None, account):
        fix = f"take credentials of {facts.account} (--profile), or change the setting `account`"
        yield Check("account", "fail", f"the deployment goes to {facts.account}, the credentials are of {account}", fix)
    if facts.region == region:
        yield Check("region", "ok", region)
    else:
        fix = f"`{CONFIGURE} region={facts.region}`, and every command asks there"
        yield Check("region", "fail", f"the deployment is for {facts.region}, you ask in {region}", fix)


def alerts(ask: Ask, topic: str | None) -> Iterator[Check]:
    """The topic's subscriptions: one must be confirmed. Before a deployment: whether the settings name an address."""
    if ask.facts.accept_no_alerts:
        yield Check("alerts", "ok", "no address is needed (accept_no_alerts)")
    elif topic is None and ask.facts.alert_email:
        yield Check("alerts", "ok", "an address is given; AWS mails it a link that must be opened")
    elif topic is None:
        yield Check("alerts", "fail", "nobody would be told of a node that stays or of a run that is stuck", GIVE)
    else:
        pages = ask.client("sns").get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
        subscriptions = [item for page in pages for item in page["Subscriptions"]]
        address = (of_stack(ask.client("cloudformation")) or {}).get("alert_email") if ask.facts.alert_email else None
        if problem := untold(subscriptions, address=address):
            yield Check("alerts", "fail", *problem)
        else:
            count = confirmed(of(address, subscriptions))
            yield Check("alerts", "ok", f"{count} confirmed subscription{'s' * (count > 1)}")


def support(facts: DeploymentFacts, today: date) -> Iterator[Check]:
    """Whether EKS bills extended support for the version of the deployment's own cluster, or soon will."""
    ends = prices.STANDARD_SUPPORT_ENDS.get(facts.kubernetes)
    if facts.existing or ends is None or (ends - today).days > SOON_DAYS:
        return
    more = prices.EKS_EXTENDED_SUPPORT.usd - prices.EKS_CONTROL_PLANE.usd
    newest = max(facts.supported, key=lambda version: [int(part) for part in version.split(".")], default="")
    fix = deploy_with({"kubernetes_version": newest}) if newest != facts.kubernetes else "docs/operations.md#upgrade"
    month = f"${more * HOURS_A_MONTH:.0f} a month"
    yield Check("Kubernetes", "warn", f"{prices.extended_support(facts.kubernetes)} ({month})", fix)


SOON_DAYS = 30


def addons(ask: Ask) -> Iterator[Check]:
    """Each pinned add-on build against those that EKS has for the cluster's Kubernetes version, the newest first."""
    pages, kubernetes = ask.client("eks").get_paginator("describe_addon_versions"), ask.facts.kubernetes
    for name, build in ask.facts.addons.items():
        found = pages.paginate(addonName=name, kubernetesVersion=kubernetes)
        versions = [version for page in found for addon in page["addons"] for version in addon["addonVersions"]]
        if any(version["addonVersion"] == build for version in versions):
            yield Check(f"add-on {name}", "ok", build)
            continue
        defaults = (v for v in versions if any(c.get("defaultVersion") for c in v["compatibilities"]))
        default = next((version["addonVersion"] for version in (*defaults, *versions)), "none")
        detail = f"EKS has no {build} for Kubernetes {kubernetes}; its default is {default}"
        fix = f'set "{name}": "{default}" in constructs_lib/settings/versions.py'
        yield Check(f"add-on {name}", "fail", detail, fix)


def amis(ask: Ask) -> Iterator[Check]:
    """The AMIs of the trn2 node and of the staging nodes, by the SSM parameter that Karpenter reads for
    `al2023@release` (v1.14.1, pkg/providers/amifamily/al2023.go). Without one the node class is never Ready.
    """
    kubernetes, wanted = ask.facts.kubernetes, {}
    for release, variant, purpose, where in (
        (ask.facts.ami, "neuron", "the trn2 node", "the setting neuron_ami"),
        (ask.facts.staging_ami, "standard", "staging", "STAGING_AMI in constructs_lib/settings/neuron_amis.py"),
    ):
        image = f"amazon-eks-node-al2023-x86_64-{variant}-{kubernetes}-{release}"
        folder = f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/x86_64/{variant}"
        wanted[f"{folder}/{image}/image_id"] = (release, purpose, where)
    found = ask.client("ssm").get_parameters(Names=list(wanted))
    values = {item["Name"]: item["Value"] for item in found["Parameters"]}
    for name, (release, purpose, where) in wanted.items():
        if name in values:
            yield Check(f"AMI of {purpose}", "ok", f"{release} is {values[name]}")
        else:
            fix = f"choose a release that EKS has ({where}); its parameter is {name}"
            yield Check(f"AMI of {purpose}", "fail", f"{ask.region} has no {release} for {kubernetes}", fix)


DEPLOYABLE = frozenset({"REVIEW_IN_PROGRESS", "CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"})
"""States of a stack that `cdk deploy` can continue from."""
ROLLED_BACK = "ROLLBACK_COMPLETE"
"""The first deployment failed and was undone. The CDK CLI deletes such a stack and creates it again (aws-cdk 2.1148.1,
`isCreationFailure` in its deployStack)."""
EMPTY = frozenset({"REVIEW_IN_PROGRESS", ROLLED_BACK})
"""States of a stack that has no resources."""


def leftovers(ask: Ask) -> Iterator[Check]:
    """Everything with our names and tags, before the first deployment. A refused check does not stop the others."""
    found: list[Check] = []
    for name, check in LEFTOVERS.items():
        found += tried(name, partial(check, ask))
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


def leftover_cluster(ask: Ask) -> Iterator[Check]:
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


def leftover_instances(ask: Ask) -> Iterator[Check]:
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


LEFTOVERS = {
    "stacks": stacks, "leftover cluster": leftover_cluster, "leftover instances": leftover_instances,
    "leftovers": small_things,
}  # fmt: skip
