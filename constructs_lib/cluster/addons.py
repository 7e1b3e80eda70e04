"""The EKS add-ons that a node needs before it is Ready, and DNS."""

import json
from typing import Any

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from constructs_lib.settings.fields import Settings


def addon(
    scope: Construct,
    id: str,
    *,
    cluster: eks.ICluster,
    name: str,
    settings: Settings,
    values: dict[str, Any] | None = None,
    role_arn: str | None = None,
) -> eks.CfnAddon:
    """A pinned add-on. It is the L1 construct, because the L2 takes no role for the service account."""
    return eks.CfnAddon(
        scope,
        id,
        cluster_name=cluster.cluster_name,
        addon_name=name,
        addon_version=settings.addon_versions[name],
        configuration_values=json.dumps(values, sort_keys=True) if values else None,
        service_account_role_arn=role_arn,
        resolve_conflicts="OVERWRITE",
        preserve_on_delete=False,
    )


class Addons(Construct):
    """vpc-cni and kube-proxy come before the first node (without a CNI no node becomes Ready), coredns after it.

    Network policies are on in vpc-cni. Without that, the API would accept the project's NetworkPolicies and nothing
    would enforce them.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: eks.ICluster, system_nodes: eks.Nodegroup, settings: Settings
    ) -> None:
        super().__init__(scope, id)
        cni = addon(
            self, "VpcCni", cluster=cluster, name="vpc-cni", settings=settings, values={"enableNetworkPolicy": "true"}
        )
        proxy = addon(self, "KubeProxy", cluster=cluster, name="kube-proxy", settings=settings)
        system_nodes.node.add_dependency(cni, proxy)
        self.coredns = addon(
            self, "CoreDns", cluster=cluster, name="coredns", settings=settings, values={"replicaCount": 2}
        )
        self.coredns.node.add_dependency(system_nodes)
