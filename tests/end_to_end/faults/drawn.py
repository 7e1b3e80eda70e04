"""Faults that a seed draws (tests/chaos), in a rehearsal: processes are ended by SIGKILL, the API is the double."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from specdecode import names
from specdecode.cli.runs_view import current_step

from rehearsal.execution import Run
from tests.chaos.faults import KINDS, Fault, drawn
from tests.end_to_end.cloud import SMALL, Cloud
from tests.end_to_end.faults.functions import kill_function

pytestmark = pytest.mark.one_node("one node is enough: the draws in virtual time have two")
STEPS = {"Compile": "compile", "Serve": "serving", "Smoke": "serving", "Benchmark": "benchmark", "Accuracy": "accuracy"}
"""Where a drawn fault comes, and whose pods are killed there."""


def kill_pods(cloud: Cloud, run: Run, step: str) -> None:
    cloud.until(lambda: cloud.kill(STEPS[step]) or is_past(run, step), what=f"a running pod in {step}")


def vanish(cloud: Cloud, run: Run, step: str) -> None:
    path = f"/api/v1/namespaces/{names.NAMESPACE}/pods"

    def used() -> set[str]:
        return {node for pod in cloud.listed(path) if (node := pod["spec"].get("nodeName"))}

    cloud.until(lambda: used() or is_past(run, step), what=f"a pod on a node in {step}")
    for node in used():
        cloud.control("vanish", node=node)


HAPPENS: dict[str, Callable[[Cloud, Run, str], object]] = {
    "pods are killed": kill_pods,
    "a function is killed": lambda cloud, run, step: kill_function(cloud, step, times=1),
    "Kubernetes refuses": lambda cloud, run, step: cloud.control("faults", api=[{"code": 503, "count": 8}]),
    "a person stops a run": lambda cloud, run, step: run.deployment.stop(run.arn),
    "the node is gone": vanish,
}


def is_past(run: Run, step: str) -> bool:
    """Whether the run has left the step, or ended."""
    return run.look().status != "RUNNING" or current_step(run.deployment.events(run.arn))[0] != step


def draws(seed: int) -> list[Fault]:
    """Two faults that can happen here, in the order of their steps."""
    rng, found = random.Random(seed), list[Fault]()
    while len(found) < 2:
        fault = drawn(rng, until_s=len(STEPS))
        if fault.kind in HAPPENS and fault.at_s not in {each.at_s for each in found}:
            found.append(fault)
    return sorted(found, key=lambda fault: fault.at_s)


@pytest.mark.parametrize("seed", range(4))
def test_drawn_faults(cloud: Cloud, seed: int) -> None:
    cloud.forget("compiled/")
    run = cloud.start(f"drawn-{seed}", SMALL | {"workload.requests": 30, "accuracy": True})
    happened, steps = list[str](), list(STEPS)
    for fault in draws(seed):
        step = steps[fault.at_s]
        cloud.until(lambda step=step: run.look().status != "RUNNING" or is_in(run, step), what=f"{step}, or the end")
        if run.look().status == "RUNNING":
            HAPPENS[fault.kind](cloud, run, step)
            happened.append(fault.kind)
    end = cloud.ended(run)
    cloud.at_rest()
    cause = cloud.diagnosis(run)["cause"] if end.status == "FAILED" else "-"
    if end.status == "FAILED":
        assert cloud.diagnosis(run)["row"] in frozenset().union(*(KINDS[kind].causes for kind in happened)), end.cause
    assert (end.status == "ABORTED") == ("a person stops a run" in happened)
    assert all(found for found in cloud.records(run).values()), "every record that is stored can be read"
    cloud.note(f"drawn by seed {seed}: {', then '.join(happened)}", "-", run, cause=cause)


def is_in(run: Run, step: str) -> bool:
    return current_step(run.deployment.events(run.arn))[0] == step
