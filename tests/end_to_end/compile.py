"""Compiling without the accelerator, end to end: two runs of the deployed state machine with `compile.on: cpu`.

Not part of `make test` (two to four minutes):

    .venv/bin/pytest -s tests/end_to_end/compile.py
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from specdecode import names, s3_keys
from specdecode.experiment.shapes import COMPILER
from specdecode.runs.state import RunState

from rehearsal.execution import Run, outcome
from tests.end_to_end.cloud import SMALL, Cloud, deployed

ON_CPU = SMALL | {"compile.on": "cpu"}


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with deployed() as running:
        yield Cloud(running)


@pytest.fixture(autouse=True)
def _nothing_compiled(cloud: Cloud) -> Iterator[None]:
    cloud.forget("compiled/")
    yield
    cloud.calm()


def entered(events: list[dict[str, Any]]) -> list[str]:
    """Names of the tasks in the order in which they were entered."""
    names_ = [e["stateEnteredEventDetails"]["name"] for e in events if e["type"] == "TaskStateEntered"]
    return [name for i, name in enumerate(names_) if i == 0 or names_[i - 1] != name]


def seconds_in(events: list[dict[str, Any]], step: str) -> float:
    """Seconds that an execution was in a step."""
    total, since = 0.0, None
    for event in events:
        if "stateEnteredEventDetails" not in event:
            continue
        name = event["stateEnteredEventDetails"]["name"]
        at = _time(event)
        if since is not None:
            total += at - since
        since = at if name == step else None
    return total


def _time(event: dict[str, Any]) -> float:
    stamp = event["timestamp"]
    return stamp.timestamp() if isinstance(stamp, datetime) else float(stamp)


def compilers(cloud: Cloud) -> list[str]:
    """NodeClaims of the pool that compiles."""
    selector = f"labelSelector=karpenter.sh/nodepool%3D{names.COMPILE_NODEPOOL}"
    return [item["metadata"]["name"] for item in cloud.listed(f"/apis/karpenter.sh/v1/nodeclaims?{selector}")]


def launched(cloud: Cloud) -> int:
    """How many instances that compile were ever launched."""
    found = cloud.running.kubernetes.request("POST", "/_rehearsal/instances", {})["instances"]
    return sum(instance["instance_type"] == COMPILER.name for instance in found)


def state_of(run: Run) -> RunState:
    state = run.deployment.state(run.run_id)
    assert state is not None
    return state


def compiled_in_report(cloud: Cloud, run: Run) -> str:
    (line,) = [
        text
        for text in cloud.stored(s3_keys.run_key(run.run_id, "report.md")).decode().splitlines()
        if "Compiled" in text
    ]
    return line


def test_nothing_is_compiled_while_the_node_is_held(cloud: Cloud) -> None:
    run = cloud.start("ahead", ON_CPU)
    cloud.until_step(run, "CompileOnCpu")
    assert (cloud.running.replicas(), cloud.lease().claims) == (0, ())
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    events = run.deployment.events(run.arn, newest=1000)
    steps = entered(events)
    assert seconds_in(events, "CompileOnCpu") > 0
    assert max(i for i, s in enumerate(steps) if s == "CompileOnCpu") < steps.index("AcquireCapacity")
    assert outcome(events, "Compile") == "CPU nodes have compiled all", "0 seconds of the node compiling"
    print(f"CompileOnCpu {seconds_in(events, 'CompileOnCpu'):.0f} s, Compile {seconds_in(events, 'Compile'):.0f} s")
    assert launched(cloud) >= 1
    assert state_of(run).refused_artifacts == ()
    assert "base, sd on CPU nodes before the node was held" in compiled_in_report(cloud, run)
    cloud.at_rest()
    cloud.until(lambda: not compilers(cloud), what="the end of the nodes that compiled")


def test_an_artifact_spoilt_between_compile_and_serve_is_compiled_on_the_node(cloud: Cloud) -> None:
    run = cloud.start("spoilt", ON_CPU)
    cloud.until_step(run, "AcquireCapacity")
    plan = run.deployment.plan(run.run_id)
    assert plan is not None
    (arm,) = (arm for arm in plan.waves[0].arms if arm.variant == "sd")
    key = s3_keys.compiled_prefix(arm.fingerprint) + "model.pt"
    cloud.running.services.client("s3").put_object(Bucket=cloud.running.bucket, Key=key, Body=b"spoilt")
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    steps = entered(run.deployment.events(run.arn, newest=1000))
    assert steps[steps.index("AcquireCapacity") :][:8] == [
        "AcquireCapacity", "StartCheck", "Compile", "Serve", "StopArms", "Compile", "Serve", "Smoke",
    ]  # fmt: skip
    assert state_of(run).refused_artifacts == (arm.fingerprint,)
    said = compiled_in_report(cloud, run)
    assert "base on CPU nodes" in said and "sd on the node, since what a CPU node had compiled did not load" in said
    shown = cloud.command("status", run.run_id)
    assert "sd on the node: what a CPU node had compiled did not load" in shown
    report = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
    (served,) = (item for item in report["context"]["served"] if item["variant"] == "sd")
    assert arm.fallback in served["artifact"]
    assert [failure["stage"] for failure in report["context"]["failures"]] == ["ArtifactRefused"]
    cloud.at_rest()


def test_a_stop_while_cpu_nodes_compile_leaves_nothing(cloud: Cloud) -> None:
    run = cloud.start("stopped", ON_CPU)
    cloud.until(lambda: cloud.freeze("compile"), what="a compile that goes on")
    cloud.command("stop", run.run_id, "--yes")
    assert cloud.ended(run).status == "ABORTED"
    cloud.at_rest()
    cloud.until(lambda: not compilers(cloud), what="the end of the nodes that compiled")
