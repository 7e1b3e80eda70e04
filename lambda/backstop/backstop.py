"""The backstop: ends instances that no run can need, if the watchdog does not (ADR 133).

It shares nothing with the parts that may be broken: it is outside the VPC, calls neither Kubernetes nor the bucket, and
imports nothing but the SDK of Lambda's runtime. It uses four things, each of another service: the pools' instances
(EC2), the watchdog's metrics (CloudWatch), the executions that run (Step Functions), and policies that stop Karpenter
from launching the next instance (IAM). A second call changes nothing more.

Without KARPENTER_ROLE, Karpenter belongs to somebody else: the backstop then ends every instance that Karpenter
launches again. A NODE_GROUP is set to 0.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

import boto3
from botocore.config import Config
from judging import PERIOD_S, Instance, Judgement, Limits, Watched, hours, judge

POOL_TAG, GROUP_TAG = "karpenter.sh/nodepool", "eks:nodegroup-name"
ALIVE = ("pending", "running", "stopping", "stopped")
ALL = "all"
"""Key of the policy that closes every pool at once."""
APART = 3
"""Up to this many pools are closed by a policy each, more by that of all. A role takes ten (IAM and STS quotas);
Karpenter's has five of its own, and for a moment these and that of all.
"""
_CONFIG = Config(retries={"mode": "standard", "max_attempts": 3}, connect_timeout=3, read_timeout=8)


class Backstop:
    def __init__(self, environ: Mapping[str, str], clients: Callable[[str], Any], now: datetime) -> None:
        self._environ = environ
        self._clients = clients
        self._now = now
        self._limits = Limits(
            window=timedelta(minutes=float(environ["WINDOW_MINUTES"])),
            holding=timedelta(hours=int(environ["HOLDING_HOURS"])),
            execution=timedelta(hours=int(environ["EXECUTION_HOURS"])),
            dynamic=timedelta(hours=int(environ["DYNAMIC_HOURS"])),
        )
        self._pools = environ["NODEPOOLS"].split(",")
        """The NodePools (or the node group) whose instances runs hold."""
        self._group = environ.get("NODE_GROUP")
        """The managed node group that runs scale, if they scale no NodePools."""
        self._may_close = "KARPENTER_ROLE" in environ
        """Whether Karpenter is ours, so that the backstop may stop its launches."""
        self.problems: list[str] = []

    def look(self) -> dict[str, Any]:
        """What it found and did. Raises RuntimeError at the end if something could not be done: that is an alarm."""
        pools = self._pools
        instances = self._instances(pools)
        watched = self._try("the watchdog's metrics cannot be read", self._watched)
        started = self._try("the executions cannot be listed", self._started)
        attached = (self._may_close and self._try("Karpenter's role cannot be looked at", self._attached)) or set()
        closed = self._closed_by(attached)
        # Each pool is judged by its own metrics: what one run does is no reason to end another run's instance.
        ages = {pool: [self._now - each.launched for each in instances if each.pool == pool] for pool in pools}
        about = partial(judge, started=started, now=self._now, limits=self._limits)
        judged = {pool: about(watched and watched[pool], ages=ages[pool]) for pool in pools}
        due = [instance for instance in instances if self._is_due(instance, judged[instance.pool], closed=closed)]
        why = "; ".join({judgement.why: None for instance in due if (judgement := judged[instance.pool])})
        stays = {pool for pool, judgement in judged.items() if judgement and _stays(pool, judgement, instances)}
        if watched and any(any(told.beats) for told in watched.values()):
            closed = closed & stays
        needed = self._policies_of(closed | {instance.pool for instance in due})
        if needed != attached:
            self._change(attached, needed)
        if due and self._group:  # or its Auto Scaling group launches another
            named = {"clusterName": self._environ["CLUSTER_NAME"], "nodegroupName": self._group}
            size = {"scalingConfig": {"desiredSize": 0}}
            self._call("the node group cannot be set to 0", "eks", "update_nodegroup_config", **named, **size)
        now_closed = self._closed_by(needed)
        ended = self._end([instance.name for instance in due], why, launches=self._launches(now_closed)) if due else []
        ended += self._end_dynamic(started)
        found = {
            "instances": sorted(instance.name for instance in instances),
            "ended": ended,
            "why": why or None,
            "closed": sorted(now_closed),
            "problems": self.problems,
        }
        print(json.dumps(found))
        if self.problems:
            raise RuntimeError("; ".join(self.problems))
        return found

    def _end_dynamic(self, started: tuple[datetime, ...] | None) -> list[str]:
        """End instances that stage or compile: all if no execution runs, else those that are too old.

        No launch need be denied: Karpenter launches them for pods alone, which only an execution makes.
        """
        if "DYNAMIC_NODEPOOLS" not in self._environ:
            return []
        look = partial(self._instances, self._environ["DYNAMIC_NODEPOOLS"].split(","))
        found: list[Instance] = self._try("the instances that stage or compile cannot be listed", look) or []
        none = started == ()
        age = self._limits.window if none else self._limits.dynamic
        due = [instance.name for instance in found if self._now - instance.launched >= age]
        why = (
            "it stages or compiles for no run that goes on"
            if none
            else f"it stages or compiles and is older than {hours(age)}"
        )
        return self._end(due, why) if due else []

    def _policies_of(self, pools: set[str]) -> set[str]:
        """Keys of the policies that close `pools`. Empty if Karpenter belongs to somebody else."""
        if not self._may_close:
            return set()
        return {ALL} if len(pools) > APART and ALL in self._policies else pools

    def _closed_by(self, keys: set[str]) -> set[str]:
        return set(self._pools) if ALL in keys else keys

    def _is_due(self, instance: Instance, judgement: Judgement | None, *, closed: set[str]) -> bool:
        """Whether the instance must end: it is old enough, or it was launched while its pool was closed."""
        if judgement is None:
            return False
        slipped_through = instance.pool in closed and judgement.lasts and judgement.age == self._limits.window
        return slipped_through or self._now - instance.launched >= judgement.age

    def _end(self, instances: list[str], why: str, *, launches: str = "") -> list[str]:
        """End the instances, each whatever becomes of the others, and tell a person. Returns those ended.

        `launches`: a sentence for the message about the next instance.
        """
        ended = [
            name
            for name in instances
            if self._call(f"{name} cannot be ended", "ec2", "terminate_instances", InstanceIds=[name]) is not None
        ]
        left = ", ".join(name for name in instances if name not in ended)
        failed = f"\n\nThis could not be done: {'; '.join(self.problems)}" if self.problems else ""
        did = f"has ended {', '.join(ended)}" if ended else "has ended nothing"
        must = f" It must end {left} and CANNOT: end it by hand, it is billed." if left else ""
        text = (
            f"The backstop of the cluster {self._environ['CLUSTER_NAME']} {did}, since {why}.{must}{launches}\n\n"
            f"Look why with `specdecode capacity`, `specdecode runs` and the watchdog's log. "
            f"More: {self._environ['RUNBOOK']}{failed}"
        )
        subject = "The backstop CANNOT end an instance" if left else "The backstop has ended an instance"
        self._tell(subject, text)
        return ended

    def _launches(self, closed: set[str]) -> str:
        """A sentence for the message: what may launch the next instance."""
        if closed:
            return (
                f" Karpenter may launch no instance of {', '.join(sorted(closed))} until the backstop sees that the "
                "watchdog works and nothing is wrong there. Then it allows it by itself."
            )
        if self._group:
            return f" The node group {self._group} is set to 0. A run that asks for its node sets it to 1."
        return (
            " Karpenter is not ours to stop: it launches the next instance as long as a NodePool asks for one, and the "
            "backstop ends each after half an hour. To stop that: `kubectl scale nodepool NAME --replicas=0` for "
            f"{self._environ['NODEPOOLS']}."
        )

    def _change(self, attached: set[str], needed: set[str]) -> None:
        """Give Karpenter's role the policies `needed`. If that works, take our other policies off."""
        before = len(self.problems)
        for key in sorted(needed - attached):
            attach = partial(self._policy, "attach_role_policy", key)
            self._try(f"Karpenter cannot be kept from launching ({key})", attach)
        if len(self.problems) > before:
            return
        for key in sorted(attached - needed):
            detach = partial(self._policy, "detach_role_policy", key)
            self._try(f"Karpenter cannot be let launch again ({key})", detach)
        if opened := self._closed_by(attached) - self._closed_by(needed):
            text = f"The watchdog works and nothing is wrong: Karpenter may launch {', '.join(sorted(opened))} again."
            self._tell("The backstop lets nodes be launched again", text)

    def _policy(self, operation: str, key: str) -> None:
        role = self._environ["KARPENTER_ROLE"]
        getattr(self._clients("iam"), operation)(RoleName=role, PolicyArn=self._policies[key])

    def _tell(self, subject: str, text: str) -> None:
        topic = self._environ["TOPIC_ARN"]
        self._call("nobody can be told", "sns", "publish", TopicArn=topic, Subject=subject, Message=text)

    def _call(self, problem: str, service: str, operation: str, **given: Any) -> Any:
        return self._try(problem, lambda: getattr(self._clients(service), operation)(**given))

    def _try(self, problem: str, do: Callable[[], Any]) -> Any:
        """The result of `do`. None if it fails: the failure is then kept in `problems`."""
        try:
            return do()
        except Exception as error:
            self.problems.append(f"{problem}: {type(error).__name__}: {error}")
            return None

    # --- what it asks, each of which raises what the SDK raises

    @property
    def _policies(self) -> dict[str, str]:
        """Pool, or ALL, -> ARN of the policy that denies Karpenter to launch instances of it."""
        return dict(item.split("=", 1) for item in self._environ["NO_LAUNCH_POLICIES"].split(","))

    def _instances(self, pools: list[str]) -> list[Instance]:
        """The pools' instances, by the tags that Karpenter 1.14 sets (pkg/utils/utils.go), or EKS for a node group."""
        cluster, tag = self._environ["CLUSTER_NAME"], GROUP_TAG if self._group else POOL_TAG
        owner = ("eks:cluster-name", cluster) if self._group else (f"kubernetes.io/cluster/{cluster}", "owned")
        tags = {f"tag:{owner[0]}": [owner[1]], f"tag:{tag}": pools, "instance-state-name": list(ALIVE)}
        filters = [{"Name": name, "Values": values} for name, values in tags.items()]
        pages = self._clients("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        found = [item for page in pages for group in page["Reservations"] for item in group["Instances"]]
        return [
            Instance(item["InstanceId"], {it["Key"]: it["Value"] for it in item["Tags"]}[tag], item["LaunchTime"])
            for item in found
        ]

    def _watched(self) -> dict[str, Watched]:

        def metric(name: str, statistic: str, pool: str | None = None) -> tuple[float, ...]:
            answer = self._clients("cloudwatch").get_metric_statistics(
                Namespace=self._environ["NAMESPACE"],
                MetricName=name,
                Dimensions=[] if pool is None else [{"Name": "NodePool", "Value": pool}],
                StartTime=self._now - self._limits.window,
                EndTime=self._now,
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
            for pool in self._pools
        }

    def _started(self) -> tuple[datetime, ...]:
        listing = self._clients("stepfunctions").get_paginator("list_executions")
        pages = listing.paginate(stateMachineArn=self._environ["STATE_MACHINE_ARN"], statusFilter="RUNNING")
        return tuple(item["startDate"] for page in pages for item in page["executions"])

    def _attached(self) -> set[str]:
        listing = self._clients("iam").get_paginator("list_attached_role_policies")
        pages = listing.paginate(RoleName=self._environ["KARPENTER_ROLE"])
        arns = {item["PolicyArn"] for page in pages for item in page["AttachedPolicies"]}
        return {key for key, arn in self._policies.items() if arn in arns}


def _stays(pool: str, judgement: Judgement, instances: list[Instance]) -> bool:
    return judgement.lasts or any(instance.pool == pool for instance in instances)


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Takes any event. It looks at everything in any case."""
    return Backstop(os.environ, cache(lambda service: boto3.client(service, config=_CONFIG)), datetime.now(UTC)).look()
