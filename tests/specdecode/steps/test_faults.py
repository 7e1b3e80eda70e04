"""Every waiting state x every fault: the right error, a readable cause, and nothing left behind that costs money."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from specdecode import names, s3_keys
from specdecode.finished import find
from specdecode.kubernetes.client import ATTEMPTS, QuotaExceeded, Response
from specdecode.kubernetes.failure_files import LOG_BUDGET_S, collect_logs, collect_status
from specdecode.kubernetes.pods import container_statuses
from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.kubernetes.teardown import run_selector
from specdecode.steps import accuracy, release
from specdecode.steps.diagnose import diagnose, examine
from specdecode.steps.errors import (
    AccuracyFailed,
    BenchmarkFailed,
    CompileFailed,
    DamagedFolder,
    ServeNotReady,
    SmokeFailed,
    StagingFailed,
    StartCheckFailed,
    StepFailed,
)
from specdecode.steps.run import load_run

from tests.finished_folders import mark, stored
from tests.specdecode.steps.aws_fake import client_error
from tests.specdecode.steps.cluster_fake import refused, status
from tests.specdecode.steps.faults import CRASHED, assert_nothing_left, diagnosis, in_phase, up_to, waiting
from tests.specdecode.steps.world import NODE, WAITING, World

never_ready = in_phase("Running", conditions=[])
NO_DEVICES = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: cannot allocate claims"}


def unschedulable(pod: KubeObject) -> None:
    pod.update(spec={}, status={"phase": "Pending", "conditions": [NO_DEVICES]})


def node_lost(pod: KubeObject) -> None:
    pod["spec"]["nodeName"] = "a-node-that-was"


OOM = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
out_of_memory = in_phase("Running", containerStatuses=[{"name": "main", "image": "e", "lastState": OOM}])
POD_FAULTS = {
    "crash-loop": waiting("CrashLoopBackOff", **CRASHED),
    "out-of-memory": out_of_memory,
    "image-pull": waiting("ImagePullBackOff", "manifest unknown"),
    "container-config": waiting("CreateContainerConfigError", "no such key"),
    "too-slow": never_ready,
    "unschedulable": unschedulable,
    "node-lost": node_lost,
}
"""Row of assets/diagnosis.yaml -> what befalls a pod."""
POD_STATES: dict[str, tuple[str, type[StepFailed]]] = {
    "StageModels": ("staging", StagingFailed),
    "Compile": ("compile", CompileFailed),
    "Serve": ("serving", ServeNotReady),
    "Smoke": ("smoke", SmokeFailed),
    "Benchmark": ("benchmark", BenchmarkFailed),
}


JOBS_FAIL = [(step, "job-failed", r"BackoffLimitExceeded.*exit code") for step in POD_STATES if step != "Serve"]


@pytest.mark.parametrize(
    ("step", "row", "words"), [*((step, row, None) for step in POD_STATES for row in POD_FAULTS), *JOBS_FAIL]
)
def test_pod_fault(world, step, row, words):
    component, error_type = POD_STATES[step]
    world.job_fails |= {component: 1} if row == "job-failed" else {}
    up_to(world, step)
    world.trouble |= {component: POD_FAULTS[row]} if row in POD_FAULTS else {}
    with pytest.raises(error_type, match=words) as caught:
        world.finish(step)
    assert world.clean_up(caught.value).Error == error_type.__name__
    assert diagnosis(world)["row"] == row, diagnosis(world)
    assert "runs/run-1/diagnostics/pods.json" in world.s3.objects
    assert_nothing_left(world)


@pytest.mark.parametrize(
    ("phase", "row"),
    [
        ("Active", "right-missing"),
        ("Terminating", "namespace-ending"),
        ("", "namespace-gone"),
        ("nobody may look", "right-missing"),
    ],
)
def test_rights_that_went_with_their_namespace(phase, row):
    world, words = World(), 'pods is forbidden: User "me" cannot list resource "pods" in API group ""'
    up_to(world, "Compile")
    if phase in ("Active", "Terminating"):
        world.cluster.put({"kind": "Namespace", "metadata": {"name": names.NAMESPACE}, "status": {"phase": phase}})
    elif phase:
        own = f"/api/v1/namespaces/{names.NAMESPACE}"
        world.cluster.fault = lambda method, path: status(403, "no") if path == own else None
    assert examine(world.rt, "run-1", error="Forbidden", detail=f"GET /api: 403 {words}", where="x")[0] == row


QUOTA = "is forbidden: exceeded quota: specdecode, requested: {0}=1, used: {0}=500, limited: {0}=500"


def test_a_full_namespace_is_said_at_once(world):
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
    state = world.record()
    assert state.measured == (0,)
    assert [failure.stage for failure in state.failures] == ["Accuracy"]


@pytest.mark.parametrize("row", [row for row in POD_FAULTS if row != "unschedulable"])
def test_pod_fault_of_the_accuracy_test(world, row):
    up_to(world, "Accuracy")
    world.trouble["accuracy"] = POD_FAULTS[row]
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


LOST = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "The container could not be located"}
evicted = in_phase(
    "Failed",
    reason="Evicted",
    message="The node was low on resource: ephemeral-storage.",
    containerStatuses=[{"name": "main", "image": "e", "state": {"terminated": LOST}}],
)
"""The kubelet has lost the container, and answers 400 when asked for its log."""


def test_a_pod_that_was_evicted_costs_a_retry_and_not_the_run(world):
    """Its log cannot be had: that is a line where the log would stand, and the Job's other tries are used."""
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


