"""What the tests of faults share: how far a run goes, and what it left."""

import json
from collections.abc import Callable

from specdecode.kubernetes.resources import KubeObject

from tests.specdecode.steps.world import WAITING, World

ORDER = list(WAITING)


CRASHED = {"restartCount": 5, "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}


def waiting(reason: str, message: str = "", **more: object) -> Callable[[KubeObject], None]:
    """The fate of a pod."""
    state = {"waiting": {"reason": reason, "message": message}}
    return in_phase("Pending", containerStatuses=[{"name": "main", "image": "engine:1", "state": state} | more])


def in_phase(phase: str, **more: object) -> Callable[[KubeObject], None]:
    """The fate of a pod."""
    return lambda pod: pod.update(status={"phase": phase, **more})


def up_to(world: World, step: str) -> None:
    """Bring a run to the door of `step`."""
    world.plan()
    for earlier in ORDER[: ORDER.index(step)]:
        world.finish(earlier)


def assert_nothing_left(world: World) -> None:
    assert world.workloads() == []
    assert world.replicas == 0
    assert world.rt.lease.read().claims == ()


def diagnosis(world: World) -> dict[str, str]:
    return json.loads(world.s3.objects["runs/run-1/diagnostics/diagnosis.json"])


def metrics(world: World) -> dict[str, float]:
    """The newest value of each metric."""
    return {item["MetricName"]: item["Value"] for item in world.cloudwatch.data if "Dimensions" not in item}


def metrics_of_pools(world: World) -> dict[tuple[str, str], float]:
    """(name, pool) -> newest value; "" for the metrics of all pools."""
    return {
        (item["MetricName"], "".join(found["Value"] for found in item.get("Dimensions", []))): item["Value"]
        for item in world.cloudwatch.data
    }
