"""The place of each kind in the Kubernetes API."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

KubeObject = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """One kind: its group and version, its plural, and whether it is in a namespace."""

    api_version: str
    plural: str
    namespaced: bool = True

    @property
    def root(self) -> str:
        return f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"


RESOURCES: dict[str, Resource] = {
    "Pod": Resource("v1", "pods"),
    "Service": Resource("v1", "services"),
    "ConfigMap": Resource("v1", "configmaps"),
    "Secret": Resource("v1", "secrets"),
    "Event": Resource("v1", "events"),
    "Node": Resource("v1", "nodes", namespaced=False),
    "Namespace": Resource("v1", "namespaces", namespaced=False),
    "Job": Resource("batch/v1", "jobs"),
    "Deployment": Resource("apps/v1", "deployments"),
    "ResourceClaim": Resource("resource.k8s.io/v1", "resourceclaims"),
    "ResourceSlice": Resource("resource.k8s.io/v1", "resourceslices", namespaced=False),
    "NodePool": Resource("karpenter.sh/v1", "nodepools", namespaced=False),
    "NodeClaim": Resource("karpenter.sh/v1", "nodeclaims", namespaced=False),
    "EC2NodeClass": Resource("karpenter.k8s.aws/v1", "ec2nodeclasses", namespaced=False),
}

WORKLOAD_KINDS = ("Deployment", "Job", "Service", "ConfigMap")
"""Kinds that a run creates and deletes, in this order. Pods and claims go with them, and Secrets with their owner."""


def path(kind: str, *, namespace: str | None, name: str = "", sub: str = "") -> str:
    resource = RESOURCES[kind]
    parts = [resource.root]
    if resource.namespaced and namespace is not None:
        parts.append(f"namespaces/{namespace}")
    parts.append(resource.plural)
    parts += [part for part in (name, sub) if part]
    return "/".join(parts)


def name_of(obj: KubeObject) -> str:
    return str(obj["metadata"]["name"])


def parse_time(text: str) -> datetime:
    """A time as the Kubernetes API and this project write it: RFC 3339, UTC."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
