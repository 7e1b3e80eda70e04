"""Every waiting state x every fault: the right error, a readable cause, and nothing left behind that costs money."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from specdecode import names
from specdecode.experiment import Capacity
from specdecode.kubernetes.client import ATTEMPTS
from specdecode.kubernetes.errors import ClusterUnavailable, Conflict, QuotaExceeded
from specdecode.kubernetes.evidence import LOG_BUDGET_S, collect_logs, collect_status
from specdecode.kubernetes.resources import KubeObject
from specdecode.kubernetes.teardown import run_selector
from specdecode.kubernetes.transport import Response
from specdecode.runs.state import load_state
from specdecode.steps import accuracy, release, watchdog
from specdecode.steps.diagnose import examine
from specdecode.steps.errors import (
    AccuracyFailed,
    BenchmarkFailed,
    CapacityUnavailable,
    CompileFailed,
    NodeLost,
    ServeNotReady,
    SmokeFailed,
    StagingFailed,
    StepFailed,
)

from tests.specdecode.steps.aws_fake import client_error
from tests.specdecode.steps.cluster_fake import refused, status
from tests.specdecode.steps.world import NODE, NODE_CLASS, WAITING, World, karpenter_objects, made_ready

ORDER = list(WAITING)


@dataclass(frozen=True)
class PodFault:
    """What befalls a pod, and what people are told."""

    name: str
    happens: Callable[[KubeObject], None]
    row: str
    """Row of assets/diagnosis.yaml."""


def waiting(reason: str, message: str = "", **status_: object) -> Callable[[KubeObject], None]:
    def befall(pod: KubeObject) -> None:
        pod["status"] = {
            "phase": "Pending",
            "containerStatuses": [
                {"name": "main", "image": "engine:1", "state": {"waiting": {"reason": reason, "message": message}}}
                | status_
            ],
        }

    return befall


def never_ready(pod: KubeObject) -> None:
    pod["status"] = {"phase": "Running", "conditions": []}


def unschedulable(pod: KubeObject) -> None:
    pod["spec"] = {}
    pod["status"] = {
        "phase": "Pending",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: cannot allocate claims"}
        ],
    }


def out_of_memory(pod: KubeObject) -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    pod["status"] = {"phase": "Running", "containerStatuses": [{"name": "main", "image": "e", "lastState": ended}]}


def node_lost(pod: KubeObject) -> None:
    pod["spec"]["nodeName"] = "a-node-that-was"


CRASHED = {"restartCount": 5, "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}
POD_FAULTS = [
    PodFault("crash-loop", waiting("CrashLoopBackOff", **CRASHED), "crash-loop"),
    PodFault("out of memory", out_of_memory, "out-of-memory"),
    PodFault("image pull", waiting("ImagePullBackOff", "manifest unknown"), "image-pull"),
    PodFault("bad container configuration", waiting("CreateContainerConfigError", "no such key"), "container-config"),
    PodFault("never ready", never_ready, "too-slow"),
    PodFault("unschedulable", unschedulable, "unschedulable"),
    PodFault("node vanishes", node_lost, "node-lost"),
]
POD_STATES: dict[str, tuple[str, type[StepFailed]]] = {
    "StageModels": ("staging", StagingFailed),
    "Compile": ("compile", CompileFailed),
    "Serve": ("serving", ServeNotReady),
    "Smoke": ("smoke", SmokeFailed),
    "Benchmark": ("benchmark", BenchmarkFailed),
}


def up_to(world: World, step: str) -> None:
    """Bring a run to the door of `step`."""
    world.plan()
    for earlier in ORDER[: ORDER.index(step)]:
        world.finish(earlier)


def assert_nothing_left(world: World) -> None:
    assert world.workloads() == []
    assert world.replicas == 0
    assert world.rt.lease.read().claims == ()


def metrics(world: World) -> dict[str, float]:
    """The newest value of each metric."""
    return {item["MetricName"]: item["Value"] for item in world.cloudwatch.data if "Dimensions" not in item}


def diagnosis(world: World) -> dict[str, str]:
    return json.loads(world.s3.objects["runs/run-1/diagnostics/diagnosis.json"])


@pytest.mark.parametrize("fault", POD_FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("step", POD_STATES)
def test_pod_fault(step, fault):
    component, error_type = POD_STATES[step]
    world = World()
    up_to(world, step)
    world.trouble[component] = fault.happens
    with pytest.raises(error_type) as caught:
        world.finish(step)
    found = world.clean_up(caught.value)
    assert found.Error == error_type.__name__
    assert diagnosis(world)["row"] == fault.row, diagnosis(world)
    assert "runs/run-1/diagnostics/pods.json" in world.s3.objects
    assert_nothing_left(world)


@pytest.mark.parametrize("code", [1, 70])
@pytest.mark.parametrize("step", [step for step in POD_STATES if step != "Serve"])
def test_job_fails(step, code):
    component, error_type = POD_STATES[step]
    world = World(job_fails={component: code})
    up_to(world, step)
    with pytest.raises(error_type, match=r"BackoffLimitExceeded.*exit code") as caught:
        world.finish(step)
    world.clean_up(caught.value)
    assert diagnosis(world)["row"] == ("compiler-crash" if code == 70 else "job-failed")
    assert_nothing_left(world)


QUOTA = "is forbidden: exceeded quota: specdecode, requested: {0}=1, used: {0}=500, limited: {0}=500"


def test_a_full_namespace_is_said_at_once():
    world = World()
    up_to(world, "Smoke")
    message = 'jobs.batch "r1-w0-smoke" ' + QUOTA.format("count/jobs.batch")
    world.cluster.fault = lambda method, path: status(403, message) if method == "PATCH" and "jobs" in path else None
    with pytest.raises(QuotaExceeded) as caught:
        world.finish("Smoke")
    world.cluster.fault = lambda method, path: None
    assert "did not admit count/jobs.batch=1, since it allows no more than count/jobs.batch=500" in (
        world.clean_up(caught.value).Cause
    )
    assert_nothing_left(world)


@pytest.mark.parametrize(
    ("why", "row"),
    [
        (QUOTA.format("pods"), "namespace-quota"),
        ('is forbidden: violates PodSecurity "restricted:latest": hostPath volumes', "pod-refused"),
    ],
)
@pytest.mark.parametrize("step", POD_STATES)
def test_pods_that_may_not_be_created_are_not_waited_for(step, why, row):
    component, error_type = POD_STATES[step]
    world = World()
    up_to(world, step)
    create_pod = world._pod

    def refuse(owner: KubeObject, *, ready: bool) -> KubeObject:
        if owner["spec"]["template"]["metadata"]["labels"][names.COMPONENT_LABEL] != component:
            return create_pod(owner, ready=ready)
        kind, name = owner["kind"], owner["metadata"]["name"]
        about = {"kind": kind, "name": name} if kind == "Job" else {"kind": "ReplicaSet", "name": f"{name}-6d4cf"}
        metadata = {"name": f"{name}.1", "namespace": names.NAMESPACE}
        message = f'Error creating: pods "{name}-x" {why}'
        event = {"kind": "Event", "metadata": metadata, "type": "Warning", "reason": "FailedCreate", "message": message}
        world.cluster.put({**event, "involvedObject": about})
        owner.setdefault("status", {})
        return {}

    world._pod = refuse
    before = world.time
    with pytest.raises(error_type, match="is forbidden") as caught:
        world.finish(step)
    assert world.time - before < timedelta(minutes=2)
    world.clean_up(caught.value)
    assert diagnosis(world)["row"] == row
    assert_nothing_left(world)


def assert_the_run_goes_on(world: World) -> None:
    """After the accuracy test failed: as the state machine does, without diagnosis, to a report that says so."""
    world.finish("StopArms")
    release.release(world.given("run-1"), world.rt)
    assert_nothing_left(world)
    state = load_state(world.rt.store, "run-1")
    assert state is not None
    assert state.measured == (0,)
    assert [failure.stage for failure in state.failures] == ["Accuracy"]


@pytest.mark.parametrize("fault", POD_FAULTS, ids=lambda fault: fault.name)
def test_pod_fault_of_the_accuracy_test(fault):
    world = World()
    up_to(world, "Accuracy")
    world.trouble["accuracy"] = fault.happens
    with pytest.raises(AccuracyFailed):
        world.finish("Accuracy")
    assert_the_run_goes_on(world)


def test_the_accuracy_test_s_job_fails_and_its_logs_are_kept():
    world = World(job_fails={"accuracy": 69})
    up_to(world, "Accuracy")
    assert not accuracy.accuracy(world.given("run-1"), world.rt).done
    for pod in world.cluster.all("Pod"):
        world.cluster.logs[pod["metadata"]["name"]] = "no matching distribution found for lm-eval"
    with pytest.raises(AccuracyFailed, match="BackoffLimitExceeded"):
        accuracy.accuracy(world.given("run-1"), world.rt)
    kept = [value for key, value in world.s3.objects.items() if "/diagnostics/logs/" in key and "accuracy" in key]
    assert kept == [b"no matching distribution found for lm-eval"]
    assert_the_run_goes_on(world)


def evicted(pod: KubeObject) -> None:
    """The kubelet has lost the container, and answers 400 when asked for its log."""
    lost = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "The container could not be located"}
    pod["status"] = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: ephemeral-storage.",
        "containerStatuses": [{"name": "main", "image": "e", "state": {"terminated": lost}}],
    }


def test_a_pod_that_was_evicted_costs_a_retry_and_not_the_run():
    """Its log cannot be had: that is a line where the log would stand, and the Job's other tries are used."""
    world = World()
    up_to(world, "Compile")
    world.trouble["compile"] = evicted
    assert not WAITING["Compile"](world.given("run-1"), world.rt).done
    gone = status(400, 'container "main" in pod "x" is terminated')
    world.cluster.fault = lambda method, path: gone if path.endswith("/log") else None
    looked = WAITING["Compile"](world.given("run-1"), world.rt)
    assert not looked.done
    (text,) = [value for key, value in world.s3.objects.items() if "/diagnostics/logs/" in key]
    assert text.startswith(b"(no log: GET ") and b"is terminated" in text
    asked = len(world.cluster.requests)
    WAITING["Compile"](world.given("run-1"), world.rt)
    assert not [path for _, path in world.cluster.requests[asked:] if path.endswith("/log")], "asked for again"
    del world.trouble["compile"]
    for pod in world.cluster.all("Pod"):
        pod["status"] = {"phase": "Running"}
    assert world.finish("Compile")[-1].done


