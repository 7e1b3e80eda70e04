"""The nodes of a cluster of yours: your Karpenter's pools, your managed node group, or nodes with our label."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from specdecode import names
from specdecode.cli.preflight.check import Ask, Check, Verdict, unless
from specdecode.experiment.deployment_facts import DeploymentFacts
from specdecode.experiment.shapes import NodeShape
from specdecode.kubernetes.pods import condition, is_true
from specdecode.kubernetes.resources import KubeObject, name_of

OBJECTS = ".venv/bin/python -m constructs_lib.administrator_objects | kubectl apply -f -"
"""The command of the cluster's administrator."""
TIMEOUT_S = 20
OLDEST = (1, 8, 1)
"""Karpenter's first version with static NodePools whose chart spells the gate as the controller does
(aws/karpenter-provider-aws #8590)."""
CHARTS = "oci://public.ecr.aws/karpenter"
OURS = ("app.kubernetes.io/name", "specdecode")
AMI_TYPES = ("AL2023_x86_64_NEURON", "CUSTOM")
DEVICES = "neuron.aws.com"
"""Device class, and driver, of Trainium's devices."""

Kubectl = Callable[[Sequence[str]], str]
"""Arguments -> output of kubectl. OSError or LookupError says why there is none."""


def kubectl(arguments: Sequence[str]) -> str:
    """The output of kubectl, run with the user's rights."""
    command = ["kubectl", *arguments, f"--request-timeout={TIMEOUT_S // 2}s"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise LookupError(f"kubectl did not answer within {TIMEOUT_S} s") from None
    if ended.returncode:
        raise LookupError(" ".join(ended.stderr.split())[:700] or f"kubectl ended with {ended.returncode}")
    return ended.stdout


def items(ask_kubectl: Kubectl, kind: str, *how: str) -> list[KubeObject]:
    """The objects of a kind."""
    found: list[KubeObject] = json.loads(ask_kubectl(["get", kind, *how, "-o", "json"]))["items"]
    return found


def node_role(ask: Ask, role: str, cluster: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the role of the nodes exists, and whether its nodes may join. `cluster`: as EKS describes it."""
    name, fix = "node role", "give the role of your EC2NodeClasses: kubectl get ec2nodeclasses -o yaml | grep role:"
    iam, eks = ask.client("iam"), ask.client("eks")
    if (found := unless("NoSuchEntity", lambda: iam.get_role(RoleName=role))) is None:
        yield Check(name, "fail", f"there is no role {role}", fix)
        return
    given = {"clusterName": ask.facts.cluster, "principalArn": found["Role"]["Arn"]}
    entry = unless("ResourceNotFoundException", lambda: eks.describe_access_entry(**given)["accessEntry"])
    if entry is None:
        by_map = cluster.get("accessConfig", {}).get("authenticationMode") != "API"
        detail = f"{role} has no access entry" + (": its nodes join if aws-auth maps it" if by_map else "")
        yield Check(name, "warn" if by_map else "fail", detail, fix)
        return
    kind = entry.get("type")
    if kind == "EC2_LINUX":
        yield Check(name, "ok", role)
    else:
        yield Check(name, "fail", f"the access entry of {role} is {kind}, not EC2_LINUX: no node could join", fix)


def of_karpenter(facts: DeploymentFacts, ask_kubectl: Kubectl) -> Iterator[Check]:
    """Karpenter's version, gates and CRD, and our NodePools, with the user's kubectl."""
    found = items(ask_kubectl, "deployments", "-A", "-l", "app.kubernetes.io/name=karpenter")
    yield controller(facts, found)
    text = ask_kubectl(["get", "crd", "nodepools.karpenter.sh", "-o", "json", "--ignore-not-found"])
    if text.strip():
        yield crd(json.loads(text), found)
        # Of no kind that the server does not know: kubectl would end with an error there.
        yield from pools(facts, items(ask_kubectl, "nodepools.karpenter.sh"))
    else:
        yield Check("Karpenter's CRDs", "fail", "there is no NodePool in this cluster", _crds(found))


def controller(facts: DeploymentFacts, deployments: Sequence[KubeObject]) -> Check:
    """The version, and the feature gates that our NodePools need."""
    if not deployments:
        fix = "install it, or leave karpenter_node_role out and label nodes of yours"
        return Check("Karpenter", "fail", "no Deployment has the label app.kubernetes.io/name=karpenter", fix)
    (container, *_) = deployments[0]["spec"]["template"]["spec"]["containers"]
    number = _number(deployments[0])
    if not number:
        detail = f"no version in the image {container.get('image')}"
        return Check("Karpenter", "warn", detail, "look whether it is 1.8.1 or newer")
    said = f"version {number}"
    if tuple(map(int, number.split("."))) < OLDEST:
        fix = "whoever runs it upgrades it, by karpenter.sh/docs/upgrading; or leave karpenter_node_role out"
        return Check("Karpenter", "fail", f"{said}: static NodePools work since 1.8.1", fix)
    value = next((item.get("value", "") for item in container.get("env", ()) if item["name"] == "FEATURE_GATES"), "")
    gates = {name: state for name, _, state in (part.partition("=") for part in value.split(","))}
    wanted = ["StaticCapacity", "ReservedCapacity" if facts.reservation else "NodeOverlay"]
    off = [name for name in wanted if gates.get(name) != "true"]
    if off:
        keys = " ".join(f"--set settings.featureGates.{name[0].lower()}{name[1:]}=true" for name in off)
        meta = deployments[0]["metadata"]  # without --version Helm takes the newest chart
        release = (meta.get("labels") or {}).get("app.kubernetes.io/instance", "karpenter")
        chart = f"helm upgrade {release} {CHARTS}/karpenter -n {meta['namespace']} --version {number} --reuse-values"
        detail = f"{said}, without the feature gate {', '.join(off)}"
        return Check("Karpenter", "fail", detail, f"{chart} {keys}")
    return Check("Karpenter", "ok", f"{said}, {', '.join(wanted)}")


def _number(deployment: KubeObject) -> str:
    """The controller's version, empty if its image does not say."""
    (container, *_) = deployment["spec"]["template"]["spec"]["containers"]
    found = re.search(r":v?(\d+\.\d+\.\d+)", str(container.get("image", "")))
    return found[1] if found else ""


def _crds(deployments: Sequence[KubeObject]) -> str:
    """The line that brings the CRDs. Helm refuses those of the controller's chart without --take-ownership (3.17)."""
    if not deployments:
        return "install Karpenter with its CRDs"
    namespace, number = deployments[0]["metadata"]["namespace"], _number(deployments[0]) or "VERSION"
    return (
        f"helm upgrade --install karpenter-crd {CHARTS}/karpenter-crd -n {namespace} --version {number} "
        "--take-ownership"
    )


def crd(found: Mapping[str, Any], deployments: Sequence[KubeObject]) -> Check:
    """Whether a NodePool can be static. CRDs stay old if only the chart is upgraded."""
    for version in found["spec"]["versions"]:
        spec = version.get("schema", {}).get("openAPIV3Schema", {}).get("properties", {}).get("spec", {})
        if "replicas" in spec.get("properties", {}) and "scale" in version.get("subresources", {}):
            return Check("Karpenter's CRDs", "ok", f"NodePool {version['name']} has replicas")
    return Check("Karpenter's CRDs", "fail", "a NodePool has no replicas there", _crds(deployments))


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
        yield Check("NodePools", "fail", detail, "`kubectl describe ec2nodeclasses` says what is missing")
    else:
        yield Check("NodePools", "ok", f"{', '.join(wanted)}: none has a node unless a run holds it")


def of_group(ask: Ask, group: str) -> Iterator[Check]:
    """Whether the managed node group of the settings exists, has one node at most, and only runs use that."""
    eks, name = ask.client("eks"), "node group"
    given = {"clusterName": ask.facts.cluster, "nodegroupName": group}
    found = unless("ResourceNotFoundException", lambda: eks.describe_nodegroup(**given)["nodegroup"])
    if found is None:
        fix = f"look at `aws eks list-nodegroups --cluster-name {ask.facts.cluster}`"
        yield Check(name, "fail", f"{ask.facts.cluster} has no node group {group}", fix)
        return
    ok = Check(name, "ok", f"{group} has {found['scalingConfig']['desiredSize']} of at most one node")
    wrong = (Check(name, *each) for each in _problems(ask.facts, group, found, deployed=ask.deployed))
    yield from [*wrong] or [ok]


def _problems(
    facts: DeploymentFacts, group: str, found: Mapping[str, Any], *, deployed: bool
) -> Iterator[tuple[Verdict, str, str]]:
    """Each problem of a group as EKS describes it: whether a run would fail, what it is, what to do."""
    update = f"aws eks update-nodegroup-config --cluster-name {facts.cluster} --nodegroup-name {group}"
    size, status = found["scalingConfig"], found["status"]
    if status not in ("ACTIVE", "UPDATING"):
        yield "fail", f"{group} is {status}", "look at its health in the console"
    if (size["minSize"], size["maxSize"]) != (0, 1):
        detail = f"{group} has {size['minSize']} to {size['maxSize']} nodes: it must be 0 to 1, for runs alone"
        yield "fail", detail, f"{update} --scaling-config minSize=0,maxSize=1,desiredSize=0"
    elif size["desiredSize"] and not deployed:
        detail = f"{group} has a node, and no run holds it: it is billed, and the watchdog will set it to 0"
        yield "warn", detail, f"{update} --scaling-config desiredSize=0"
    if (kind := found.get("amiType", AMI_TYPES[0])) not in AMI_TYPES:
        yield "fail", f"{group} has the AMI type {kind}, which has no Neuron driver", f"make it of {AMI_TYPES[0]}"
    if found.get("capacityType") == "SPOT":
        yield "fail", f"{group} is of spot instances: they end in a run", "make it ON_DEMAND, or of a block"
    types = found.get("instanceTypes") or []
    if types and types != [facts.node]:
        detail = f"{group} is of {', '.join(types)}, and the deployment's node is a {facts.node}"
        yield "fail", detail, f"one of {facts.node} alone, or the setting node_type of it"
    if (found.get("labels") or {}).get(names.ACCELERATOR_LABEL) != names.NODEPOOL:
        label = f"{names.ACCELERATOR_LABEL}={names.NODEPOOL}"
        yield "fail", f"its nodes have no label {label}", f"`{update} --labels 'addOrUpdateLabels={{{label}}}'`"
    taint = names.TAINTS[names.NODEPOOL]
    taints = {item["key"] for item in found.get("taints") or () if item.get("effect") != "PREFER_NO_SCHEDULE"}
    if taint not in taints:
        detail = f"its nodes have no taint {taint}: pods of others would stand there, and go with the run"
        yield "fail", detail, f"`{update} --taints 'addOrUpdateTaints=[{{key={taint},value=true,effect=NO_SCHEDULE}}]'`"
    if others := sorted(taints - {taint}):
        yield "fail", f"pods of a run do not tolerate {', '.join(others)}", f"taint it with {taint} alone"
    for issue in found.get("health", {}).get("issues") or ():
        yield "warn", f"{issue.get('code')}: {issue.get('message')}", "it may keep the node from coming"


def labelled(wanted: NodeShape, number: int, ask_kubectl: Kubectl) -> Iterator[Check]:
    """Whether there is a node for each of the `number` runs that may go on at once."""
    found = items(ask_kubectl, "nodes", "-l", names.ACCELERATOR_LABEL)
    slices = items(ask_kubectl, "resourceslices") if wanted.has_devices else []
    for slot in names.held_pools(number):
        if names.kind_of(slot) == wanted.pool:
            own = [item for item in found if item["metadata"]["labels"][names.ACCELERATOR_LABEL] == slot]
            yield _node(wanted, own, slices, slot=slot)


def _node(wanted: NodeShape, nodes: Sequence[KubeObject], slices: Sequence[KubeObject], *, slot: str) -> Check:
    """The nodes that pods of a run can use: labelled, Ready, with published devices and no taint but ours."""
    label, ours = f"{names.ACCELERATOR_LABEL}={slot}", names.TAINTS[wanted.pool]
    ready = [item for item in nodes if is_true(item, "Ready") and not item.get("spec", {}).get("unschedulable")]
    if not ready:
        fix = f"kubectl label node NAME {label}, before a run begins to wait for it"
        return Check("node", "warn", f"no Ready node has the label {label}", fix)
    publishing = {item["spec"].get("nodeName") for item in slices if item["spec"].get("driver") == DEVICES}
    if wanted.has_devices and not publishing & {name_of(item) for item in ready}:
        detail = f"{', '.join(map(name_of, ready))}: the Neuron DRA driver has published no devices"
        return Check("node", "fail", detail, "look at the driver's pod on that node")
    taints = [taint for item in ready for taint in item.get("spec", {}).get("taints", ())]
    repelled = sorted({each["key"] for each in taints if each["effect"] != "PreferNoSchedule"} - {ours})
    if repelled:
        detail = f"pods of a run do not tolerate {', '.join(repelled)}"
        return Check("node", "fail", detail, f"taint it with {ours} alone")
    return Check("node", "ok", ", ".join(map(name_of, ready)))
