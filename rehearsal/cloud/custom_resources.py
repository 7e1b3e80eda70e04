"""Custom resources: ours and CDK's own run their real Lambda. If a Lambda cannot run here, this module does its
work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import boto3

from rehearsal.cloud import kubectl
from rehearsal.cloud.kubernetes import Kubernetes

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
        if resource_type.startswith(kubectl.PREFIX):
            return identity, kubectl.handle(kubernetes, request_type, resource_type, props, old_props)
        if resource_type == "Custom::S3AutoDeleteObjects":
            if request_type == "Delete":
                empty_bucket(props["BucketName"])
            return identity, {}
        if resource_type == "Custom::VpcRestrictDefaultSG":
            return identity, {}
        return invoke(request_type, logical_id, props, stack_name, stack_id, resource_type, physical_id, old_props)

    return invoke_custom_resource