def test_what_the_api_server_knows_is_kept_before_a_log_is_asked_for(world):
    """A log may take all the time there is. Here the function ends at the first."""
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


def test_a_bucket_that_takes_no_diagnostics_hides_no_cause(world):
    up_to(world, "Benchmark")

    def refuse(operation, key):
        raise client_error("SlowDown", operation, 503)

    world.s3.before = refuse
    caught = {"Error": "BenchmarkFailed", "Cause": "arm sd died under load"}
    found = diagnose(world.given("run-1", error=caught), world.rt)
    assert found.Cause.startswith("An arm stopped serving while it was measured.")
    assert found.Cause.endswith(
        "No diagnostics are kept: ClientError: An error occurred (SlowDown) when calling the "
        "PutObject operation: SlowDown"
    )


def test_a_node_that_does_not_answer_is_not_asked_for_logs(world):
    up_to(world, "Benchmark")
    world.cluster.put({"kind": "Node", "metadata": {"name": NODE, "labels": {"karpenter.sh/nodepool": "trn2"}}})
    world.cluster.react = lambda: None
    asked = len(world.cluster.requests)
    examined = examine(world.rt, "run-1", error="BenchmarkFailed", detail="arm sd died", where="diagnostics")
    assert not [path for _, path in world.cluster.requests[asked:] if path.endswith("/log")]
    assert any(f"its node {NODE} does not answer" in line for line in diagnosis(world)["missing"])
    assert examined[0] == "node-lost"


def test_all_logs_together_have_one_time_budget(world, monkeypatch):
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


def test_the_log_of_a_container_that_starts_again_while_evidence_is_collected_is_kept(world):
    up_to(world, "Serve")
    world.trouble["serving"] = waiting("CrashLoopBackOff", restartCount=0)
    with pytest.raises(ServeNotReady):
        world.finish("Serve")
    found = collect_status(world.rt.kube, selector=run_selector("run-1"))
    again = [name_of(pod) for pod in found.pods if container_statuses(pod)]
    for pod in again:
        world.cluster.objects["Pod", names.NAMESPACE, pod]["status"]["containerStatuses"][0]["restartCount"] = 1
    collect_logs(world.rt.kube, found)
    kept = [path for path in found.files if path.endswith(".previous.log")]
    assert again and kept == [f"logs/{pod}.main.previous.log" for pod in again]
    assert found.missing == []


def test_an_api_server_that_does_not_answer_is_asked_once(world):
    up_to(world, "Benchmark")
    world.cluster.fault = lambda method, path: refused()
    asked = len(world.cluster.requests)
    examine(world.rt, "run-1", error="ClusterUnavailable", detail="NoAnswer", where="diagnostics")
    assert len(world.cluster.requests) - asked == ATTEMPTS
    assert diagnosis(world)["row"] == "cluster-away"


def test_an_arm_that_dies_of_the_accuracy_test_loses_no_record(world):
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
def test_the_cause_is_read_from_the_pod_s_log(world, row, log):
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


def test_an_arm_that_dies_under_load_is_seen_at_the_next_look(world):
    up_to(world, "Benchmark")
    world.trouble["serving"] = waiting("CrashLoopBackOff", **CRASHED)
    world.trouble["benchmark"] = lambda pod: None
    before = world.time
    with pytest.raises(BenchmarkFailed, match="died under load") as caught:
        world.finish("Benchmark")
    assert world.time == before
    world.clean_up(caught.value)
    assert_nothing_left(world)


def test_an_arm_whose_pod_is_gone_is_seen_too(world):
    up_to(world, "Benchmark")
    world.cluster.react = lambda: None
    world.cluster.objects = {key: obj for key, obj in world.cluster.objects.items() if key[0] != "Pod"}
    with pytest.raises(BenchmarkFailed, match="died under load"):
        world.finish("Benchmark")


def damaged(code: int) -> Callable[[KubeObject], None]:
    return waiting("CrashLoopBackOff", lastState={"terminated": {"exitCode": code, "reason": "Error"}})


@pytest.mark.parametrize("kind", ["compiled", "models"])
def test_what_a_server_finds_damaged_is_set_aside_and_the_run_ends_before_it_measures(world, kind):
    up_to(world, "Serve")
    marks = {key for key in world.s3.objects if key.startswith(f"{kind}/")}
    world.trouble["serving"] = damaged(76 if kind == "compiled" else 79)
    with pytest.raises(DamagedFolder, match=rf"set aside, and made anew by the next run: {kind}/") as caught:
        world.finish("Serve")
    left = {key for key in world.s3.objects if key.startswith(("compiled/", "models/"))}
    assert len(marks - left) == 1, "the first arm's, and nothing else"
    world.clean_up(caught.value)
    assert diagnosis(world)["row"] == "damaged"


