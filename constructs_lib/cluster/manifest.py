"""Kubernetes objects as CloudFormation resources: one object a resource."""

from typing import Any

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

Manifest = dict[str, Any]


def apply(
    scope: Construct, id: str, *, cluster: eks.ICluster, manifest: Manifest, needs: tuple[IDependable, ...] = ()
) -> eks.KubernetesManifest:
    """Apply one object after `needs`. It is deleted before them.

    It is created in `scope`'s stack, not in the cluster's: `cluster.add_manifest` would reverse the order of the
    stacks.
    """
    resource = eks.KubernetesManifest(scope, id, cluster=cluster, manifest=[manifest])
    resource.node.add_dependency(*needs)
    return resource


def namespace(name: str, *, labels: dict[str, str] | None = None) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}
