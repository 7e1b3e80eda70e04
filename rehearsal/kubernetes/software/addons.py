"""The EKS add-ons that the double knows."""

import json

import yaml

from rehearsal.kubernetes import errors
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json, dig
from rehearsal.kubernetes.software import workloads
from rehearsal.kubernetes.software.installed import CsiDriver, Installed

_DAEMONS: dict[str, dict[str, dict[str, str]]] = {
    "vpc-cni": {"aws-node": {"cpu": "50m"}},
    "kube-proxy": {"kube-proxy": {"cpu": "100m"}},
    "eks-pod-identity-agent": {"eks-pod-identity-agent": {}},
    "aws-mountpoint-s3-csi-driver": {"s3-csi-node": {"cpu": "30m", "memory": "120Mi"}},
    "amazon-cloudwatch-observability": {
        "cloudwatch-agent": {"cpu": "250m", "memory": "128Mi"},
        "fluent-bit": {"cpu": "50m", "memory": "25Mi"},
    },
}
_DEPLOYMENTS: dict[str, dict[str, tuple[int, dict[str, str]]]] = {
    "coredns": {"coredns": (2, {"cpu": "100m", "memory": "70Mi"})},
    "aws-mountpoint-s3-csi-driver": {"s3-csi-controller": (1, {"cpu": "10m", "memory": "40Mi"})},
    "amazon-cloudwatch-observability": {
        "amazon-cloudwatch-observability-controller-manager": (1, {"cpu": "100m", "memory": "64Mi"})
    },
}
_NAMESPACE = {"amazon-cloudwatch-observability": "amazon-cloudwatch"}
_CRITICAL_ONLY = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
MOUNT_NAMESPACE = "mount-s3"


class Addons:
    """Installs and removes add-ons: their pods on every node, and the functions that they add."""

    def __init__(self, cluster: Cluster, installed: Installed) -> None:
        self._cluster = cluster
        self._installed = installed

    def handle(self, body: Json) -> Json:
        """A control request `{request, name, version, configuration, role_arn}`."""
        name = body["name"]
        known = sorted({*_DAEMONS, *_DEPLOYMENTS})
        if name not in known:
            raise errors.ApiError(
                422, "Invalid", f"the rehearsal does not know the add-on {name}; known: {', '.join(known)}"
            )
        if body["request"] == "Delete":
            self._remove(name)
        else:
            self._put(name, _configuration(name, body.get("configuration") or ""), body.get("role_arn") or "")
        self._installed.changed()
        return {"name": name, "status": "ACTIVE"}

    def _put(self, name: str, configuration: Json, role_arn: str) -> None:
        owner, namespace = f"addon/{name}", _NAMESPACE.get(name, "kube-system")
        workloads.ensure_namespace(self._cluster, namespace)
        for daemon, requests in _DAEMONS.get(name, {}).items():
            obj = workloads.workload("DaemonSet", owner=owner, namespace=namespace, name=daemon, requests=requests)
            workloads.put(self._cluster, obj)
        for deployment, (replicas, requests) in _DEPLOYMENTS.get(name, {}).items():
            obj = workloads.workload(
                "Deployment",
                owner=owner,
                namespace=namespace,
                name=deployment,
                requests=requests,
                replicas=configuration.get("replicaCount", replicas),
                tolerations=_CRITICAL_ONLY,
            )
            workloads.put(self._cluster, obj)
        if name == "aws-mountpoint-s3-csi-driver":
            workloads.ensure_namespace(self._cluster, MOUNT_NAMESPACE)
            workloads.put(self._cluster, _mount_priority(owner))
            self._installed.csi_driver = CsiDriver(role_arn=role_arn)
        if name == "amazon-cloudwatch-observability" and dig(configuration, "containerLogs", "enabled", default=True):
            self._installed.logs_role = role_arn

    def _remove(self, name: str) -> None:
        workloads.remove_all(self._cluster, f"addon/{name}")
        if name == "amazon-cloudwatch-observability":
            self._installed.logs_role = None
        if name == "aws-mountpoint-s3-csi-driver":
            self._installed.csi_driver = None
            if self._cluster.store.get(r.NAMESPACES, "", MOUNT_NAMESPACE):
                self._cluster.delete(r.NAMESPACES, "", MOUNT_NAMESPACE)


def _mount_priority(owner: str) -> Json:
    """The priority of Mountpoint's pods (charts/aws-mountpoint-s3-csi-driver/templates/mount-s3-priority.yaml)."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "mount-s3-critical", "annotations": {workloads.OWNER: owner}},
        "value": 1_000_000_000,
        "preemptionPolicy": "Never",
        "globalDefault": False,
    }


def _configuration(name: str, text: str) -> Json:
    """The add-on's configuration values, JSON or YAML. Raises 422 if they cannot be read."""
    try:
        values = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as problem:
        raise errors.ApiError(
            422, "Invalid", f"add-on {name}: configuration values cannot be read: {problem}"
        ) from None
    return values or {}
