"""Nothing moves on a paid node: it hangs, or the cluster refuses its pods. Ten minutes of the node at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from specdecode import names
from specdecode.kubernetes.pods import STANDSTILL_MINUTES

from rehearsal.execution import Run
from tests.end_to_end.cloud import LONG, Cloud

pytestmark = [pytest.mark.timeout(900), pytest.mark.one_node("the node's own time is measured")]
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
    then: Callable[[], object] = lambda: None,
) -> None:
    try:
        end = cloud.ended(run)
        lasted_s = time.time() - since
    finally:
        then()
    assert (end.status, end.error) == ("FAILED", error), end.cause
    found = cloud.diagnosis(run)
    assert found["row"] == row, found
    cloud.at_rest()
    cloud.note_node(fault, where, run, cause=found["cause"], lasted_s=lasted_s)


@pytest.mark.parametrize(
    ("step", "frozen"),
    [("Compile", "compile"), ("Serve", "serving"), ("Smoke", "serving"), ("Benchmark", "serving")],
)
def test_a_node_hangs(cloud, step, frozen):
    """Its kubelet is silent, its processes stand still. Under load the arms count as dead at once, and are not
    waited for longer."""
    if step == "Compile":
        cloud.forget("compiled/")
    run = cloud.start(f"hung-{step.lower()}", LONG)
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
        row="node-lost",
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


def test_a_quota_admits_no_pod(cloud):
    cloud.forget("compiled/")
    run = cloud.start("quota-of-none", LONG)
    cloud.until_step(run, "AcquireCapacity")
    since, fault = time.time(), "a quota of 0 pods"
    with no_pods(cloud):
        ends(cloud, run, fault=fault, where="Compile", error="CompileFailed", row="namespace-quota", since=since)


@pytest.mark.parametrize(("webhook", "row"), [("denying", "policy-denied"), ("dead", "webhook-down")])
def test_a_policy_s_webhook_refuses_pods(cloud, webhook, row):
    cloud.forget("compiled/")
    run = cloud.start(f"webhook-{webhook}", LONG)
    cloud.until_step(run, "AcquireCapacity")
    cloud.control("faults", webhook=webhook)
    since, fault = time.time(), f"a policy's webhook is {webhook}"
    ends(cloud, run, fault=fault, where="Compile", error="CompileFailed", row=row, since=since)
