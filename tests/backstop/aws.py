"""The five services as far as the backstop asks them."""

import importlib
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from specdecode import giving_back

from tests.specdecode.steps.aws_fake import client_error

FOLDER = Path(__file__).resolve().parents[2] / "lambda" / "backstop"
sys.path.append(str(FOLDER))  # as Lambda does
backstop, judging = (importlib.import_module(name) for name in ("backstop", "judging"))

NOW = datetime(2026, 11, 22, 3, tzinfo=UTC)
WINDOW = timedelta(minutes=giving_back.BACKSTOP_WINDOW_MINUTES)
HOLDING = timedelta(hours=60)
EXECUTION = timedelta(hours=108)
NO_LAUNCH = "arn:aws:iam::1:policy/no-launch-"
POOL = {"kubernetes.io/cluster/specdecode": "owned", "karpenter.sh/nodepool": "trn2"}
OLD, YOUNG = timedelta(hours=5), timedelta(minutes=29)
LOOKS = 6
"""Of the watchdog in the window."""


POOLS = ("trn2", "trn2-2", "cpu")
MANY = ("trn2", *(f"trn2-{number}" for number in range(2, 17)), "cpu")


def tags_of(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


class Aws:
    """The five services as far as the backstop asks them; `denied` operations fail."""

    def __init__(self) -> None:
        self.instances: dict[str, dict[str, Any]] = {}
        self.metrics: dict[str, list[float]] = {}
        self.of_pool: dict[str, dict[str, list[float]]] = {}
        """Pool -> its own metrics, where they differ from those of all others."""
        self.executions: list[datetime] = []
        self.attached: set[str] = {"arn:another"}
        self.told: list[tuple[str, str]] = []
        self.denied: set[str] = set()
        self.full: set[str] = set()
        """Keys of policies that the role does not take."""
        self.calls: list[str] = []
        self.sizes: list[tuple[str, str, dict[str, int]]] = []

    def client(self, service: str) -> Any:
        return SimpleNamespace(**{name: self._checked(name) for name in OPERATIONS[service]}, get_paginator=self.pages)

    def _checked(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            self.calls.append(name)
            if name in self.denied:
                raise client_error("AccessDenied", name, 403)
            return getattr(self, name)(**given)

        return call

    def pages(self, name: str) -> Any:
        return SimpleNamespace(paginate=lambda **given: [self._checked(name)(**given)])

    def instance(self, name: str, age: timedelta, *, state: str = "running", **tags: str) -> None:
        self.instances[name] = {"tags": {**POOL, **tags}, "state": state, "launched": NOW - age}

    def describe_instances(self, *, Filters: list[dict[str, Any]]) -> dict[str, Any]:
        wanted = {item["Name"]: item["Values"] for item in Filters}
        states = wanted.pop("instance-state-name")
        found = [
            {"InstanceId": name, "LaunchTime": held["launched"], "Tags": tags_of(held["tags"])}
            for name, held in self.instances.items()
            if held["state"] in states
            and all(held["tags"].get(key.removeprefix("tag:")) in values for key, values in wanted.items())
        ]
        return {"Reservations": [{"Instances": [item]} for item in found]}

    def terminate_instances(self, *, InstanceIds: list[str]) -> dict[str, Any]:
        for name in InstanceIds:
            tags = self.instances[name]["tags"]
            assert tags == GROUP or tags["kubernetes.io/cluster/specdecode"] == "owned"
            assert tags == GROUP or tags["karpenter.sh/nodepool"] in (*MANY, "staging", "compile")
            self.instances[name]["state"] = "shutting-down"
        return {"TerminatingInstances": InstanceIds}

    def update_nodegroup_config(self, *, clusterName: str, nodegroupName: str, scalingConfig: dict[str, int]) -> None:
        self.sizes.append((clusterName, nodegroupName, scalingConfig))

    def get_metric_statistics(self, **given: Any) -> dict[str, Any]:
        (statistic,) = given["Statistics"]
        assert (given["Namespace"], given["EndTime"] - given["StartTime"], given["Period"]) == ("N", WINDOW, 300)
        (pool,) = [item["Value"] for item in given["Dimensions"]] or [""]
        values = self.of_pool.get(pool, self.metrics).get(given["MetricName"], [])
        return {"Datapoints": [{statistic: value, "Timestamp": number} for number, value in enumerate(values)]}

    def list_executions(self, *, stateMachineArn: str, statusFilter: str) -> dict[str, Any]:
        assert (stateMachineArn, statusFilter) == ("machine", "RUNNING")
        return {"executions": [{"startDate": begun} for begun in self.executions]}

    def list_attached_role_policies(self, *, RoleName: str) -> dict[str, Any]:
        assert RoleName == "karpenter"
        return {"AttachedPolicies": [{"PolicyArn": arn} for arn in self.attached]}

    def attach_role_policy(self, *, RoleName: str, PolicyArn: str) -> None:
        assert RoleName == "karpenter" and PolicyArn.startswith(NO_LAUNCH)
        if PolicyArn.removeprefix(NO_LAUNCH) in self.full:
            raise client_error("LimitExceeded", "AttachRolePolicy", 409)
        self.attached.add(PolicyArn)
        assert len(self.attached) <= 1 + 5, "a role takes ten, and Karpenter's has five"

    def detach_role_policy(self, *, RoleName: str, PolicyArn: str) -> None:
        assert RoleName == "karpenter"
        self.attached.remove(PolicyArn)

    def publish(self, *, TopicArn: str, Subject: str, Message: str) -> None:
        assert TopicArn == "topic" and len(Subject) < 100
        self.told.append((Subject, Message))

    # --- situations

    def beats(self, *, without_lease: float = 0, lease_age: float = 0) -> None:
        self.metrics = {
            "WatchdogHeartbeat": [1.0] * LOOKS,
            "NodesWithoutLease": [without_lease] * LOOKS,
            "LeaseAge": [lease_age] * LOOKS,
        }

    @property
    def closed(self) -> set[str]:
        """Keys of the policies that Karpenter's role has."""
        return {arn.removeprefix(NO_LAUNCH) for arn in self.attached if arn.startswith(NO_LAUNCH)}

    @property
    def alive(self) -> list[str]:
        return sorted(name for name, held in self.instances.items() if held["state"] in backstop.ALIVE)


OPERATIONS = {
    "ec2": ["terminate_instances"],
    "cloudwatch": ["get_metric_statistics"],
    "stepfunctions": [],
    "iam": ["attach_role_policy", "detach_role_policy"],
    "sns": ["publish"],
    "eks": ["update_nodegroup_config"],
}


def look(
    aws: Aws,
    *,
    later: timedelta = timedelta(),
    pools: tuple[str, ...] = POOLS,
    without: tuple[str, ...] = (),
    **more: str,
) -> dict[str, Any]:
    keys = [*pools, "all"] if len(pools) > backstop.APART else pools
    environ = {
        "CLUSTER_NAME": "specdecode",
        "NAMESPACE": "N",
        "STATE_MACHINE_ARN": "machine",
        "TOPIC_ARN": "topic",
        "KARPENTER_ROLE": "karpenter",
        "NODEPOOLS": ",".join(pools),
        "NO_LAUNCH_POLICIES": ",".join(f"{key}={NO_LAUNCH}{key}" for key in keys),
        "WINDOW_MINUTES": str(giving_back.BACKSTOP_WINDOW_MINUTES),
        "HOLDING_HOURS": str(int(HOLDING.total_seconds() // 3600)),
        "DYNAMIC_NODEPOOLS": "staging,compile",
        "DYNAMIC_HOURS": "25",
        "EXECUTION_HOURS": str(int(EXECUTION.total_seconds() // 3600)),
        "RUNBOOK": "docs/operations.md",
    }
    given = {key: value for key, value in environ.items() if key not in without}
    return backstop.Backstop(given | more, aws.client, NOW + later).look()


GROUP = {"eks:cluster-name": "specdecode", "eks:nodegroup-name": "trainium"}
