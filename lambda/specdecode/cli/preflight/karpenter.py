"""The Karpenter of a cluster of yours: whether our NodePools can work in it, and do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from specdecode import names
from specdecode.cli.preflight.check import Ask, Check
from specdecode.cli.preflight.kubectl import OBJECTS, Kubectl
from specdecode.experiment.deployment_facts import DeploymentFacts
from specdecode.kubernetes.pods import condition, is_true
from specdecode.kubernetes.resources import KubeObject

OLDEST = (1, 8)
"""Karpenter's first version with static NodePools (website/content/en/docs/reference/settings.md of
karpenter-provider-aws).
"""
CHART = "helm upgrade karpenter oci://public.ecr.aws/karpenter/karpenter --namespace NAMESPACE --reuse-values"
CRDS = "helm upgrade karpenter-crd oci://public.ecr.aws/karpenter/karpenter-crd (Helm upgrades no CRDs by itself)"
OURS = ("app.kubernetes.io/name", "specdecode")


def node_role(ask: Ask, role: str, cluster: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the role of the nodes exists, and whether its nodes may join. `cluster`: as EKS describes it."""
    name, fix = "node role", "give the role of your EC2NodeClasses: kubectl get ec2nodeclasses -o yaml | grep role:"
    try:
        arn = ask.client("iam").get_role(RoleName=role)["Role"]["Arn"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchEntity":
            raise
        yield Check(name, "fail", f"there is no role {role}", fix)
        return
    try:
        entry = ask.client("eks").describe_access_entry(clusterName=ask.facts.cluster, principalArn=arn)["accessEntry"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        by_map = cluster.get("accessConfig", {}).get("authenticationMode") != "API"
        detail = f"{role} has no access entry" + (": its nodes join if aws-auth maps it" if by_map else "")
        yield Check(name, "warn" if by_map else "fail", detail, fix)
        return
    kind = entry.get("type")
    if kind == "EC2_LINUX":
        yield Check(name, "ok", role)
    else:
        yield Check(name, "fail", f"the access entry of {role} is {kind}, not EC2_LINUX: no node could join", fix)


def inside(facts: DeploymentFacts, ask_kubectl: Kubectl) -> Iterator[Check]:
    """Version, gates, CRD and our NodePools, with the user's kubectl."""
    deployments = ["get", "deployments", "-A", "-l", "app.kubernetes.io/name=karpenter", "-o", "json"]
    yield controller(facts, json.loads(ask_kubectl(deployments))["items"])
    text = ask_kubectl(["get", "crd", "nodepools.karpenter.sh", "-o", "json", "--ignore-not-found"])
    if text.strip():
        yield crd(json.loads(text))
        # Of no kind that the server does not know: kubectl would end with an error there.
        yield from pools(facts, json.loads(ask_kubectl(["get", "nodepools.karpenter.sh", "-o", "json"]))["items"])
    else:
        yield Check("Karpenter's CRDs", "fail", "there is no NodePool in this cluster", CRDS)


def controller(facts: DeploymentFacts, deployments: Sequence[KubeObject]) -> Check:
    """The version, and the feature gates that our NodePools need."""
    if not deployments:
        fix = "install it, or leave karpenter_node_role out and label nodes of yours"
        return Check("Karpenter", "fail", "no Deployment has the label app.kubernetes.io/name=karpenter", fix)
    (container, *_) = deployments[0]["spec"]["template"]["spec"]["containers"]
    found = re.search(r":v?(\d+)\.(\d+)", str(container.get("image", "")))
    if not found:
        return Check(
            "Karpenter", "warn", f"no version in the image {container.get('image')}", "look whether it is 1.8+"
        )
    version = (int(found[1]), int(found[2]))
    said = f"version {version[0]}.{version[1]}"
    if version < OLDEST:
        return Check("Karpenter", "fail", f"{said}: static NodePools are since 1.8", "upgrade it")
    value = next((item.get("value", "") for item in container.get("env", ()) if item["name"] == "FEATURE_GATES"), "")
    gates = {name: state for name, _, state in (part.partition("=") for part in value.split(","))}
    wanted = ["StaticCapacity", "ReservedCapacity" if facts.reservation else "NodeOverlay"]
    off = [name for name in wanted if gates.get(name) != "true"]
    if off:
        keys = " ".join(f"--set settings.featureGates.{name[0].lower()}{name[1:]}=true" for name in off)
        return Check("Karpenter", "fail", f"{said}, without the feature gate {', '.join(off)}", f"{CHART} {keys}")
    return Check("Karpenter", "ok", f"{said}, {', '.join(wanted)}")


def crd(found: Mapping[str, Any]) -> Check:
    """Whether a NodePool can be static. CRDs stay old if only the chart is upgraded."""
    for version in found["spec"]["versions"]:
        spec = version.get("schema", {}).get("openAPIV3Schema", {}).get("properties", {}).get("spec", {})
        if "replicas" in spec.get("properties", {}) and "scale" in version.get("subresources", {}):
            return Check("Karpenter's CRDs", "ok", f"NodePool {version['name']} has replicas")
    return Check("Karpenter's CRDs", "fail", "a NodePool has no replicas there", CRDS)


def pools(facts: DeploymentFacts, found: Sequence[KubeObject]) -> Iterator[Check]:
    """Our NodePools: whether they exist, are ours, and are accepted by Karpenter."""
    by_name = {item["metadata"]["name"]: item for item in found}
    wanted = [names.node_pool(slot, foreign=True) for slot in names.held_pools(facts.nodes)]
    missing = [name for name in wanted if name not in by_name]
    if missing:
        yield Check("NodePools", "fail", f"there is no {', '.join(missing)}", OBJECTS)
        return
    ours = [by_name[name] for name in wanted]
    key, value = OURS
    others = [item["metadata"]["name"] for item in ours if item["metadata"].get("labels", {}).get(key) != value]
    unready = [item for item in ours if not is_true(item, "Ready")]
    if others:
        detail = f"{', '.join(others)} is not of this project: it has no label {key}={value}"
        yield Check("NodePools", "fail", detail, "rename it: the pipeline would scale it")
    elif unready:
        why = condition(unready[0], "Ready").get("message") or "Karpenter has said nothing of it"
        detail = f"{unready[0]['metadata']['name']} is not Ready: {why}"
        yield Check("NodePools", "fail", detail, "kubectl describe ec2nodeclasses says what is missing")
    else:
        yield Check("NodePools", "ok", f"{', '.join(wanted)}: none has a node unless a run holds it")