def test_what_the_api_server_knows_is_kept_before_a_log_is_asked_for():
    """A log may take all the time there is. Here the function ends at the first."""
    world = World()
    up_to(world, "Benchmark")
    world.trouble["serving"] = out_of_memory

    class Killed(BaseException):
        """The function's time is over."""

    def log(method: str, path: str) -> None:
        if path.endswith("/log"):
            raise Killed

    world.cluster.fault = log
    with pytest.raises(Killed):
        world.clean_up(BenchmarkFailed("arm sd died under load"))
    kept = {key.removeprefix("runs/run-1/diagnostics/") for key in world.s3.objects if "/diagnostics/" in key}
    assert {"pods.json", "events.txt", "problems.txt", "diagnosis.json", "README.txt"} <= kept
    assert diagnosis(world)["row"] == "out-of-memory"


def test_a_node_that_does_not_answer_is_not_asked_for_logs():
    world = World()
    up_to(world, "Benchmark")
    world.cluster.put({"kind": "Node", "metadata": {"name": NODE, "labels": {"karpenter.sh/nodepool": "trn2"}}})
    world.cluster.react = lambda: None
    asked = len(world.cluster.requests)
    examined = examine(world.rt, "run-1", error="BenchmarkFailed", detail="arm sd died", where="diagnostics")
    assert not [path for _, path in world.cluster.requests[asked:] if path.endswith("/log")]
    assert any(f"its node {NODE} does not answer" in line for line in diagnosis(world)["missing"])
    assert examined[0] == "node-lost"


