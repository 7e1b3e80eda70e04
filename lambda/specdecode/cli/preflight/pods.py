"""Whether the pods of an experiment find a place on the nodes of a cluster of yours, are admitted, and find names."""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from specdecode import names
from specdecode.assets import assets_dir
from specdecode.cli.preflight import capacity
from specdecode.cli.preflight.check import Ask, Check, unless
from specdecode.cli.preflight.cluster_nodes import Kubectl, items
from specdecode.experiment import Capacity, engine_of
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.sizing import Room, unfit
from specdecode.kubernetes.diagnosis import explain, load_table
from specdecode.kubernetes.node_room import DRA_DRIVER, room_of_group, room_of_node
from specdecode.kubernetes.pods import is_true
from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.manifests import RenderContext, all_objects
from specdecode.planning import Inventory, make_plan

RECIPE = "make the group anew as docs/how-to/own-cluster.md does: its disk and AMI release are those of its making"
ANOTHER = "label a node that has room; `specdecode manifests` shows what pods ask for"
LOCAL_DNS = "169.254.20.10"
"""Usual address of NodeLocal DNSCache; network policies open port 53 to it and to the pods of kube-dns. With kube-proxy
in iptables mode the cache answers at the Service's address too, which Calico takes for no pod (calico#3795).
"""
KUBECTL = re.compile(r'Error from server \([^)]*\): (error when creating "[^"]*": )?')
"""What kubectl puts before the API server's own words."""
NOT_ASKED = re.compile(r"Unable to connect|i/o timeout|connection refused$|must be logged in|\(Unauthorized\)")
"""Words of a kubectl that did not come as far as the API server's judgement."""
OPEN_DNS = "the cluster's administrator adds a network policy to the namespace specdecode that opens port 53 to it"


def of_group(ask: Ask, experiment: ServedExperiment, group: str) -> Iterator[Check]:
    """The next node of a managed node group, with its launch template, and the account's quota for it."""
    given = {"clusterName": ask.facts.cluster, "nodegroupName": group}
    eks = ask.client("eks")
    found = unless("ResourceNotFoundException", lambda: eks.describe_nodegroup(**given)["nodegroup"])
    if found is None or not experiment.shape.has_devices:
        return
    template = None
    if named := found.get("launchTemplate"):
        asked = {"LaunchTemplateId": named["id"], "Versions": [str(named.get("version") or "$Default")]}
        versions = ask.client("ec2").describe_launch_template_versions(**asked)["LaunchTemplateVersions"]
        template = dict(versions[0]["LaunchTemplateData"]) if versions else None
    yield judged(experiment, room_of_group(found, template, experiment.shape), fix=RECIPE)
    if found.get("capacityType") != "CAPACITY_BLOCK":
        yield from capacity.vcpus(ask, experiment.shape)


def of_nodes(ask: Ask, experiment: ServedExperiment, *, ask_kubectl: Kubectl) -> Iterator[Check]:
    """Nodes that are there, by what they say that pods can have."""
    slots = [slot for slot in names.held_pools(ask.facts.nodes) if names.kind_of(slot) == experiment.shape.pool]
    label = f"{names.ACCELERATOR_LABEL} in ({','.join(slots)})"
    nodes, has_devices = items(ask_kubectl, "nodes", "-l", label), experiment.shape.has_devices
    slices = items(ask_kubectl, "resourceslices") if has_devices else None
    claims = items(ask_kubectl, "resourceclaims", "-A") if has_devices else []
    for node in sorted(nodes, key=name_of):
        if is_true(node, "Ready"):
            there = room_of_node(node, slices)
            yield judged(experiment, there, fix=ANOTHER)
            yield from _held(there, name_of(node), claims, wanted=experiment.devices)


def _held(there: Room, node: str, claims: Sequence[KubeObject], *, wanted: int) -> Iterator[Check]:
    """Devices that others' claims hold: a claim of ours waits for them. The pool of a node's devices has its name."""
    holders = [
        f"{claim['metadata'].get('namespace')}/{name_of(claim)}"
        for claim in claims
        if claim["metadata"].get("namespace") != names.NAMESPACE
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or ()
        if (result.get("driver"), result.get("pool")) == (DRA_DRIVER, node)
    ]
    if holders:
        free = (there.devices or 0) - len(holders)
        detail = f"{free} of {there.devices} devices of {node} are free: {', '.join(sorted(set(holders)))}"
        fix = "whoever holds them gives them back before a run begins: its pods would wait, and share the node"
        yield Check("devices", "fail" if free < wanted else "warn", detail, fix)


