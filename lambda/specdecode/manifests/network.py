"""NetworkPolicies of the namespace: nothing is reachable, and nothing is reached, but for what a component needs.

They select by component, not by run: one set for the namespace. Inert without `enableNetworkPolicy` of vpc-cni.
"""

from __future__ import annotations

from typing import Any

from specdecode import names
from specdecode.manifests.pods import KubeObject

CLIENTS = ("benchmark", "smoke", "accuracy")
"""Components that send requests to servers."""
UPLOADERS = ("staging", "compile", *CLIENTS)
"""Components that speak to AWS (and staging to the Hugging Face hub, accuracy to the package index)."""
INSTANCE_METADATA = "169.254.169.254/32"


def network_policies() -> list[KubeObject]:
    """Default deny; names for all; servers answer clients only; HTTPS outwards for those that need it."""
    everyone: dict[str, Any] = {}
    dns = {
        "to": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
            }
        ],
        "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")],
    }
    https = {
        "to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [INSTANCE_METADATA]}}],
        "ports": [{"protocol": "TCP", "port": 443}],
    }
    serving = [{"protocol": "TCP", "port": names.SERVE_PORT}]
    return [
        _policy("default-deny", everyone, {"policyTypes": ["Ingress", "Egress"]}),
        _policy(
            "serving",
            _components("serving"),
            {
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": _components(*CLIENTS)}], "ports": serving}],
            },
        ),
        _policy(
            "clients",
            _components(*CLIENTS),
            {
                "policyTypes": ["Egress"],
                "egress": [{"to": [{"podSelector": _components("serving")}], "ports": serving}],
            },
        ),
        _policy("uploaders", _components(*UPLOADERS), {"policyTypes": ["Egress"], "egress": [dns, https]}),
    ]


def _components(*components: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": names.COMPONENT_LABEL, "operator": "In", "values": list(components)}]}


def _policy(name: str, pods: dict[str, Any], spec: dict[str, Any]) -> KubeObject:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": f"specdecode-{name}",
            "namespace": names.NAMESPACE,
            "labels": {"app.kubernetes.io/name": "specdecode", "app.kubernetes.io/managed-by": "specdecode"},
        },
        "spec": {"podSelector": pods, **spec},
    }