def test_all_logs_together_have_one_time_budget(monkeypatch):
    world = World()
    up_to(world, "Benchmark")
    seconds = [0.0]

    def slow(method: str, path: str) -> Response | None:
        if not path.endswith("/log"):
            return None
        seconds[0] += 20
        return status(500, "dial tcp 10.0.1.2:10250: i/o timeout")

    world.cluster.fault = slow
    found = collect_status(world.rt.kube, selector=run_selector("run-1"))
    many = [{**found.pods[0], "metadata": {**found.pods[0]["metadata"], "name": f"p{n}"}} for n in range(20)]
    for pod in many:
        pod["status"] = {"containerStatuses": [{"name": "main", "restartCount": 1}]}
    found.pods = many
    collect_logs(world.rt.kube, found, clock=lambda: seconds[0])
    assert seconds[0] <= LOG_BUDGET_S + 20, "within the shortest function, which may take 120 s"
    assert len(found.missing) == 40, "each log that is not there has its reason"
    assert "i/o timeout" in found.missing[0]
    assert f"the {LOG_BUDGET_S:.0f} s for logs are over" in found.missing[-1]


def test_an_api_server_that_does_not_answer_is_asked_once():
    world = World()
    up_to(world, "Benchmark")
    world.cluster.fault = lambda method, path: refused()
    asked = len(world.cluster.requests)
    examine(world.rt, "run-1", error="ClusterUnavailable", detail="NoAnswer", where="diagnostics")
    assert len(world.cluster.requests) - asked == ATTEMPTS
    assert diagnosis(world)["row"] == "cluster-away"


