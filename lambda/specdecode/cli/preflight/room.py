"""Whether the largest pods of an experiment find a place on the nodes of a cluster of yours."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specdecode import names
from specdecode.cli.preflight import quotas
from specdecode.cli.preflight.check import Ask, Check, unless
from specdecode.cli.preflight.cluster_nodes import Kubectl
from specdecode.experiment import engine_of
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.sizing import Room, unfit
from specdecode.kubernetes.node_room import DRA_DRIVER, room_of_group, room_of_node
from specdecode.kubernetes.pods import is_true
from specdecode.kubernetes.resources import KubeObject, name_of

RECIPE = "make the group anew as docs/how-to/own-cluster.md does: its disk and AMI release are those of its making"
ANOTHER = "label a node that has room; `specdecode manifests` shows what pods ask for"


def of_group(ask: Ask, experiment: ServedExperiment, group: str) -> Iterator[Check]:
    """The next node of a managed node group, with its launch template, and the account's quota for it."""
    given = {"clusterName": ask.facts.cluster, "nodegroupName": group}
    eks = ask.client("eks")
    found = unless("ResourceNotFoundException", lambda: eks.describe_nodegroup(**given)["nodegroup"])
    if found is None or not experiment.shape.has_devices:
        return
    yield judged(experiment, room_of_group(found, _template(ask, found), experiment.shape), fix=RECIPE)
    if found.get("capacityType") != "CAPACITY_BLOCK":
        yield from quotas.vcpus(ask, experiment.shape)


def _template(ask: Ask, group: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The data of its launch template, if it has one."""
    named = group.get("launchTemplate")
    if not named:
        return None
    given = {"LaunchTemplateId": named["id"], "Versions": [str(named.get("version") or "$Default")]}
    found = ask.client("ec2").describe_launch_template_versions(**given)["LaunchTemplateVersions"]
    return dict(found[0]["LaunchTemplateData"]) if found else None


def of_nodes(ask: Ask, experiment: ServedExperiment, *, ask_kubectl: Kubectl) -> Iterator[Check]:
    """Nodes that are there, by what they say that pods can have."""
    slots = [slot for slot in names.held_pools(ask.facts.nodes) if names.kind_of(slot) == experiment.shape.pool]
    label = f"{names.ACCELERATOR_LABEL} in ({','.join(slots)})"
    nodes = json.loads(ask_kubectl(["get", "nodes", "-l", label, "-o", "json"]))["items"]
    has_devices = experiment.shape.has_devices
    slices = json.loads(ask_kubectl(["get", "resourceslices", "-o", "json"]))["items"] if has_devices else None
    claims = json.loads(ask_kubectl(["get", "resourceclaims", "-A", "-o", "json"]))["items"] if has_devices else []
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