@pytest.mark.parametrize("step", ["Smoke", "Benchmark"])
@pytest.mark.parametrize(("kind", "code"), [("compiled/", 76), ("models/", 79)])
def test_what_a_server_finds_when_it_is_started_again_is_set_aside_with_the_diagnosis(world, step, kind, code):
    up_to(world, step)
    marks = {key for key in world.s3.objects if key.startswith(kind) and key.endswith("/COMPLETE.json")}
    world.trouble["serving"] = damaged(code)
    for pod in world.cluster.all("Pod"):
        world.cluster.logs[pod["metadata"]["name"]] = f"specdecode: error {code}: {kind} is damaged"
    world.job_fails["smoke"] = 1
    with pytest.raises(StepFailed) as caught:
        world.finish(step)
    assert marks <= world.s3.objects.keys(), "the step may not delete them"
    told = world.clean_up(caught.value)
    assert diagnosis(world)["row"] == "damaged"
    gone = marks - world.s3.objects.keys()
    assert gone and "; set aside, and made anew by the next run: " in told.Cause
    assert all(mark.removesuffix("COMPLETE.json") in told.Cause for mark in gone)


@pytest.mark.parametrize("files", [{"made.anew": b"by another run"}, {}], ids=["whole", "and a file is missing"])
def test_what_another_run_has_made_anew_is_not_set_aside_unless_it_is_damaged(world, files):
    up_to(world, "Serve")
    folder = s3_keys.compiled_prefix(load_run(world.rt.store, "run-1").wave(0).arms[0].fingerprint)
    world.s3.objects = {key: body for key, body in world.s3.objects.items() if not key.startswith(folder)}
    world.s3.objects |= {**stored(folder, files), f"{folder}COMPLETE.json": mark(folder, files or {"gone": b"x"})}
    world.trouble["serving"] = damaged(76)
    with pytest.raises(DamagedFolder, match=f"next run{' compares it' if files else ''}: "):
        world.finish("Serve")
    assert (f"{folder}COMPLETE.json" in world.s3.objects) == bool(files)


@pytest.mark.parametrize(
    ("step", "component", "error"),
    [("StartCheck", "start-check", DamagedFolder), ("Compile", "compile", CompileFailed)],
)
def test_a_model_that_is_found_damaged_before_anything_is_served_is_set_aside(world, step, component, error):
    up_to(world, step)
    world.job_fails[component] = 79
    with pytest.raises(error, match="set aside, and made anew by the next run: models/"):
        world.finish(step)
    assert not any(key.startswith("models/Qwen--Qwen3-32B@") for key in world.s3.objects)


def test_a_file_that_a_start_check_misses_is_damage_and_one_of_a_whole_folder_is_none(world):
    up_to(world, "StartCheck")
    world.job_fails["start-check"] = 68
    whole = dict(world.s3.objects)
    with pytest.raises(StartCheckFailed):
        world.finish("StartCheck")
    assert whole.items() <= world.s3.objects.items()
    world = World()
    up_to(world, "StartCheck")
    world.job_fails["start-check"] = 68
    folder = next(key.removesuffix("COMPLETE.json") for key in world.s3.objects if "--pair-target@" in key)
    world.s3.objects[f"{folder}COMPLETE.json"] = mark(folder, {"gone": b"x"})
    with pytest.raises(DamagedFolder, match=f"next run: {folder}$") as caught:
        world.finish("StartCheck")
    world.clean_up(caught.value)
    assert diagnosis(world)["row"] == "damaged"


@pytest.mark.parametrize("code", [66, 68])
def test_a_file_that_a_start_check_misses_is_damage_if_another_run_has_set_the_folder_aside_since(world, code):
    up_to(world, "StartCheck")
    world.job_fails["start-check"] = code
    del world.s3.objects[
        next(key for key in world.s3.objects if "--pair-target@" in key and key.endswith("COMPLETE.json"))
    ]
    with pytest.raises(DamagedFolder, match="next run: models/"):
        world.finish("StartCheck")


@pytest.mark.parametrize("kind", ["models/", "compiled/"])
def test_what_a_listing_shows_as_damaged_is_made_again(kind):
    first = World()
    up_to(first, "Serve")
    folder = next(key.removesuffix("COMPLETE.json") for key in first.s3.objects if key.startswith(kind))
    world = World()
    world.s3.objects |= stored(folder) | {f"{folder}extra": b"x"}
    up_to(world, "Serve")
    assert f"{folder}extra" not in world.s3.objects
    assert find(world.rt.store, folder).content == world.record().contents[folder]
    (told,) = world.record().failures
    assert told.message == f"{folder} is not as its COMPLETE.json says: extra. It was set aside, to be made again."
