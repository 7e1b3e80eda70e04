"""The managed node group of a cluster of yours that runs scale: of one node, for runs alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from specdecode import names
from specdecode.cli.preflight.check import Ask, Check
from specdecode.experiment.deployment_facts import DeploymentFacts

NAME = "node group"
TAINT = names.TAINTS[names.NODEPOOL]
LABEL = {names.ACCELERATOR_LABEL: names.NODEPOOL}


def of_group(ask: Ask, group: str) -> Iterator[Check]:
    """Whether the node group of the settings exists and only runs use its node."""
    eks = ask.client("eks")
    try:
        found = eks.describe_nodegroup(clusterName=ask.facts.cluster, nodegroupName=group)["nodegroup"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        fix = f"look at `aws eks list-nodegroups --cluster-name {ask.facts.cluster}`"
        yield Check(NAME, "fail", f"{ask.facts.cluster} has no node group {group}", fix)
        return
    wrong = list(problems(ask.facts, group, found, deployed=ask.deployed))
    yield from wrong
    if not wrong:
        yield Check(NAME, "ok", f"{group} has {found['scalingConfig']['desiredSize']} of at most one node")


def problems(facts: DeploymentFacts, group: str, found: Mapping[str, Any], *, deployed: bool) -> Iterator[Check]:
    """The problems of a group as EKS describes it."""
    update = f"aws eks update-nodegroup-config --cluster-name {facts.cluster} --nodegroup-name {group}"
    size, status = found["scalingConfig"], found["status"]
    if status not in ("ACTIVE", "UPDATING"):
        yield Check(NAME, "fail", f"{group} is {status}", "look at its health in the console")
    if (size["minSize"], size["maxSize"]) != (0, 1):
        detail = f"{group} has {size['minSize']} to {size['maxSize']} nodes: it must be 0 to 1, for runs alone"
        yield Check(NAME, "fail", detail, f"{update} --scaling-config minSize=0,maxSize=1,desiredSize=0")
    elif size["desiredSize"] and not deployed:
        detail = f"{group} has a node, and no run holds it: it is billed, and the watchdog will set it to 0"
        yield Check(NAME, "warn", detail, f"{update} --scaling-config desiredSize=0")
    if found.get("capacityType") == "SPOT":
        yield Check(
            NAME, "fail", f"{group} is of spot instances: they end in a run", "make it ON_DEMAND, or of a block"
        )
    types = found.get("instanceTypes") or []
    if types and types != [facts.node]:
        detail = f"{group} is of {', '.join(types)}, and the deployment's node is a {facts.node}"
        yield Check(NAME, "fail", detail, f"one of {facts.node} alone, or -c node_type=…")
    labels = found.get("labels") or {}
    if LABEL.items() - labels.items():
        label = f"{names.ACCELERATOR_LABEL}={names.NODEPOOL}"
        yield Check(
            NAME, "fail", f"its nodes have no label {label}", f"{update} --labels addOrUpdateLabels={{{label}}}"
        )
    taints = {item["key"] for item in found.get("taints") or () if item.get("effect") != "PREFER_NO_SCHEDULE"}
    if TAINT not in taints:
        detail = f"its nodes have no taint {TAINT}: pods of others would stand there, and go with the run"
        yield Check(
            NAME, "fail", detail, f"{update} --taints addOrUpdateTaints=[{{key={TAINT},value=true,effect=NO_SCHEDULE}}]"
        )
    if others := sorted(taints - {TAINT}):
        yield Check(NAME, "fail", f"pods of a run do not tolerate {', '.join(others)}", f"taint it with {TAINT} alone")
    for issue in found.get("health", {}).get("issues") or ():
        yield Check(NAME, "warn", f"{issue.get('code')}: {issue.get('message')}", "it may keep the node from coming")
