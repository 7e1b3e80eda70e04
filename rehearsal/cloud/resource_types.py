"""Handlers of the CloudFormation types that the stacks contain and the emulator lacks.

`RECORDS` are types that a rehearsal only remembers: they get an id and attributes, since nothing here uses them
(networking, billing). Types that something uses have a handler of their own, over the emulator's services.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from ministack.core.responses import get_account_id, get_region
from ministack.services import iam

from rehearsal.cloud import eks
from rehearsal.cloud.kubernetes import Kubernetes

Properties = Mapping[str, Any]
Attributes = Callable[[str, str], dict[str, str]]


def _arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{get_region()}:{get_account_id()}:{resource}"


RECORDS: dict[str, tuple[str, Attributes]] = {
    "AWS::Budgets::Budget": ("budget-", lambda _i, _n: {}),
    "AWS::CE::AnomalyMonitor": ("anomalymonitor-", lambda i, _n: {"MonitorArn": _arn("ce", f"anomalymonitor/{i}")}),
    "AWS::CE::AnomalySubscription": (
        "anomalysubscription-",
        lambda i, _n: {"SubscriptionArn": _arn("ce", f"anomalysubscription/{i}")},
    ),
    "AWS::CloudWatch::AnomalyDetector": ("detector-", lambda i, _n: {"Id": i}),
    "AWS::CloudWatch::CompositeAlarm": ("alarm-", lambda i, _n: {"Arn": _arn("cloudwatch", f"alarm:{i}")}),
    "AWS::EC2::CapacityReservation": ("cr-", lambda i, _n: {"Id": i}),
    "AWS::EC2::EIP": ("eipalloc-", lambda i, n: {"AllocationId": i, "PublicIp": f"203.0.113.{int(n, 16) % 254 + 1}"}),
    "AWS::EC2::FlowLog": ("fl-", lambda i, _n: {"Id": i}),
    "AWS::EC2::NatGateway": ("nat-", lambda i, _n: {"NatGatewayId": i}),
    "AWS::EC2::NetworkAcl": ("acl-", lambda i, _n: {"Id": i}),
    "AWS::EC2::NetworkAclEntry": ("acle-", lambda i, _n: {"Id": i}),
    "AWS::EC2::PlacementGroup": ("pg-", lambda i, _n: {"GroupName": i}),
    "AWS::EC2::SecurityGroupEgress": ("sgr-", lambda i, _n: {"Id": i}),
    "AWS::EC2::SecurityGroupIngress": ("sgr-", lambda i, _n: {"Id": i}),
    "AWS::IAM::ServiceLinkedRole": ("AWSServiceRole-", lambda i, _n: {"RoleName": i}),
    "AWS::Logs::QueryDefinition": ("query-", lambda i, _n: {"QueryDefinitionId": i}),
    "AWS::SSM::Association": ("association-", lambda i, _n: {"AssociationId": i}),
}
"""Type -> (prefix of the physical id, attributes from the physical id and its hexadecimal part)."""


def record(prefix: str, attributes: Attributes) -> eks.Handlers:
    """Handlers of a type that is only remembered. The id is made from stack and logical id, so it is the same every
    time.
    """

    def create(logical_id: str, _props: Properties, stack: str) -> eks.Created:
        number = hashlib.sha256(f"{stack}/{logical_id}".encode()).hexdigest()[:17]
        return prefix + number, attributes(prefix + number, number)

    def update(physical_id: str, *_: Any) -> eks.Created:
        return physical_id, attributes(physical_id, physical_id.removeprefix(prefix))

    def delete(_physical_id: str, _props: Properties) -> None:
        return None

    return {"create": create, "update": update, "delete": delete}


def oidc_provider() -> eks.Handlers:
    """AWS::IAM::OIDCProvider. IRSA's trust policies name it, and STS compares the token's issuer with it."""

    def create(_logical_id: str, props: Properties, _stack: str) -> eks.Created:
        parameters = {"Url": [props["Url"]]}
        for index, client in enumerate(props.get("ClientIdList", []), start=1):
            parameters[f"ClientIDList.member.{index}"] = [client]
        eks.checked(iam._create_oidc_provider(parameters))
        arn = f"arn:aws:iam::{get_account_id()}:oidc-provider/{props['Url'].split('://', 1)[1]}"
        return arn, {"Arn": arn}

    def delete(physical_id: str, _props: Properties) -> None:
        iam._delete_oidc_provider({"OpenIDConnectProviderArn": [physical_id]})

    return {"create": create, "delete": delete}


def alarm(single_metric: eks.Handlers) -> eks.Handlers:
    """AWS::CloudWatch::Alarm. An alarm over metric math is only remembered; the emulator's own handlers do the
    others.
    """
    remembered = record("alarm-", lambda i, _n: {"Arn": _arn("cloudwatch", f"alarm:{i}")})

    def chosen(name: str, position: int) -> Callable[..., Any]:
        def handler(*arguments: Any) -> Any:
            table = remembered if "Metrics" in arguments[position] else single_metric
            return table[name](*arguments)

        return handler

    chosen_ones = {"create": chosen("create", 1), "update": chosen("update", 2), "delete": chosen("delete", 1)}
    return single_metric | chosen_ones


def extend(known: dict[str, eks.Handlers], kubernetes: Kubernetes) -> dict[str, eks.Handlers]:
    """Add the missing types to the emulator's own table, in place, since several of its modules hold the table."""
    for name, (prefix, attributes) in RECORDS.items():
        known.setdefault(name, record(prefix, attributes))
    known |= {
        "AWS::CloudWatch::Alarm": alarm(known["AWS::CloudWatch::Alarm"]),
        "AWS::EKS::AccessEntry": eks.access_entry(kubernetes),
        "AWS::EKS::Addon": eks.addon(kubernetes),
        "AWS::EKS::PodIdentityAssociation": eks.pod_identity(),
        "AWS::IAM::OIDCProvider": oidc_provider(),
    }
    return known