def test_an_arm_that_dies_of_the_accuracy_test_loses_no_record():
    world = World()
    up_to(world, "Accuracy")
    world.trouble["serving"] = waiting("CrashLoopBackOff", **CRASHED)
    before = world.time
    with pytest.raises(AccuracyFailed, match="died under load"):
        world.finish("Accuracy")
    assert world.time == before
    assert_the_run_goes_on(world)


@pytest.mark.parametrize(
    ("row", "log"),
    [
        ("driver-too-new", "ERROR nrt_init failed: driver version 2.29 is not supported"),
        ("hugging-face-denied", "401 Client Error: Unauthorized for url: https://huggingface.co/meta-llama/x"),
        ("s3-denied", "upload failed: An error occurred (AccessDenied) when calling the PutObject operation"),
        ("disk-full", "OSError: [Errno 28] No space left on device"),
        ("artifact-incomplete", "specdecode: compiled/abc has no COMPLETE.json: it was never finished; not serving"),
    ],
)
def test_the_cause_is_read_from_the_pod_s_log(row, log):
    world = World()
    up_to(world, "Serve")
    world.trouble["serving"] = waiting("CrashLoopBackOff", **CRASHED)
    with pytest.raises(ServeNotReady) as caught:
        world.finish("Serve")
    for pod in world.cluster.all("Pod"):
        world.cluster.logs[pod["metadata"]["name"]] = log
    world.clean_up(caught.value)
    assert diagnosis(world)["row"] == row
    logs = {key: value for key, value in world.s3.objects.items() if "/diagnostics/logs/" in key}
    assert any(key.endswith(".previous.log") for key in logs)
    assert all(value.decode() == log for value in logs.values())
    assert_nothing_left(world)


def test_the_node_never_comes():
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    with pytest.raises(CapacityUnavailable, match="Karpenter has not asked for a node yet") as caught:
        world.finish("AcquireCapacity")
    assert "no usable node" in world.clean_up(caught.value).Cause
    assert_nothing_left(world)