def judged(experiment: ServedExperiment, room: Room, *, fix: str) -> Check:
    engine = engine_of(experiment)
    if why := list(unfit(experiment, engine, room)):
        return Check("room", "fail", "; ".join(why), fix)
    unknown = [name for name, value in (("disk", room.disk_gib), ("AMI", room.ami or room.driver)) if value is None]
    if unknown and experiment.shape.has_devices:
        return Check(
            "room", "warn", f"{room.name}: not known: {', '.join(unknown)}", "compare it with the engine's file"
        )
    return Check("room", "ok", f"{room.name} holds the largest pods of {experiment.name}")


def of_pods(ask: Ask, experiment: ServedExperiment, *, ask_kubectl: Kubectl) -> Iterator[Check]:
    """A server-side dry run of a pod of each kind, as the controllers would make it, with the user's rights."""
    admitted = []
    with tempfile.TemporaryDirectory() as folder:
        for component, pod in one_of_each(ask, experiment).items():
            file = Path(folder, f"{component}.json")
            file.write_text(json.dumps(pod), "utf-8")
            try:
                ask_kubectl(["create", "--dry-run=server", "-o", "name", "-f", str(file)])
                admitted.append(component)
            except LookupError as refused:
                yield _refused(component, str(refused))
    if admitted:
        yield Check("pods", "ok", f"the cluster admits them ({', '.join(admitted)})")


def _refused(component: str, words: str) -> Check:
    name = f"pod of {component}"
    if 'cannot create resource "pods"' in words:
        return Check(name, "warn", "not tried: your kubectl may make no pods in specdecode", "ask its administrator")
    if NOT_ASKED.search(words):
        return Check(name, "warn", f"not tried: {words}", "look again when your kubectl reaches the cluster")
    if "looking up service account" in words:
        return Check(name, "warn", "not tried: the deployment makes its service account", "look again after it")
    said = " ".join(KUBECTL.sub("", words).split())
    _, advice = explain(load_table(assets_dir() / "diagnosis.yaml"), {"error": f"Error creating: {said}"})
    return Check(name, "fail", words, advice)


def one_of_each(ask: Ask, experiment: ServedExperiment) -> dict[str, KubeObject]:
    """Component -> one of its pods, owned by a Job or a ReplicaSet that does not exist."""
    plan = make_plan(experiment, engine_of(experiment), inventory=Inventory(), capacity=Capacity(price_per_node_hour=0))
    context = RenderContext.without_bucket("preflight", region=ask.region, makes_nodes=False)
    found: dict[str, KubeObject] = {}
    for owner in all_objects(plan, context):
        if owner["kind"] not in ("Job", "Deployment"):
            continue
        template, is_job = owner["spec"]["template"], owner["kind"] == "Job"
        kind = ("batch/v1", "Job") if is_job else ("apps/v1", "ReplicaSet")
        reference: dict[str, Any] = dict(zip(("apiVersion", "kind"), kind, strict=True))
        reference |= {"name": name_of(owner), "uid": "00000000-0000-4000-8000-000000000000", "controller": True}
        metadata = template["metadata"] | {"name": f"{name_of(owner)[:57]}-dry", "namespace": names.NAMESPACE}
        metadata |= {"ownerReferences": [reference]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        found.setdefault(str(template["metadata"]["labels"][names.COMPONENT_LABEL]), pod)
    return found


def of_dns(ask_kubectl: Kubectl) -> Check:
    """Whether our network policies open the way to the cluster's DNS."""
    system = ["-n", "kube-system", "-o", "json"]
    text = ask_kubectl(["get", "service", "kube-dns", *system, "--ignore-not-found"]).strip()
    selector = json.loads(text)["spec"].get("selector") if text else None
    if (selector or {}).get("k8s-app") != "kube-dns":
        return Check("DNS", "warn", "no Service kube-dns with pods k8s-app=kube-dns: names may not be found", OPEN_DNS)
    caches = items(ask_kubectl, "daemonsets", "-l", "k8s-app=node-local-dns", "-n", "kube-system")
    containers = [each for cache in caches for each in cache["spec"]["template"]["spec"]["containers"]]
    flags = [pair for each in containers for pair in pairwise(each.get("args") or ())]
    addresses = [address for flag, value in flags if flag == "-localip" for address in value.split(",")]
    if other := [each for each in addresses if each.startswith("169.254.") and each != LOCAL_DNS]:
        detail = f"NodeLocal DNSCache answers at {', '.join(other)}, which no network policy opens"
        return Check("DNS", "fail", detail, OPEN_DNS)
    if shared := [each for each in addresses if not each.startswith("169.254.")]:
        detail = f"NodeLocal DNSCache answers at {', '.join(shared)} in place of kube-dns"
        why = "what looks at addresses alone (Calico) lets no name through"
        return Check("DNS", "warn", f"{detail}: {why}", OPEN_DNS)
    return Check("DNS", "ok", "kube-dns" + (f", and NodeLocal DNSCache at {', '.join(addresses)}" if addresses else ""))
