"""What the watchdog found and did, and its metrics."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from specdecode.steps.runtime import Runtime

POOL = "NodePool"
"""Dimension of the metrics of one pool."""


class Reconciled(BaseModel):
    """What the watchdog found and did."""

    model_config = ConfigDict(frozen=True)

    ended: tuple[str, ...] = ()
    """Runs that held or waited though their execution had ended."""
    cleaned: tuple[str, ...] = ()
    """Values of the run label whose workloads were deleted because no run claims them."""
    replicas: int | None = None
    """Replicas of the NodePools now. None if they were left as they are, because it is not known which run holds the
    node.
    """
    nodes: int | None = None
    """NodeClaims of the pools; each is an instance that is billed. None if they cannot be counted."""
    too_many: dict[str, int] | None = None
    """NodePool -> its nodes above the number that the lease asks for. None if that is not known."""
    deleted: tuple[str, ...] = ()
    """NodeClaims that Karpenter had not begun to end though the replicas are 0."""
    ages_s: dict[str, float] = {}
    """NodePool -> seconds for which its node has been held. 0 if no run holds it."""
    holding: int = 0
    """Runs that hold a node."""
    waiting: int = 0
    """Runs that wait for one."""
    problems: tuple[str, ...] = ()
    """What could not be done, each with its reason."""


def publish(rt: Runtime, found: Reconciled, *, beats: bool) -> None:
    """Publish the metrics. The heartbeat says that the nodes are as they must be, if the watchdog can do that."""
    counts = {
        "WatchdogHeartbeat": 1 if beats else None,
        "Nodes": found.nodes,
        "NodesWithoutLease": None if found.too_many is None else sum(found.too_many.values()),
        "RunsHolding": found.holding,
        "RunsWaiting": found.waiting,
        "RunsReleasedByWatchdog": len(found.ended),
        "WatchdogProblems": len(found.problems),
    }
    data: list[dict[str, Any]] = [
        {"MetricName": name, "Value": value, "Unit": "Count"} for name, value in counts.items() if value is not None
    ]
    data.append({"MetricName": "LeaseAge", "Value": max(found.ages_s.values()), "Unit": "Seconds"})
    # Of each pool by itself, for the backstop, which ends no other run's instance.
    for name, unit, values in (
        ("LeaseAge", "Seconds", found.ages_s),
        ("NodesWithoutLease", "Count", found.too_many or {}),
    ):
        data += [
            {
                "MetricName": name,
                "Value": value,
                "Unit": unit,
                "Dimensions": [{"Name": POOL, "Value": rt.pools.name(slot)}],
            }
            for slot, value in values.items()
        ]
    rt.clients("cloudwatch").put_metric_data(Namespace=rt.environ["OPERATIONS_NAMESPACE"], MetricData=data)
