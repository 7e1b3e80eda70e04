"""CDK's kubectl and helm custom resources. The double does the work of their Lambda.

In AWS a Lambda with the kubectl layer runs `kubectl apply` / `helm upgrade` from the same properties. Only the layer's
binaries and the registries of the charts are left out here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rehearsal.cloud.kubernetes import Kubernetes

PREFIX = "Custom::AWSCDK-EKS-"
FIELD_MANAGER = "kubectl-client-side-apply"

Properties = Mapping[str, Any]


def handle(
    kubernetes: Kubernetes, request: str, kind: str, properties: Properties, old: Properties | None
) -> dict[str, Any]:
    """Do one request (`Create`, `Update`, `Delete`) and return the resource's attributes.

    Raises KubernetesError with the API's message, or ValueError for a kind of resource that is not supported.
    """
    match kind.removeprefix(PREFIX):
        case "KubernetesResource":
            _manifest(kubernetes, request, properties, old)
            return {}
        case "HelmChart":
            _chart(kubernetes, request, properties)
            return {}
    raise ValueError(f"{kind} is not supported in a rehearsal: add it to rehearsal/cloud/kubectl.py")


def _manifest(kubernetes: Kubernetes, request: str, properties: Properties, old: Properties | None) -> None:
    objects = json.loads(properties["Manifest"])
    if request == "Delete":
        for obj in reversed(objects):
            kubernetes.delete(obj)
        return
    for obj in objects:
        kubernetes.apply(obj, manager=FIELD_MANAGER)
    kept = {_identity(obj) for obj in objects}
    for obj in json.loads(old["Manifest"]) if old else []:
        if _identity(obj) not in kept:
            kubernetes.delete(obj)


def _identity(obj: Mapping[str, Any]) -> tuple[str, ...]:
    metadata = obj["metadata"]
    return (obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"])


def _chart(kubernetes: Kubernetes, request: str, properties: Properties) -> None:
    kubernetes.request(
        "POST",
        "/_rehearsal/helm",
        {
            "request": request,
            "release": properties["Release"],
            "namespace": properties.get("Namespace", "default"),
            "chart": properties.get("Chart", ""),
            "repository": properties.get("Repository", ""),
            "version": properties.get("Version", ""),
            "values": json.loads(properties.get("Values") or "{}"),
        },
    )
