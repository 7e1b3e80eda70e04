"""The backstop: ends the instances that runs hold when nobody watches over them, or nobody can need them (ADR 133).

It shares nothing with what may be broken: it stands outside the VPC, asks neither Kubernetes nor the bucket, and
imports nothing but the SDK of Lambda's runtime. It knows four things, each from another service: the pool's instances
(EC2), the watchdog's metrics (CloudWatch), the executions that run (Step Functions), and how to keep Karpenter from
launching the next instance (IAM). Running it again changes nothing more.

Where Karpenter is somebody else's (no KARPENTER_ROLE), it ends what that launches again. A NODE_GROUP is set to 0.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

import boto3
from botocore.config import Config

PERIOD_S = 300
"""Seconds of a datapoint: the watchdog's period."""
POOL_TAG, GROUP_TAG = "karpenter.sh/nodepool", "eks:nodegroup-name"
ALL = "all"
"""Key of the policy that closes every pool at once."""
APART = 3
"""Pools that are closed by a policy each; more by that of all. A role takes ten (IAM and STS quotas), Karpenter's has
five of its own, and for a moment it has these and that of all."""
ALIVE = ("pending", "running", "stopping", "stopped")
_CONFIG = Config(retries={"mode": "standard", "max_attempts": 3}, connect_timeout=3, read_timeout=8)


@dataclass(frozen=True)
class Limits:
    """How patient it is."""

    window: timedelta
    """So long there was no heartbeat, or a node without a lease; and so old is an instance that is ended."""
    holding: timedelta
    """Longer than that no run may hold the node."""
    execution: timedelta
    """An execution that is older protects no instance, where the watchdog does not say who holds the node."""
    compiler: timedelta
    """Longest life of an instance that compiles while an execution runs."""


@dataclass(frozen=True)
class Instance:
    """One of EC2's that belongs to a pool."""

    name: str
    pool: str
    launched: datetime


@dataclass(frozen=True)
class Watched:
    """What the watchdog's metrics said of a pool in the window, oldest first. Empty where it said nothing, or cannot be
    asked.
    """

    beats: tuple[float, ...] = ()
    without_lease: tuple[float, ...] = ()
    """Nodes of the pool beyond those that the lease is worth."""
    lease_age_s: tuple[float, ...] = ()
    """How long its node has been held; 0 while nobody holds it."""


@dataclass(frozen=True)
class Judgement:
    """Why no instance may be there that is older than `age`."""

    why: str
    age: timedelta
    lasts: bool = True
    """Whether Karpenter stays closed once no instance is left: not where the watchdog works."""