def not_ready(world: World, kind: str, part: str, status: str, *, minutes_ago: float) -> None:
    """A condition that is not True, and Ready with it, for so many minutes."""
    (obj,) = world.cluster.all(kind)
    since = (world.time - timedelta(minutes=minutes_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {"status": status, "lastTransitionTime": since, "reason": "Why", "message": "what is wrong"}
    obj["status"] = {
        "conditions": [
            {"type": part, **told},
            {"type": "SubnetsReady", "status": "True"},
            {"type": "NodeRegistrationHealthy", "status": "Unknown"},
            {"type": "Ready", **told, "reason": "UnhealthyDependents", "message": f"{part}={status}"},
        ]
    }


@pytest.mark.parametrize(
    ("kind", "part"), [("EC2NodeClass", "AMIsReady"), ("NodePool", "ValidationSucceeded")], ids=["class", "pool"]
)
@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_no_node_is_waited_for_that_karpenter_does_not_make(kind, part, status):
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    not_ready(world, kind, part, status, minutes_ago=3)
    began = world.time
    said = rf"no node can come: {kind} trn2\S* is not Ready: {part}={status} \(Why: what is wrong\)$"
    with pytest.raises(CapacityUnavailable, match=said) as caught:
        world.finish("AcquireCapacity")
    assert world.time == began, "at the first look"
    assert "Karpenter makes no node" in world.clean_up(caught.value).Cause
    assert diagnosis(world)["row"] == "pool-not-ready"
    assert_nothing_left(world)


def test_a_condition_that_is_just_being_computed_is_waited_for():
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    not_ready(world, "EC2NodeClass", "AMIsReady", "Unknown", minutes_ago=0)
    first = WAITING["AcquireCapacity"](world.given("run-1"), world.rt)
    assert (first.done, "AMIsReady=Unknown" in first.message) == (False, True)
    for obj in karpenter_objects():
        world.cluster.put(made_ready(obj))
    world.node_comes = True
    assert world.finish("AcquireCapacity")[-1].done


def test_a_node_that_is_asked_for_already_is_waited_for_whatever_its_pool_says():
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    not_ready(world, "EC2NodeClass", "AMIsReady", "False", minutes_ago=60)
    labels = {"karpenter.sh/nodepool": names.NODEPOOL}
    world.cluster.put({"kind": "NodeClaim", "metadata": {"name": "trn2-x", "labels": labels}})
    answer = WAITING["AcquireCapacity"](world.given("run-1"), world.rt)
    assert "NodeClaim trn2-x is not Launched" in answer.message


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("class gone", "the EC2NodeClass trn2-sdk-2-26 of the NodePool trn2 does not exist"),
        ("never computed", "EC2NodeClass trn2-sdk-2-26 is not Ready: Karpenter has written no condition"),
    ],
)
def test_conditions_that_were_never_written_count_from_when_the_node_is_held(broken, said):
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    began = world.time
    if broken == "class gone":
        world.cluster.remove("EC2NodeClass", NODE_CLASS)
    else:
        (found,) = world.cluster.all("EC2NodeClass")
        found.pop("status")
    with pytest.raises(CapacityUnavailable, match=said):
        world.finish("AcquireCapacity")
    assert timedelta(minutes=2) < world.time - began < timedelta(minutes=5)


def test_no_capacity_gives_karpenter_s_reason():
    world = World(node_comes=False)
    up_to(world, "AcquireCapacity")
    world.cluster.put(
        {
            "kind": "Event",
            "metadata": {"name": "e", "namespace": "default"},
            "type": "Warning",
            "reason": "InsufficientCapacityError",
            "message": "NodeClaim trn2-x event: no instance type has enough capacity",
            "involvedObject": {"kind": "NodeClaim", "name": "trn2-x"},
            "lastTimestamp": "2026-08-01T12:05:00Z",
        }
    )
    with pytest.raises(CapacityUnavailable, match="InsufficientCapacityError") as caught:
        world.finish("AcquireCapacity")
    assert "no trn2.48xlarge to give" in world.clean_up(caught.value).Cause
    assert diagnosis(world)["row"] == "no-capacity"
    assert_nothing_left(world)


def test_a_node_without_published_devices_is_not_used():
    world = World(slices_published=False)
    up_to(world, "AcquireCapacity")
    with pytest.raises(CapacityUnavailable, match="has published no devices"):
        world.finish("AcquireCapacity")


@pytest.mark.parametrize(("begins_h", "ends_h", "words"), [(1, 9, "starts at"), (-9, 0.6, "is drained")])
def test_outside_its_capacity_block_a_run_is_refused_before_it_stages_anything(begins_h, ends_h, words):
    world = World()
    block = Capacity(block_start=world.time + timedelta(hours=begins_h), block_end=world.time + timedelta(hours=ends_h))
    world.rt.environ["CAPACITY"] = block.model_dump_json()
    with pytest.raises(CapacityUnavailable, match=words):
        world.plan()


def test_a_block_that_ended_while_the_run_waited_is_not_scaled_up_for():
    world = World()
    up_to(world, "AcquireCapacity")
    world.rt.environ["CAPACITY"] = Capacity(block_end=world.time).model_dump_json()
    with pytest.raises(CapacityUnavailable, match="is drained") as caught:
        world.finish("AcquireCapacity")
    assert world.replicas == 0
    world.clean_up(caught.value)
    assert_nothing_left(world)


