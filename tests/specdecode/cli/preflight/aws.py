"""AWS as preflight asks it: botocore's own clients and paginators, with answers that its service models allow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters
from specdecode.cli.preflight.check import Ask
from specdecode.experiment.deployment_facts import DeploymentFacts

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
ACCOUNT = "111122223333"
FACTS = DeploymentFacts(
    region="us-east-2",
    cluster="specdecode",
    kubernetes="1.35",
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


class Aws:
    """`answers`: operation -> its answer, the error that it raises, or a function of its parameters that gives one."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.denied = False
        self._session = boto3.Session("id", "key", region_name="us-east-2")

    def client(self, service: str) -> Any:
        client = self._session.client(service)

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