def judge(watched: Watched, started: tuple[datetime, ...] | None, *, now: datetime, limits: Limits) -> Judgement | None:
    """Whether a pool's instances are to be ended; None where a healthy run may need them, or the watchdog has its turn.

    `started`: when each execution began that runs; None where Step Functions cannot be asked.
    """
    minutes = f"{limits.window.total_seconds() / 60:.0f} min"
    looks = max(1, int(limits.window.total_seconds() // PERIOD_S) - 1)
    if sum(1 for beat in watched.beats if beat) >= looks:
        if len(watched.lease_age_s) >= looks and not any(watched.lease_age_s):
            # Whatever the watchdog counts: it counts what Kubernetes knows, and an instance may be unknown to it.
            return Judgement(f"for {minutes} no run has held the node", limits.window, lasts=False)
        # A negative age would mean that the node is held since a time to come.
        if watched.lease_age_s and not 0 <= watched.lease_age_s[-1] <= limits.holding.total_seconds():
            return Judgement(f"a run has held the node for longer than {_hours(limits.holding)}", limits.window)
        if len(watched.without_lease) >= looks and all(watched.without_lease):
            return Judgement(f"for {minutes} there has been a node too many", limits.holding, lasts=False)
        return None
    silent = f"the watchdog has not worked for {minutes}"
    if started is None:
        return Judgement(f"{silent}, and nobody can say which runs go on", limits.execution)
    if any(now - begun <= limits.execution for begun in started):
        # Runs protect an instance only for as long as one of them may hold it, however many come after each other.
        return Judgement(f"{silent}, and the instance is older than {_hours(limits.holding)}", limits.holding)
    running = f"those that go on are older than {_hours(limits.execution)}" if started else "no run goes on"
    return Judgement(f"{silent}, and {running}", limits.window)


def _stays(pool: str, judgement: Judgement, instances: list[Instance]) -> bool:
    """Whether Karpenter stays closed because of a pool."""
    return judgement.lasts or any(instance.pool == pool for instance in instances)


def _hours(span: timedelta) -> str:
    return f"{span.total_seconds() / 3600:.0f} h"


def _value(tags: list[dict[str, str]], key: str) -> str:
    return next(tag["Value"] for tag in tags if tag["Key"] == key)


class Backstop:
    """One look, with the clients and names that it needs."""

    def __init__(self, environ: Mapping[str, str], clients: Callable[[str], Any], now: datetime) -> None:
        self._environ = environ
        self._clients = clients
        self._now = now
        self._limits = Limits(
            window=timedelta(minutes=float(environ["WINDOW_MINUTES"])),
            holding=timedelta(hours=int(environ["HOLDING_HOURS"])),
            execution=timedelta(hours=int(environ["EXECUTION_HOURS"])),
            compiler=timedelta(hours=int(environ["COMPILER_HOURS"])),
        )
        self.problems: list[str] = []

    def look(self) -> dict[str, Any]:
        """What it found and did. Raises RuntimeError at the end if something could not be done: that is an alarm."""
        instances = self._instances(self._pools)
        watched = self._try("the watchdog's metrics cannot be read", self._watched) or {}
        started = self._try("the executions cannot be listed", self._started)
        attached = (self._may_close and self._try("Karpenter's role cannot be looked at", self._attached)) or set()
        closed = self._closed_by(attached)
        # Each pool is judged by its own metrics: what one run does is no reason to end another's instance.
        judged = {
            pool: judge(watched.get(pool, Watched()), started, now=self._now, limits=self._limits)
            for pool in self._pools
        }
        due = [instance for instance in instances if self._is_due(instance, judged[instance.pool], closed=closed)]
        in_question = {instance.pool for instance in due}
        reasons = {judgement.why: None for instance in due if (judgement := judged[instance.pool])}
        why = "; ".join(reasons)
        stays = [pool for pool, judgement in judged.items() if judgement and _stays(pool, judgement, instances)]
        beats = any(any(told.beats) for told in watched.values())
        stay_closed = in_question | {pool for pool in closed if pool in stays or not beats}
        needed = self._policies_of(stay_closed)
        if needed != attached:
            self._change(attached, needed)
        if due and self._group:
            self._try("the node group cannot be set to 0", self._scale_down)
        ended = self._end([instance.name for instance in due], why, closed=self._closed_by(needed)) if due else []
        ended += self._end_compilers(started)
        found = {
            "instances": sorted(instance.name for instance in instances),
            "ended": ended,
            "why": why or None,
            "closed": sorted(self._closed_by(needed)),
            "problems": self.problems,
        }
        print(json.dumps(found))
        if self.problems:
            raise RuntimeError("; ".join(self.problems))
        return found

    def _end_compilers(self, started: tuple[datetime, ...] | None) -> list[str]:
        """End the instances that compile where no execution runs that could need them, and those that are too old.

        Karpenter launches them for pods alone, which nothing makes without an execution: none is kept from launching.
        """
        pools = [pool for pool in [self._environ.get("COMPILE_NODEPOOL")] if pool]
        listed = "the instances that compile cannot be listed"
        found: list[Instance] = (self._try(listed, lambda: self._instances(pools)) if pools else None) or []
        none = started == ()
        age = self._limits.window if none else self._limits.compiler
        due = [instance.name for instance in found if self._now - instance.launched >= age]
        why = "it compiles for no run that goes on" if none else f"it compiles and is older than {_hours(age)}"
        return self._end(due, why) if due else []

    @property
    def _may_close(self) -> bool:
        """Whether Karpenter is ours to keep from launching."""
        return "KARPENTER_ROLE" in self._environ

    @property
    def _group(self) -> str | None:
        """The managed node group that runs scale, instead of NodePools."""
        return self._environ.get("NODE_GROUP")

    @property
    def _pools(self) -> list[str]:
        return self._environ["NODEPOOLS"].split(",")

    @property
    def _policies(self) -> dict[str, str]:
        """Pool, or ALL, -> ARN of the policy that denies Karpenter to launch instances of it."""
        return dict(item.split("=", 1) for item in self._environ["NO_LAUNCH_POLICIES"].split(","))

    def _policies_of(self, pools: set[str]) -> set[str]:
        """Keys of the policies that close `pools`; none where Karpenter is somebody else's."""
        if not self._may_close:
            return set()
        return {ALL} if len(pools) > APART and ALL in self._policies else pools

    def _closed_by(self, keys: set[str]) -> set[str]:
        """Pools that policies close."""
        return set(self._pools) if ALL in keys else keys

    def _is_due(self, instance: Instance, judgement: Judgement | None, *, closed: set[str]) -> bool:
        """Whether it is old enough; one that was launched while Karpenter was closed for its own pool always is."""
        if judgement is None:
            return False
        slipped_through = instance.pool in closed and judgement.lasts and judgement.age == self._limits.window
        return slipped_through or self._now - instance.launched >= judgement.age

    def _end(self, instances: list[str], why: str, *, closed: set[str] | None = None) -> list[str]:
        """End them and tell a person, each though another fails; what it ended. `closed`: pools of which Karpenter may
        launch none now; None where that is not the question.
        """
        ec2 = self._clients("ec2")
        ended = [
            name
            for name in instances
            if self._try(f"{name} cannot be ended", partial(ec2.terminate_instances, InstanceIds=[name])) is not None
        ]
        left = ", ".join(name for name in instances if name not in ended)
        failed = f"\n\nThis could not be done: {'; '.join(self.problems)}" if self.problems else ""
        did = f"has ended {', '.join(ended)}" if ended else "has ended nothing"
        must = f" It must end {left} and CANNOT: end it by hand, it is billed." if left else ""
        may_not = ""
        if closed:
            may_not = (
                f" Karpenter may launch no instance of {', '.join(sorted(closed))} until the watchdog beats again and "
                "nothing is wrong there: then the backstop allows it by itself."
            )
        elif closed is not None and self._group:
            may_not = f" The node group {self._group} is set to 0; a run that asks for its node sets it to 1 again."
        elif closed is not None:
            may_not = (
                " Karpenter is not ours to stop: it launches the next one as long as a NodePool is to have one, and "
                "each is ended after half an hour. To end that: `kubectl scale nodepool NAME --replicas=0` for "
                f"{self._environ['NODEPOOLS']}."
            )
        text = (
            f"The backstop of the cluster {self._environ['CLUSTER_NAME']} {did}, since {why}.{must}"
            f"{may_not}\n\n"
            f"Look why with `specdecode capacity`, `specdecode list` and the watchdog's log. "
            f"More: {self._environ['RUNBOOK']}{failed}"
        )
        subject = "The backstop CANNOT end an instance" if left else "The backstop has ended an instance"
        self._try("nobody can be told", lambda: self._tell(subject, text))
        return ended

    def _tell(self, subject: str, text: str) -> None:
        self._clients("sns").publish(TopicArn=self._environ["TOPIC_ARN"], Subject=subject, Message=text)

    def _instances(self, pools: list[str]) -> list[Instance]:
        """The pools' instances, by the tags that Karpenter 1.14 sets (pkg/utils/utils.go), or EKS for a node group."""
        cluster, tag = self._environ["CLUSTER_NAME"], GROUP_TAG if self._group else POOL_TAG
        owner = ("eks:cluster-name", cluster) if self._group else (f"kubernetes.io/cluster/{cluster}", "owned")
        tags = {f"tag:{owner[0]}": [owner[1]], f"tag:{tag}": pools, "instance-state-name": list(ALIVE)}
        filters = [{"Name": name, "Values": values} for name, values in tags.items()]
        pages = self._clients("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        found = [item for page in pages for group in page["Reservations"] for item in group["Instances"]]
        return [Instance(item["InstanceId"], _value(item["Tags"], tag), item["LaunchTime"]) for item in found]

    def _watched(self) -> dict[str, Watched]:
        """Pool -> what the watchdog said of it."""
        beats = self._metric("WatchdogHeartbeat", "Sum")
        return {
            pool: Watched(
                beats=beats,
                without_lease=self._metric("NodesWithoutLease", "Minimum", pool),
                lease_age_s=self._metric("LeaseAge", "Maximum", pool),
            )
            for pool in self._pools
        }

    def _metric(self, name: str, statistic: str, pool: str | None = None) -> tuple[float, ...]:
        answer = self._clients("cloudwatch").get_metric_statistics(
            Namespace=self._environ["NAMESPACE"],
            MetricName=name,
            Dimensions=[] if pool is None else [{"Name": "NodePool", "Value": pool}],
            StartTime=self._now - self._limits.window,
            EndTime=self._now,
            Period=PERIOD_S,
            Statistics=[statistic],
        )
        return tuple(point[statistic] for point in sorted(answer["Datapoints"], key=lambda point: point["Timestamp"]))

    def _started(self) -> tuple[datetime, ...]:
        pages = (
            self._clients("stepfunctions")
            .get_paginator("list_executions")
            .paginate(stateMachineArn=self._environ["STATE_MACHINE_ARN"], statusFilter="RUNNING")
        )
        return tuple(item["startDate"] for page in pages for item in page["executions"])

    def _attached(self) -> set[str]:
        """Keys of the policies that Karpenter's role has now."""
        pages = (
            self._clients("iam")
            .get_paginator("list_attached_role_policies")
            .paginate(RoleName=self._environ["KARPENTER_ROLE"])
        )
        arns = {item["PolicyArn"] for page in pages for item in page["AttachedPolicies"]}
        return {key for key, arn in self._policies.items() if arn in arns}

    def _scale_down(self) -> None:
        """Its Auto Scaling group launches no other instance then."""
        self._clients("eks").update_nodegroup_config(
            clusterName=self._environ["CLUSTER_NAME"], nodegroupName=self._group, scalingConfig={"desiredSize": 0}
        )

    def _change(self, attached: set[str], needed: set[str]) -> None:
        """Give Karpenter's role the policies `needed`; then, if it has them, take off the others of ours."""
        iam, role, before = self._clients("iam"), self._environ["KARPENTER_ROLE"], len(self.problems)
        for key in sorted(needed - attached):
            attach = partial(iam.attach_role_policy, RoleName=role, PolicyArn=self._policies[key])
            self._try(f"Karpenter cannot be kept from launching ({key})", attach)
        if len(self.problems) > before:
            return
        for key in sorted(attached - needed):
            detach = partial(iam.detach_role_policy, RoleName=role, PolicyArn=self._policies[key])
            self._try(f"Karpenter cannot be let launch again ({key})", detach)
        if opened := self._closed_by(attached) - self._closed_by(needed):
            text = f"The watchdog beats and nothing is wrong: Karpenter may launch {', '.join(sorted(opened))} again."
            self._try("nobody can be told", lambda: self._tell("The backstop lets nodes be launched again", text))

    def _try(self, problem: str, do: Callable[[], Any]) -> Any:
        """What `do` gives, or None if it fails, which is kept as a problem."""
        try:
            return do()
        except Exception as error:
            self.problems.append(f"{problem}: {type(error).__name__}: {error}")
            return None


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Takes any event: it looks at everything anyway."""
    return Backstop(os.environ, cache(lambda service: boto3.client(service, config=_CONFIG)), datetime.now(UTC)).look()