def test_an_arm_that_dies_under_load_is_seen_at_the_next_look():
    world = World()
    up_to(world, "Benchmark")
    world.trouble["serving"] = waiting("CrashLoopBackOff", **CRASHED)
    world.trouble["benchmark"] = lambda pod: None
    before = world.time
    with pytest.raises(BenchmarkFailed, match="died under load") as caught:
        world.finish("Benchmark")
    assert world.time == before
    world.clean_up(caught.value)
    assert_nothing_left(world)


@pytest.mark.parametrize("step", ["Compile", "Serve", "Smoke", "Benchmark", "Accuracy"])
def test_the_node_vanishes(step):
    world = World()
    up_to(world, step)
    world.node_comes = False
    world.cluster.remove("Node", NODE)
    before = world.time
    with pytest.raises(NodeLost, match=NODE) as caught:
        world.finish(step)
    assert world.time == before
    world.clean_up(caught.value)
    assert diagnosis(world)["row"] == "node-lost"
    assert_nothing_left(world)


def test_an_arm_whose_pod_is_gone_is_seen_too():
    world = World()
    up_to(world, "Benchmark")
    world.cluster.react = lambda: None
    world.cluster.objects = {key: obj for key, obj in world.cluster.objects.items() if key[0] != "Pod"}
    with pytest.raises(BenchmarkFailed, match="died under load"):
        world.finish("Benchmark")


@pytest.mark.parametrize(
    "answer", [status(429), status(500), status(503), refused()], ids=["429", "500", "503", "refused"]
)
@pytest.mark.parametrize("step", WAITING)
def test_the_api_server_stumbles(step, answer):
    world = World()
    up_to(world, step)
    world.cluster.fail_times(3, answer)
    assert world.finish(step)[-1].done


@pytest.mark.parametrize("answer", [status(500), refused()], ids=["500", "refused"])
@pytest.mark.parametrize("step", WAITING)
def test_the_api_server_is_away(step, answer):
    """The step is retried by the state machine (no final error); after that, the evidence says why there is none."""
    world = World()
    up_to(world, step)
    world.cluster.fault = lambda method, path: answer
    with pytest.raises(ClusterUnavailable) as caught:
        world.finish(step)
    assert not isinstance(caught.value, StepFailed)
    with pytest.raises(ClusterUnavailable):
        world.clean_up(caught.value)
    assert diagnosis(world)["row"] == "cluster-away"
    assert diagnosis(world)["missing"]
    world.cluster.fault = lambda method, path: None
    world.states.executions = {key: "FAILED" for key in world.states.executions}
    for _ in range(2):
        watchdog.watch(world.given("watchdog"), world.rt)
    assert_nothing_left(world)


@pytest.mark.parametrize("step", ["StageModels", "Compile", "Serve", "Smoke", "Benchmark", "Accuracy"])
def test_a_conflict_is_retried_by_the_state_machine(step):
    world = World()
    up_to(world, step)
    world.cluster.fault = lambda method, path: status(409) if method == "PATCH" else None
    with pytest.raises(Conflict) as caught:
        world.finish(step)
    assert not isinstance(caught.value, StepFailed)
    world.cluster.fault = lambda method, path: None
    assert world.finish(step)[-1].done


@pytest.mark.parametrize("step", [step for step in WAITING if step != "StopArms"])
def test_s3_denies(step):
    world = World()
    up_to(world, step)

    def deny(operation: str, key: str) -> None:
        if "diagnostics" not in key and operation != "PutObject":
            raise client_error("AccessDenied", "GetObject", 403)

    world.s3.before = deny
    with pytest.raises(Exception, match="AccessDenied") as caught:
        world.finish(step)
    world.s3.before = lambda operation, key: None
    assert "S3 refused" in world.clean_up(caught.value).Cause
    assert_nothing_left(world)


