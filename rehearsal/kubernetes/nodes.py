"""Node objects, and the resources of instance types."""

from rehearsal.kubernetes.objects import Json, now

INSTANCE_TYPES: dict[str, dict[str, str]] = {
    "trn2.48xlarge": {
        "cpu": "191450m",
        "memory": "1938410Mi",
        "pods": "100",
        "vcpu": "192",
        "capacity_memory": "2097152Mi",
    },
    "trn2.3xlarge": {
        "cpu": "11900m",
        "memory": "118312Mi",
        "pods": "234",
        "vcpu": "12",
        "capacity_memory": "131072Mi",
        "nvme": "470",
    },
    "m7i.large": {"cpu": "1930m", "memory": "7147Mi", "pods": "29", "vcpu": "2", "capacity_memory": "8192Mi"},
    "m7i.xlarge": {"cpu": "3920m", "memory": "14848Mi", "pods": "58", "vcpu": "4", "capacity_memory": "16384Mi"},
    "m7i.2xlarge": {"cpu": "7910m", "memory": "29317Mi", "pods": "58", "vcpu": "8", "capacity_memory": "32768Mi"},
    "m6id.2xlarge": {
        "cpu": "7910m",
        "memory": "30326Mi",
        "pods": "58",
        "vcpu": "8",
        "capacity_memory": "32768Mi",
        "nvme": "474",
    },
    "m6id.4xlarge": {
        "cpu": "15890m",
        "memory": "60184Mi",
        "pods": "234",
        "vcpu": "16",
        "capacity_memory": "65536Mi",
        "nvme": "950",
    },
    "m6id.8xlarge": {
        "cpu": "31850m",
        "memory": "121580Mi",
        "pods": "234",
        "vcpu": "32",
        "capacity_memory": "131072Mi",
        "nvme": "1900",
    },
    "r6id.24xlarge": {
        "cpu": "95690m",
        "memory": "718987Mi",
        "pods": "737",
        "vcpu": "96",
        "capacity_memory": "786432Mi",
        "nvme": "5700",
    },
    "m7i.24xlarge": {
        "cpu": "95690m",
        "memory": "355262Mi",
        "pods": "737",
        "vcpu": "96",
        "capacity_memory": "393216Mi",
    },
    "m7i.4xlarge": {"cpu": "15890m", "memory": "57691Mi", "pods": "234", "vcpu": "16", "capacity_memory": "65536Mi"},
}
"""Allocatable and capacity by instance type, as Karpenter's instance type reference gives them (its formula for
trn2.3xlarge, which the page lacks)."""


_READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
_INFO = {
    "kubeletVersion": "v1.35.0-eks-rehearsal",
    "osImage": "Amazon Linux 2023",
    "architecture": "amd64",
    "operatingSystem": "linux",
    "bootID": "rehearsal",
    "containerRuntimeVersion": "rehearsal",
    "kernelVersion": "rehearsal",
    "kubeProxyVersion": "rehearsal",
    "machineID": "rehearsal",
    "systemUUID": "rehearsal",
}


def build(
    *,
    name: str,
    instance_type: str,
    zone: str,
    address: str,
    labels: dict[str, str],
    taints: list[Json],
    ephemeral: str,
    provider_id: str,
) -> Json:
    """A Node object with its status. `ephemeral` is the local disk that pods can use."""
    spec: Json = {"providerID": provider_id}
    if taints:
        spec["taints"] = taints
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**_labels(name, instance_type, zone), **labels}},
        "spec": spec,
        "status": {
            "allocatable": {**allocatable(instance_type), "ephemeral-storage": ephemeral},
            "capacity": {**capacity(instance_type), "ephemeral-storage": ephemeral},
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "conditions": [{**_READY, "lastTransitionTime": now(), "lastHeartbeatTime": now()}],
            "nodeInfo": dict(_INFO),
        },
    }


def allocatable(instance_type: str) -> dict[str, str]:
    """The resources of an instance of this type that pods can use, without local disk."""
    return {key: INSTANCE_TYPES[instance_type][key] for key in ("cpu", "memory", "pods")}


def capacity(instance_type: str) -> dict[str, str]:
    """The resources of an instance of this type, without local disk."""
    shape = INSTANCE_TYPES[instance_type]
    return {"cpu": shape["vcpu"], "memory": shape["capacity_memory"], "pods": shape["pods"]}


def _labels(name: str, instance_type: str, zone: str) -> dict[str, str]:
    return {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/region": zone[:-1],
        "topology.kubernetes.io/zone": zone,
    }
