"""NetworkPolicies of the namespace: each component reaches, and can be reached by, only what it needs."""

from __future__ import annotations

from specdecode.experiment.assets import kubernetes_objects
from specdecode.manifests.pods import KubeObject

POLICIES = "network-policies.yaml"


def network_policies() -> list[KubeObject]:
    """The same policies that the stack applies. They select by component, not by run: one set for the namespace.

    Inert without `enableNetworkPolicy` of vpc-cni.
    """
    return kubernetes_objects(POLICIES)
