"""What a node that is there, or the next node of a node group, has for the pods of a run."""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any

from specdecode.experiment.shapes import NodeShape
from specdecode.experiment.sizing import Room
from specdecode.kubernetes.resources import KubeObject, name_of

DRA_DRIVER = "neuron.aws.com"
DRIVER_VERSION = "neuronDriverVersion"
"""Attribute of a device (aws-neuron-sdk, deploy/eks/dra.rst)."""
GIB = 2**30
UNITS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": GIB, "Ti": 2**40}
DEFAULT_DISK_GIB = 20
"""Root volume of a managed node group whose launch template and `diskSize` say nothing (API_CreateNodegroup.html)."""
EVICTION, IMAGES_GIB = 0.1, 28
"""Of a root volume: the share that the kubelet keeps free, and what system and images take."""
ON_NVME = re.compile(r"""strategy["']?\s*:\s*["']?RAID(?P<level>0|10)\b""")
"""In a nodeadm NodeConfig: pods' local disk is on the node's own disks (awslabs.github.io/amazon-eks-ami/nodeadm)."""
RELEASE = re.compile(r"[\d.]+-(?P<date>\d{8})")
"""`1.35.0-20260224`: kubelet and date of the AMI release v20260224."""


def amount(quantity: object) -> float | None:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKMGT]i?|m|)", str(quantity))
    return float(found[1]) * UNITS[found[2]] if found and found[2] in UNITS else None


def room_of_node(node: KubeObject, slices: Iterable[KubeObject] | None) -> Room:
    """By its allocatable resources and its published devices. `slices` None: they are not looked at."""
    has = node.get("status", {}).get("allocatable") or {}
    memory, disk = amount(has.get("memory")), amount(has.get("ephemeral-storage"))
    devices = [
        device
        for item in slices or ()
        if item["spec"].get("nodeName") == name_of(node) and item["spec"].get("driver") == DRA_DRIVER
        for device in item["spec"].get("devices") or []
    ]
    attributes = (device.get("attributes", {}) for device in devices)
    told = [value for each in attributes for value in (each.get(DRIVER_VERSION) or {}).values()]
    return Room(
        name=f"node {name_of(node)}",
        cpu=amount(has.get("cpu")),
        memory_gib=None if memory is None else memory / GIB,
        disk_gib=None if disk is None else disk / GIB,
        devices=None if slices is None else len(devices),
        driver=str(told[0]) if told else None,
    )


def room_of_group(group: Mapping[str, Any], template: Mapping[str, Any] | None, shape: NodeShape) -> Room:
    """A node group as EKS describes it, and the data of its launch template as EC2 does. None: it was not looked at."""
    release = RELEASE.fullmatch(str(group.get("releaseVersion")))
    return Room(
        name=f"a node of {group['nodegroupName']}",
        cpu=shape.cpu,
        memory_gib=shape.memory_gib,
        disk_gib=_disk_gib(group, template, shape),
        devices=shape.devices,
        ami=f"v{release['date']}" if release else None,
    )


ROOT = "/dev/xvda"
"""Root device of Amazon Linux 2023, on which pods write without disks of their own. Other volumes are not mounted."""


def _disk_gib(group: Mapping[str, Any], template: Mapping[str, Any] | None, shape: NodeShape) -> float | None:
    size = float(group.get("diskSize") or DEFAULT_DISK_GIB)
    if group.get("launchTemplate"):
        if template is None:
            return None
        text = base64.b64decode(template.get("UserData") or "").decode(errors="replace")
        if found := ON_NVME.search(text):
            return shape.disk_gib / (2 if found["level"] == "10" else 1)
        volumes = {item.get("DeviceName"): item.get("Ebs", {}) for item in template.get("BlockDeviceMappings") or ()}
        size = float(volumes.get(ROOT, {}).get("VolumeSize") or DEFAULT_DISK_GIB)
    return max(0.0, size * (1 - EVICTION) - IMAGES_GIB)
