"""What Karpenter knows of an instance type: its labels, and the local disk that its pods can use."""

import re

from rehearsal.kubernetes.karpenter import names
from rehearsal.kubernetes.nodes import INSTANCE_TYPES
from rehearsal.kubernetes.objects import Json, dig

_ROOT_VOLUME = "20Gi"


def labels_of_type(instance_type: str) -> dict[str, str]:
    """The labels that Karpenter gives for an instance type."""
    family, size = instance_type.split(".")
    shape = INSTANCE_TYPES[instance_type]
    found = re.match(r"([a-z]+)(\d+)", family)
    assert found is not None
    memory = int(shape["capacity_memory"].removesuffix("Mi"))
    nvme = {"karpenter.k8s.aws/instance-local-nvme": shape["nvme"]} if "nvme" in shape else {}
    return {
        names.INSTANCE_TYPE: instance_type,
        "karpenter.k8s.aws/instance-family": family,
        "karpenter.k8s.aws/instance-size": size,
        "karpenter.k8s.aws/instance-category": found[1],
        "karpenter.k8s.aws/instance-generation": found[2],
        "karpenter.k8s.aws/instance-cpu": shape["vcpu"],
        "karpenter.k8s.aws/instance-memory": str(memory),
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        **nvme,
    }


def ephemeral_storage(node_class: Json | None, instance_type: str) -> str:
    """The part of the node's disk that pods can use: the RAID of the instance store, the root volume, or 20Gi."""
    nvme = INSTANCE_TYPES[instance_type].get("nvme")
    if nvme and dig(node_class, "spec", "instanceStorePolicy") == "RAID0":
        return f"{nvme}G"
    mappings = dig(node_class, "spec", "blockDeviceMappings", default=[])
    roots = [m for m in mappings if m.get("rootVolume")] or mappings[:1]
    return str(dig(roots, 0, "ebs", "volumeSize", default=_ROOT_VOLUME))
