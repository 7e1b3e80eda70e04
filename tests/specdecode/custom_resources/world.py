"""What the guards see and reach: a cluster, AWS, CloudFormation that gets an answer, and a clock."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from specdecode import names
from specdecode.custom_resources import handler as guards
from specdecode.custom_resources import waiting

from tests.specdecode.steps.aws_fake import FakeS3, client_error
from tests.specdecode.steps.cluster_fake import FakeCluster

MACHINE = "arn:aws:states:us-east-2:111122223333:stateMachine:pipeline"
NO_LAUNCH = [f"arn:aws:iam::1:policy/no-launch-{pool}" for pool in ("trn2", "cpu", "cpu-large")]
GIVEN = {"StateMachineArn": MACHINE, "Bucket": "bucket", "KarpenterRole": "karpenter", "NoLaunchPolicies": NO_LAUNCH}


class Context:
    invoked_function_arn = "arn:aws:lambda:us-east-2:111122223333:function:guard"

    def __init__(self, minutes: float = 15) -> None:
        self.left_ms = int(minutes * 60_000)

    def get_remaining_time_in_millis(self) -> int:
        return self.left_ms


class Aws:
    """The AWS clients of the guards: executions that run, invocations that were asked for."""

    def __init__(self) -> None:
        self.running = ["run-1", "run-2"]
        self.stopped: list[str] = []
        self.invoked: list[dict[str, Any]] = []
        self.attached: set[tuple[str, str]] = set()
        self.s3 = FakeS3()
        self.clients: dict[str, Any] = {"s3": self.s3}
        """Service -> its client, where this is not one."""

    def client(self, name: str, config: Any = None) -> Any:
        return self.clients.get(name, self)

    def get_paginator(self, name: str) -> Any:
        assert name == "list_executions"
        return self

    def paginate(self, **given: str) -> list[dict[str, Any]]:
        assert given == {"stateMachineArn": MACHINE, "statusFilter": "RUNNING"}
        return [{"executions": [{"executionArn": name}]} for name in self.running]

    def detach_role_policy(self, *, RoleName: str, PolicyArn: str) -> None:
        if (RoleName, PolicyArn) not in self.attached:
            raise client_error("NoSuchEntity", "DetachRolePolicy", 404)
        self.attached.remove((RoleName, PolicyArn))

    def stop_execution(self, *, executionArn: str, error: str, cause: str) -> None:
        self.stopped.append(executionArn)
        self.running = [name for name in self.running if name != executionArn]

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> None:
        assert (FunctionName, InvocationType) == (Context.invoked_function_arn, "Event")
        self.invoked.append(json.loads(Payload))


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = FakeCluster(lambda: datetime(2026, 11, 21, tzinfo=UTC))
        self.aws = Aws()
        self.answers: list[dict[str, Any]] = []
        self.slept = 0.0
        self.after: dict[int, Any] = {}
        monkeypatch.setattr(guards, "connect", lambda environ: self.cluster.client())
        monkeypatch.setattr(guards.aws, "client", self.aws.client)
        monkeypatch.setattr(urllib3.PoolManager, "request", self.put)
        monkeypatch.setattr(waiting, "time", SimpleNamespace(sleep=self.sleep, time=lambda: self.slept))

    def put(self, method: str, url: str, *, body: bytes, headers: dict[str, str]) -> None:
        assert (method, url, headers) == ("PUT", "https://answer", {"Content-Type": ""})
        self.answers.append(json.loads(body))

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        for moment in [moment for moment in self.after if moment <= self.slept]:
            self.after.pop(moment)()

    def send(self, kind: str, guard: str, *, context: Context | None = None, **more: Any) -> dict[str, Any]:
        """The answer to CloudFormation. Empty if there is none yet."""
        properties = {"ServiceToken": "x", "Guard": guard, **more.pop("properties", {})}
        event = {
            "RequestType": kind,
            "RequestId": "1",
            "ResponseURL": "https://answer",
            "StackId": "stack",
            "LogicalResourceId": "Guard",
            "ResourceProperties": properties,
            **more,
        }
        before = len(self.answers)
        guards.handler(event, context or Context())
        assert len(self.answers) <= before + 1
        return self.answers[-1] if len(self.answers) > before else {}

    def pool(self, replicas: int, name: str = names.NODEPOOL) -> None:
        self.cluster.put({"kind": "NodePool", "metadata": {"name": name}, "spec": {"replicas": replicas}})

    def claim(self, name: str, pool: str = names.NODEPOOL, **more: str) -> None:
        labels = {"karpenter.sh/nodepool": pool}
        self.cluster.put({"kind": "NodeClaim", "metadata": {"name": name, "labels": labels, **more}})
