"""AWS as preflight asks it: botocore's own clients and paginators, with answers that its service models allow."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import boto3
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters
from specdecode.cli.preflight import capacity
from specdecode.cli.preflight.check import Ask
from specdecode.experiment.deployment_facts import DeploymentFacts

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
ACCOUNT = "111122223333"
FACTS = DeploymentFacts(
    region="us-east-2",
    cluster="specdecode",
    kubernetes="1.35",
    supported=("1.34", "1.35"),
    zones=("use2-az1", "use2-az2", "use2-az3"),
    node_zones=("use2-az1", "use2-az2"),
    nat_gateways=1,
    system_type="m7i.xlarge",
    ami="v20260224",
    staging_ami="v20260625",
    addons={"vpc-cni": "v1.22.4-eksbuild.3"},
)
DENIED = {
    **dict.fromkeys(("ec2",), "UnauthorizedOperation"),
    **dict.fromkeys(("sns",), "AuthorizationError"),
    **dict.fromkeys(("s3", "sts", "cloudformation", "sqs"), "AccessDenied"),
}
"""Service -> how it says that one may not (the others: AccessDeniedException)."""


def error(code: str, message: str = "", operation: str = "Operation") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message or code}}, operation)


_session = boto3.Session("id", "key", region_name="us-east-2")
_client = cache(_session.client)
"""One of each service for all tests: to read the service models again for each test would be most of their time."""


class Aws:
    """`answers`: operation -> its answer, the error that it raises, or a function of its parameters that gives one."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.denied = False

    def client(self, service: str) -> Any:
        made = _client(service)
        client = object.__new__(type(made))
        vars(client).update(vars(made))

        def call(operation: str, given: dict[str, Any]) -> dict[str, Any]:
            model = client.meta.service_model.operation_model(operation)
            validate_parameters(given, model.input_shape)
            self.asked.append((operation, given))
            if self.denied:
                raise error(DENIED.get(service, "AccessDeniedException"), operation=operation)
            answer = self.answers[operation]
            if isinstance(answer, Callable):
                answer = answer(given)
            if isinstance(answer, Exception):
                raise answer
            validate_parameters(answer, model.output_shape)
            return answer

        client._make_api_call = call
        return client

    def ask(self, *, deployed: bool = False, region: str = "us-east-2", **facts: Any) -> Ask:
        known = FACTS.model_copy(update=facts)
        return Ask(client=self.client, region=region, facts=known, deployed=deployed, now=NOW)


def hours(number: float) -> datetime:
    return NOW + timedelta(hours=number)


def verdicts(checks: Any) -> dict[str, str]:
    return {check.name: check.verdict for check in checks}


IDENTITY = {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/me", "UserId": "U"}
TRN2 = "trn2.48xlarge"


def zones(*, offered=("use2-az1", "use2-az2"), ids=("use2-az1", "use2-az2", "use2-az3")):
    named = [
        {"ZoneName": f"us-east-2{letter}", "ZoneId": number, "State": "available"}
        for letter, number in zip("abc", ids, strict=True)
    ]
    return Aws(
        DescribeAvailabilityZones={"AvailabilityZones": named},
        DescribeInstanceTypeOfferings={"InstanceTypeOfferings": [{"Location": zone} for zone in offered]},
    )


def reservation(**given):
    item = {
        "CapacityReservationId": "cr-1",
        "InstanceType": TRN2,
        "State": "active",
        "AvailableInstanceCount": 1,
        "TotalInstanceCount": 1,
        "AvailabilityZoneId": "use2-az1",
    }
    return Aws(DescribeCapacityReservations={"CapacityReservations": [item | given]})


def instance(kind, *, cores=96, threads=2, tags=(), **more):
    options = {"CoreCount": cores, "ThreadsPerCore": threads}
    return {"InstanceType": kind, "CpuOptions": options, "Tags": [{"Key": k, "Value": v} for k, v in tags], **more}


def vcpus(*instances, trn=192.0, standard=32.0):
    values = {capacity.TRN.code: trn, capacity.STANDARD.code: standard}
    system = {"VCpuInfo": {"DefaultVCpus": 4}}
    return Aws(
        DescribeInstances={"Reservations": [{"Instances": list(instances)}]},
        DescribeInstanceTypes={"InstanceTypes": [system]},
        GetServiceQuota=lambda given: {"Quota": {"Value": values[given["QuotaCode"]]}},
    )


def network(*, vpcs=1, addresses=0, gateways=0):
    return Aws(
        GetServiceQuota={"Quota": {"Value": 5.0}},
        DescribeVpcs={"Vpcs": [{}] * vpcs},
        DescribeAddresses={"Addresses": [{}] * addresses},
        DescribeNatGateways={"NatGateways": [{"SubnetId": "subnet-1"}] * gateways},
        DescribeSubnets={"Subnets": [{"SubnetId": "subnet-1", "AvailabilityZoneId": "use2-az1"}]},
    )