def test_cloudwatch_throttles_and_the_watchdog_still_did_its_work():
    world = World()
    up_to(world, "Serve")
    world.states.executions = {key: "ABORTED" for key in world.states.executions}
    world.cloudwatch.throttled = 1
    assert "Throttling" in str(watchdog.watch(world.given("watchdog"), world.rt).problems)
    watchdog.watch(world.given("watchdog"), world.rt)
    assert_nothing_left(world)


@pytest.mark.parametrize("step", WAITING)
def test_the_execution_ends_anywhere_and_the_watchdog_alone_cleans_up(step):
    world = World()
    up_to(world, step)
    world.states.executions = {key: "TIMED_OUT" for key in world.states.executions}
    watchdog.watch(world.given("watchdog"), world.rt)
    watchdog.watch(world.given("watchdog"), world.rt)
    assert_nothing_left(world)


def test_the_watchdog_gives_the_node_up_though_an_object_cannot_be_deleted():
    world = World()
    up_to(world, "Benchmark")
    world.states.executions = {key: "FAILED" for key in world.states.executions}
    world.cluster.fault = lambda method, path: status(403) if method == "DELETE" else None
    assert "Forbidden" in str(watchdog.watch(world.given("watchdog"), world.rt).problems)
    assert (world.replicas, world.rt.lease.read().claims) == (0, ())
    assert metrics(world)["WatchdogProblems"] == 1, "a person is told"
    world.cluster.fault = lambda method, path: None
    assert watchdog.watch(world.given("watchdog"), world.rt).cleaned == ("run-1",)
    watchdog.watch(world.given("watchdog"), world.rt)
    assert_nothing_left(world)


def test_the_watchdog_leaves_running_and_waiting_runs_alone():
    world = World()
    up_to(world, "Benchmark")
    world.plan("run-2")
    before = world.workloads()
    found = watchdog.watch(world.given("watchdog"), world.rt)
    assert (found.ended, found.cleaned, found.replicas) == ((), (), 1)
    assert world.workloads() == before


def test_the_watchdog_reports_a_node_that_nobody_holds():
    world = World()
    world.cluster.put(
        {"kind": "NodeClaim", "metadata": {"name": "n", "labels": {"karpenter.sh/nodepool": names.NODEPOOL}}}
    )
    found = watchdog.watch(world.given("watchdog"), world.rt)
    assert found.too_many == {names.NODEPOOL: 1, names.CPU_NODEPOOL: 0}
    assert metrics(world) == {
        "WatchdogHeartbeat": 1,
        "Nodes": 1,
        "LeaseAge": 0,
        "NodesWithoutLease": 1,
        "RunsHolding": 0,
        "RunsWaiting": 0,
        "RunsReleasedByWatchdog": 0,
        "WatchdogProblems": 0,
    }


def test_a_run_that_ended_badly_is_counted_and_its_units_are_not():
    world = World()
    counted = {}
    for ended in ("", "sweep-1a2b-n2", "sweep-1a2b"):
        world.cloudwatch.data.clear()
        given = world.given("watchdog", ended=ended)
        watchdog.watch(given, world.rt)
        counted[ended] = metrics(world).get("RunsFailed")
    assert counted == {"": None, "sweep-1a2b-n2": None, "sweep-1a2b": 1}


def test_the_age_of_the_lease_and_the_nodes_are_published():
    world = World()
    world.run_through(until="AcquireCapacity")
    world.cluster.put({"kind": "NodeClaim", "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "trn2"}}})
    held = world.rt.lease.read().holders[0].held_since
    world.time = held + timedelta(hours=3)
    watchdog.watch(world.given("watchdog"), world.rt)
    found = metrics(world)
    assert found["LeaseAge"] == 3 * 3600
    assert (found["Nodes"], found["NodesWithoutLease"]) == (1, 0)


def test_workloads_that_never_leave_do_not_keep_the_node():
    world = World()
    up_to(world, "StopArms")
    world.cluster.react = lambda: None
    stuck = next(obj for obj in world.cluster.all("Pod"))
    stuck["metadata"]["deletionTimestamp"] = world.time.strftime("%Y-%m-%dT%H:%M:%SZ")
    world.clean_up(ServeNotReady("x"))
    assert world.replicas == 0
    assert world.rt.lease.read().claims == ()
    assert f"Pod/{stuck['metadata']['name']}" in world.workloads()
