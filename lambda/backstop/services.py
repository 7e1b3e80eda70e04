"""The calls to AWS that the backstop makes. Each raises what the SDK raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from judging import PERIOD_S, Instance, Limits, Watched

POOL_TAG, GROUP_TAG = "karpenter.sh/nodepool", "eks:nodegroup-name"
ALIVE = ("pending", "running", "stopping", "stopped")


class Services:
    """EC2, CloudWatch, Step Functions, IAM, EKS and SNS, with the names that `environ` gives."""

    def __init__(self, environ: Mapping[str, str], clients: Callable[[str], Any]) -> None:
        self._environ = environ
        self._clients = clients

    @property
    def group(self) -> str | None:
        """The managed node group that runs scale. None if they scale NodePools."""
        return self._environ.get("NODE_GROUP")

    @property
    def pools(self) -> list[str]:
        """The NodePools (or the node group) whose instances runs hold."""
        return self._environ["NODEPOOLS"].split(",")

    @property
    def policies(self) -> dict[str, str]:
        """Pool, or ALL, -> ARN of the policy that denies Karpenter to launch instances of it."""
        return dict(item.split("=", 1) for item in self._environ["NO_LAUNCH_POLICIES"].split(","))

    def instances(self, pools: list[str]) -> list[Instance]:
        """The pools' instances, by the tags that Karpenter 1.14 sets (pkg/utils/utils.go), or EKS for a node group."""
        cluster, tag = self._environ["CLUSTER_NAME"], GROUP_TAG if self.group else POOL_TAG
        owner = ("eks:cluster-name", cluster) if self.group else (f"kubernetes.io/cluster/{cluster}", "owned")
        tags = {f"tag:{owner[0]}": [owner[1]], f"tag:{tag}": pools, "instance-state-name": list(ALIVE)}
        filters = [{"Name": name, "Values": values} for name, values in tags.items()]
        pages = self._clients("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        found = [item for page in pages for group in page["Reservations"] for item in group["Instances"]]
        return [Instance(item["InstanceId"], _value(item["Tags"], tag), item["LaunchTime"]) for item in found]

    def terminate(self, instance: str) -> Any:
        """End an instance."""
        return self._clients("ec2").terminate_instances(InstanceIds=[instance])

    def watched(self, *, now: datetime, limits: Limits) -> dict[str, Watched]:
        """Pool -> the watchdog's metrics of it."""

        def metric(name: str, statistic: str, pool: str | None = None) -> tuple[float, ...]:
            answer = self._clients("cloudwatch").get_metric_statistics(
                Namespace=self._environ["NAMESPACE"],
                MetricName=name,
                Dimensions=[] if pool is None else [{"Name": "NodePool", "Value": pool}],
                StartTime=now - limits.window,
                EndTime=now,
                Period=PERIOD_S,
                Statistics=[statistic],
            )
            points = sorted(answer["Datapoints"], key=lambda point: point["Timestamp"])
            return tuple(point[statistic] for point in points)

        beats = metric("WatchdogHeartbeat", "Sum")
        return {
            pool: Watched(
                beats=beats,
                without_lease=metric("NodesWithoutLease", "Minimum", pool),
                lease_age_s=metric("LeaseAge", "Maximum", pool),
            )
            for pool in self.pools
        }

    def started(self) -> tuple[datetime, ...]:
        """Start times of the executions that run."""
        pages = (
            self._clients("stepfunctions")
            .get_paginator("list_executions")
            .paginate(stateMachineArn=self._environ["STATE_MACHINE_ARN"], statusFilter="RUNNING")
        )
        return tuple(item["startDate"] for page in pages for item in page["executions"])

    def attached(self) -> set[str]:
        """Keys of the policies that Karpenter's role has now."""
        pages = (
            self._clients("iam")
            .get_paginator("list_attached_role_policies")
            .paginate(RoleName=self._environ["KARPENTER_ROLE"])
        )
        arns = {item["PolicyArn"] for page in pages for item in page["AttachedPolicies"]}
        return {key for key, arn in self.policies.items() if arn in arns}

    def attach(self, key: str) -> None:
        """Give Karpenter's role the policy of `key`."""
        self._clients("iam").attach_role_policy(RoleName=self._environ["KARPENTER_ROLE"], PolicyArn=self.policies[key])

    def detach(self, key: str) -> None:
        """Take the policy of `key` off Karpenter's role."""
        self._clients("iam").detach_role_policy(RoleName=self._environ["KARPENTER_ROLE"], PolicyArn=self.policies[key])

    def scale_down(self) -> None:
        """Set the node group to 0, so that its Auto Scaling group launches no other instance."""
        self._clients("eks").update_nodegroup_config(
            clusterName=self._environ["CLUSTER_NAME"], nodegroupName=self.group, scalingConfig={"desiredSize": 0}
        )

    def tell(self, subject: str, text: str) -> None:
        """Send a message to the topic of alerts."""
        self._clients("sns").publish(TopicArn=self._environ["TOPIC_ARN"], Subject=subject, Message=text)


def _value(tags: list[dict[str, str]], key: str) -> str:
    return next(tag["Value"] for tag in tags if tag["Key"] == key)
