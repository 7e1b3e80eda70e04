"""Condition keys of IAM that the emulator lacks or has in another form."""

import json
from collections.abc import Callable
from typing import Any

from ministack.services import ec2

Principal = tuple[str, dict[str, Any]]


def one_audience(principal: Callable[..., Principal]) -> Callable[..., Principal]:
    """Wrap the emulator's reading of a token. EKS writes the audience as a list of one; the list counts as that
    audience.
    """

    def web_identity_principal(*arguments: Any) -> Principal:
        provider, keys = principal(*arguments)
        return provider, {
            key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in keys.items()
        }

    return web_identity_principal


def with_instances(read: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap the emulator's reading of a request's condition keys: instances get their tags, an attached policy gets its
    ARN.
    """

    def request_context(service: str, action: str, body: bytes, params: dict[str, Any]) -> dict[str, Any]:
        context = read(service, action, body, params)
        if action == "ec2:TerminateInstances":
            tags = ec2._tags.get(_first(params, "InstanceId.1"), [])
            context = {**context, **{f"aws:ResourceTag/{tag['Key']}".lower(): tag["Value"] for tag in tags}}
        if action == "ec2:RunInstances":
            for name in [
                name for name in params if name.startswith("TagSpecification.1.Tag.") and name.endswith("Key")
            ]:
                value = _first(params, name.removesuffix("Key") + "Value")
                context = {**context, f"aws:RequestTag/{_first(params, name)}".lower(): value}
        if action in ("iam:AttachRolePolicy", "iam:DetachRolePolicy"):
            context = {**context, "iam:policyarn": _first(params, "PolicyArn")}
        return context

    return request_context


def launched_instance(resource: Callable[..., str]) -> Callable[..., str]:
    """Wrap the emulator's choice of a request's resource: RunInstances concerns an instance, not its image."""

    def extract_resource_arn(service: str, *arguments: Any, **named: Any) -> str:
        arn = resource(service, *arguments, **named)
        if service == "ec2" and ":image/" in arn:
            return f"{arn.partition(':image/')[0]}:instance/new"
        return arn

    return extract_resource_arn


def _first(params: dict[str, Any], name: str) -> str:
    value = params.get(name, "")
    return str(value[0] if isinstance(value, list) else value)


def with_metric_namespace(read: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap the emulator's reading of a request's condition keys: PutMetricData has `cloudwatch:namespace`."""

    def request_context(service: str, action: str, body: bytes, params: dict[str, Any]) -> dict[str, Any]:
        context = read(service, action, body, params)
        if action == "cloudwatch:PutMetricData" and body[:1] == b"{":
            context = {**context, "cloudwatch:namespace": json.loads(body).get("Namespace")}
        return context

    return request_context
