"""cdk-nag findings that stay. Each is acknowledged beside its construct, with the reason."""

import json
from typing import Any

from aws_cdk import Acknowledgment, Annotations, Stack, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, *rules: str, reason: str) -> None:
    """Acknowledge `rules` on `construct` and all below it. Each is a whole id: cdk-nag does not match prefixes."""
    findings = [Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason) for rule in rules]
    if findings:
        Validations.of(construct).acknowledge(*findings)


def acknowledge_wildcards(construct: IConstruct, *arns: str, reason: str) -> None:
    """Acknowledge policies of `construct` whose resource is one of `arns`. They may hold the CDK's tokens."""
    resolved = Stack.of(construct).resolve(list(arns))
    acknowledge(construct, *(f"IAM5[Resource::{_as_nag_writes(arn)}]" for arn in resolved), reason=reason)


def acknowledge_managed(construct: IConstruct, *policies: str, reason: str) -> None:
    """Acknowledge AWS-managed policies by name."""
    prefix = "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy"
    acknowledge(construct, *(f"{prefix}/{policy}]" for policy in policies), reason=reason)


def acknowledge_warning(construct: IConstruct, warning: str, *, reason: str) -> None:
    """Acknowledge one of the CDK's own warnings on `construct` and all below it."""
    Annotations.of(construct).acknowledge_warning(warning, reason)


def _as_nag_writes(value: Any) -> str:
    """A resolved value in cdk-nag's notation: `<Logical.Attribute>` for references, JSON for other functions."""
    match value:
        case str():
            return value
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(_as_nag_writes(part) for part in parts)
    return json.dumps(value, separators=(",", ":"))
