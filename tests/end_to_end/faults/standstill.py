"""Nothing moves on a paid node: it hangs, or the cluster refuses its pods. Ten minutes of the node at most."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from specdecode import names, s3_keys
from specdecode.kubernetes.pods import STANDSTILL_MINUTES

from rehearsal.execution import Run
from tests.end_to_end.cloud import LONG, SMALL, Cloud
from tests.end_to_end.faults.cases import succeeds
from tests.end_to_end.faults.starting import never_served, stored

pytestmark = pytest.mark.one_node("the node's own time is measured")
SILENT_S = 60 * STANDSTILL_MINUTES - 30
"""Seconds for which the node was silent when the test began to wait: the double writes them into its condition."""


def ends(
    cloud: Cloud,
    run: Run,
    *,
    fault: str,
    where: str,
    error: str,
    row: str,
    since: float,
    measured: bool = False,
    then: Callable[[], object] = lambda: None,
) -> None:
    """`measured`: the run has its figures by then, reports them, and says in them why `where` failed."""
    try:
        end = cloud.ended(run)
        lasted_s = time.time() - since
    finally:
        then()
    if measured:
        assert end.status == "SUCCEEDED", end.cause
        (failure,) = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))["context"]["failures"]
        assert failure["stage"] == where and "is not Ready since" in failure["message"], failure
        found = {"cause": failure["message"]}
    else:
        assert (end.status, end.error) == ("FAILED", error), end.cause
        found = cloud.diagnosis(run)
        assert found["row"] == row, found
    cloud.at_rest()
    cloud.note_node(fault, where, run, cause=found["cause"], lasted_s=lasted_s)


@pytest.mark.parametrize(
    ("step", "frozen"),
    [
        ("Compile", "compile"),
        ("Serve", "serving"),
        ("Smoke", "serving"),
        ("Benchmark", "serving"),
        ("Accuracy", "accuracy"),
        ("StartCheck", "start-check"),
    ],
)
def test_a_node_hangs(cloud, step, frozen):
    """Its kubelet is silent, its processes stand still. Under load the arms count as dead at once, and are not
    waited for longer. A benchmark that is measured is reported, whatever happens after it."""
    if step == "Compile":
        cloud.forget("compiled/")
    if step == "StartCheck":
        never_served(cloud)
    run = cloud.start(f"hung-{step.lower()}", SMALL | {"accuracy": True} if step == "Accuracy" else LONG)
    cloud.until_step(run, step)
    pods = cloud.until(lambda: cloud.freeze(frozen) and cloud.pods(frozen), what=f"a running {frozen} pod")
    node, under_load = pods[0]["spec"]["nodeName"], step == "Benchmark"
    since = time.time() - SILENT_S
    cloud.control("cut", node=node, since=datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    ends(
        cloud,
        run,
        fault=f"the node hangs in {step}",
        where=step,
        error="BenchmarkFailed" if under_load else "NodeLost",
        row="node-hung",
        measured=step == "Accuracy",
        since=since,
        then=lambda: cloud.control("vanish", node=node),
    )


@contextmanager
def no_pods(cloud: Cloud) -> Iterator[None]:
    """A quota of somebody else's that admits none."""
    path = f"/api/v1/namespaces/{names.NAMESPACE}/resourcequotas"
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "of-others"}}
    cloud.running.kubernetes.request("POST", path, body | {"spec": {"hard": {"pods": "0"}}})
    try:
        yield
    finally:
        cloud.running.kubernetes.request("DELETE", f"{path}/of-others")


@contextmanager
def webhook(cloud: Cloud, does: str) -> Iterator[None]:
    cloud.control("faults", webhook=does)
    yield


@dataclass(frozen=True)
class Refusal:
    fault: str
    row: str
    on: Callable[[Cloud], AbstractContextManager[None]]


QUOTA = Refusal("a quota of 0 pods", "namespace-quota", no_pods)
DENYING = Refusal("a policy's webhook is denying", "policy-denied", partial(webhook, does="denying"))
DEAD = Refusal("a policy's webhook is dead", "webhook-down", partial(webhook, does="dead"))


@pytest.mark.parametrize(
    ("step", "error", "refusal"),
    [
        ("Serve", "ServeNotReady", QUOTA),
        ("Serve", "ServeNotReady", DENYING),
        ("Benchmark", "BenchmarkFailed", QUOTA),
        ("Benchmark", "BenchmarkFailed", DEAD),
        ("Compile", "CompileFailed", QUOTA),
        ("Compile", "CompileFailed", DEAD),
        ("StartCheck", "StartCheckFailed", QUOTA),
        ("StartCheck", "StartCheckFailed", DENYING),
    ],
    ids=lambda given: given.row if isinstance(given, Refusal) else None,
)
def test_the_cluster_refuses_pods(cloud, step: str, error: str, refusal: Refusal):
    """Cases that need what was compiled come first."""
    if step == "StartCheck":
        never_served(cloud)
    elif not stored(cloud, s3_keys.ENGINES):
        succeeds(cloud, cloud.start("serves"), fault="none: an engine's first run", where="-")
    if step == "Compile":
        cloud.forget("compiled/")
    run = cloud.start(f"refused-{step.lower()}", LONG)
    if step == "Benchmark":
        cloud.until(lambda: any(map(finished, cloud.pods("smoke"))), what="a smoke test that has passed")
    else:
        cloud.until_step(run, "AcquireCapacity")
    since = time.time()
    with refusal.on(cloud):
        ends(cloud, run, fault=f"{refusal.fault} in {step}", where=step, error=error, row=refusal.row, since=since)


def finished(pod: dict[str, Any]) -> bool:
    return bool(pod["status"].get("phase") == "Succeeded")
