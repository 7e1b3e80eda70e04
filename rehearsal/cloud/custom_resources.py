"""Custom resources: ours and CDK's own run their real Lambda. If a Lambda cannot run here, this module does its
work.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import boto3

from rehearsal.cloud.kubernetes import Kubernetes

PREFIX = "Custom::AWSCDK-EKS-"
"""CDK's kubectl and helm resources. In AWS a Lambda with the kubectl layer runs `kubectl apply` / `helm upgrade` from
the same properties. Only the layer's binaries and the registries of the charts are left out here."""
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
    raise ValueError(f"{kind} is not supported in a rehearsal: add it to rehearsal/cloud/custom_resources.py")


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


Answer = tuple[str, dict[str, Any]]


def empty_bucket(name: str) -> None:
    """Delete every object, version and marker of a bucket, as CDK's auto-delete handler does."""
    endpoint = f"http://127.0.0.1:{os.environ['GATEWAY_PORT']}"
    bucket = boto3.resource("s3", endpoint_url=endpoint, aws_access_key_id="test", aws_secret_access_key="test").Bucket(  # noqa: S106
        name
    )
    if bucket.creation_date is not None:
        bucket.object_versions.delete()
        bucket.objects.delete()


def handling(kubernetes: Kubernetes, invoke: Callable[..., Answer]) -> Callable[..., Answer]:
    """Wrap the emulator's invocation of a custom resource's Lambda.

    Some resources never reach their Lambda: kubectl and helm (the binaries and registries of their layers are not
    here), and two of CDK that use parts of the JavaScript SDK which the emulator's Node worker does not have.
    """

    def invoke_custom_resource(
        request_type: str,
        logical_id: str,
        props: dict[str, Any],
        stack_name: str,
        stack_id: str,
        resource_type: str,
        physical_id: str | None = None,
        old_props: Mapping[str, Any] | None = None,
    ) -> Answer:
        identity = physical_id or f"{stack_name}-{logical_id}"
        if resource_type.startswith(PREFIX):
            return identity, handle(kubernetes, request_type, resource_type, props, old_props)
        if resource_type == "Custom::S3AutoDeleteObjects":
            if request_type == "Delete":
                empty_bucket(props["BucketName"])
            return identity, {}
        if resource_type == "Custom::VpcRestrictDefaultSG":
            return identity, {}
        return invoke(request_type, logical_id, props, stack_name, stack_id, resource_type, physical_id, old_props)

    return invoke_custom_resource
