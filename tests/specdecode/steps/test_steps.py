"""The steps one after the other, in a world where nothing goes wrong; and what a second run and a retry find."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from specdecode import names, s3_keys
from specdecode.benchmark.results import Results, measured_indices
from specdecode.experiment import Capacity
from specdecode.records import ErrorKind, RequestRecord
from specdecode.runs.state import load_state
from specdecode.steps import acquire, diagnose, plan, release
from specdecode.steps import compile as compiling
from specdecode.steps.errors import InvalidExperiment, LeaseLost, NobodyTold

from tests.specdecode.benchmark.making import record
from tests.specdecode.steps.world import DEFAULT, WAITING, World, arn

JOBS = ("Job", "Deployment")


def written(world: World, kind: str) -> list[str]:
    plural = {"Job": "/jobs/", "Deployment": "/deployments/"}[kind]
    return [path.rpartition("/")[2] for method, path in world.cluster.requests if method == "PATCH" and plural in path]


def lines_of(records: list[RequestRecord]) -> bytes:
    return b"".join(item.model_dump_json().encode() + b"\n" for item in records)


def taken_over(world: World, folder: Path) -> list[RequestRecord]:
    """The records that run-2 got from run-1, read as its benchmark's pod reads them."""
    results = Results(folder, run_id="run-2")
    results.write("raw/base/case.jsonl", world.s3.objects["runs/run-2/raw/base/case.jsonl"])
    return results.load("base", "case")


def test_a_run_ends_with_nothing_left_and_the_node_released():
    world = World()
    world.run_through()
    assert world.replicas == 1
    release.release(world.given("run-1"), world.rt)
    assert world.workloads() == []
    assert world.replicas == 0
    assert world.rt.lease.read().holders == ()
    state = load_state(world.rt.store, "run-1")
    assert state is not None
    assert state.measured == (0,)
    assert state.held_since is not None
    assert state.released_at is not None


def test_each_arm_s_devices_are_recorded_in_the_plan_s_order():
    world = World()
    world.run_through()
    state = load_state(world.rt.store, "run-1")
    assert state is not None
    assert [(group.variant, group.group, len(group.devices)) for group in state.device_groups] == [
        ("base", "group-0", 8),
        ("sd", "group-1", 8),
    ]


def test_a_second_run_stages_and_compiles_nothing():
    world = World()
    world.run_through("run-1")
    release.release(world.given("run-1"), world.rt)
    first = len(written(world, "Job"))
    world.run_through("run-2")
    again = written(world, "Job")[first:]
    assert first == 7  # two models, two artifacts, smoke test, benchmark, accuracy test
    assert len(again) == 3
    assert not any("stage" in name or "compile" in name for name in again)


@pytest.mark.parametrize("step", WAITING)
def test_a_retried_step_finds_what_the_last_try_made(step):
    world = World()
    world.run_through(until=step)
    before = written(world, "Job") + written(world, "Deployment")
    world.finish(step)
    assert written(world, "Job") + written(world, "Deployment") == before


def test_models_are_staged_before_capacity_is_taken():
    world = World()
    world.run_through(until="StageModels")
    assert world.replicas == 0
    assert world.rt.lease.read().claims == ()


def test_compiles_run_one_at_a_time():
    world = World()
    world.plan()
    world.finish("StageModels")
    world.finish("AcquireCapacity")
    answers = world.finish("Compile")
    jobs = [name for name in written(world, "Job") if "compile" in name]
    assert len(jobs) == 2
    assert len(answers) == 3


def test_an_engine_that_compiles_nothing_passes_the_step_at_once():
    world = World()
    world.run_through(request={"experiment": "rehearsal-vllm"})
    assert not [name for name in written(world, "Job") if "compile" in name]


def test_the_log_of_a_compile_that_crashed_once_is_kept_though_the_next_pod_succeeds():
    world = World()
    world.run_through(until="AcquireCapacity")

    def crash(pod):
        pod["status"] = {"phase": "Failed", "containerStatuses": [{"name": "main", "image": "e"}]}
        world.cluster.logs[pod["metadata"]["name"]] = "neuronx-cc terminated"

    world.trouble["compile"] = crash
    for _ in range(3):
        compiling.compile_arms(world.given("run-1"), world.rt)
    del world.trouble["compile"]
    world.finish("Compile")
    world.finish("StopArms")
    kept = [value for key, value in world.s3.objects.items() if "/diagnostics/logs/" in key and "compile" in key]
    assert kept == [b"neuronx-cc terminated"]


def test_a_service_is_there_before_its_pods():
    """Pods know a Service by variables that are set when they start."""
    world = World()
    world.run_through(until="Serve")
    order = [path for method, path in world.cluster.requests if method == "PATCH" and "-w0-" in path]
    assert [path.split("/")[-2] for path in order] == ["services", "deployments"] * 2


def test_all_arms_are_ready_before_the_smoke_test():
    world = World()
    world.run_through(until="Smoke")
    order = [path for method, path in world.cluster.requests if method == "PATCH"]
    smoke = next(i for i, path in enumerate(order) if "smoke" in path)
    assert sum("/deployments/" in path for path in order[:smoke]) == 2


def test_a_resumed_run_takes_over_measured_waves_and_their_records(tmp_path):
    world = World()
    world.run_through("run-1")
    first = [record(run_id="run-1", index=0), record(run_id="run-1", index=1, error=ErrorKind.TIMEOUT)]
    world.s3.objects["runs/run-1/raw/base/case.jsonl"] = lines_of(first)
    release.release(world.given("run-1"), world.rt)
    world.plan("run-2", {"resume": "run-1"})
    assert measured_indices(taken_over(world, tmp_path), round_=0, levels=["c1"]) == {"c1": {0, 1}}
    for step in WAITING:
        assert len(world.finish(step, "run-2")) == 1
    assert world.replicas == 0


def test_a_resumed_run_sends_again_what_failed_in_a_wave_that_broke_off(tmp_path):
    world = World()
    world.run_through("run-1", until="Smoke")
    first = [record(run_id="run-1", index=0), record(run_id="run-1", index=1, error=ErrorKind.RESET)]
    world.s3.objects["runs/run-1/raw/base/case.jsonl"] = lines_of(first) + b'{"run_id": "run-1", "ind'
    world.s3.objects["runs/run-1/raw/@clients/uid/begun.json"] = b'{"session": 0}'
    world.s3.objects["runs/run-1/servers.json"] = b'{"run_id": "run-1", "counters": [1]}'
    world.plan("run-2", {"resume": "run-1"})
    assert not any("/@clients/" in key for key in world.s3.objects if key.startswith("runs/run-2/"))
    (kept,) = taken_over(world, tmp_path)
    assert kept == first[0].model_copy(update={"run_id": "run-2"})
    assert json.loads(world.s3.objects["runs/run-2/servers.json"]) == {"run_id": "run-2", "counters": [1]}


def test_a_resumed_run_measures_a_wave_that_had_not_been_finished():
    world = World()
    world.run_through("run-1", until="Smoke")
    release.release(world.given("run-1"), world.rt)
    world.finish("StopArms", "run-1")
    world.run_through("run-2", request={"resume": "run-1"})
    state = load_state(world.rt.store, "run-2")
    assert state is not None
    assert state.measured == (0,)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"experiment": "nonsense"}, "no preset is called 'nonsense'"),
        ({"experimnt": "rehearsal"}, "experimnt"),
        ({"experiment": "rehearsal", "set": {"workload.requests": 0, "workload.concurrency": -1}}, "requests"),
        ({"resume": "never-was"}, "no run never-was"),
        ({"resume": "x", "experiment": "rehearsal"}, "neither experiment nor set"),
        ([1], "The input is not one"),
    ],
)
def test_a_bad_input_is_refused_with_the_reason(request_, words):
    world = World()
    with pytest.raises(InvalidExperiment, match=words):
        world.plan(request=request_)
    assert world.workloads() == []


def test_accuracy_is_measured_only_where_it_is_asked_for():
    world = World()
    world.run_through(request={"experiment": "rehearsal"})
    assert "Accuracy" not in world.asked
    assert not any("accuracy" in name for name in written(world, "Job"))


def test_each_arm_s_accuracy_is_measured_once_however_often_it_is_served():
    world = World()
    world.run_through(request={"experiment": "qwen3-32b-latency", "set": {"accuracy": True}})
    scores = [key for key in world.s3.objects if "/accuracy/" in key]
    assert scores == ["runs/run-1/accuracy/base.json", "runs/run-1/accuracy/sd.json"]
    assert len([name for name in written(world, "Job") if "accuracy" in name]) == 2
    assert len([name for name in written(world, "Job") if "benchmark" in name]) == 3


def test_a_resumed_run_takes_the_scores_over_and_serves_no_arm_for_missing_ones():
    world = World()
    world.run_through("run-1", until="Benchmark")
    world.s3.objects["runs/run-1/accuracy/base.json"] = b"{}"
    world.finish("StopArms", "run-1")
    release.release(world.given("run-1"), world.rt)
    world.run_through("run-2", request={"resume": "run-1"})
    assert world.s3.objects["runs/run-2/accuracy/base.json"] == b"{}"
    assert "runs/run-2/accuracy/sd.json" not in world.s3.objects
    assert world.replicas == 0


def test_a_bad_execution_name_is_refused():
    with pytest.raises(InvalidExperiment, match="becomes the run's id"):
        World().plan("späti")


def test_planning_again_keeps_the_first_state():
    world = World()
    world.plan()
    world.finish("StageModels")
    before = json.loads(world.s3.objects["runs/run-1/state.json"])
    world.plan()
    assert json.loads(world.s3.objects["runs/run-1/state.json"]) == before


@pytest.mark.parametrize("step", ["Compile", "Serve", "Smoke", "Benchmark", "Accuracy"])
def test_a_run_without_the_lease_touches_nothing(step):
    world = World()
    world.run_through(until="AcquireCapacity")
    release.release(world.given("run-1"), world.rt)
    before = world.workloads()
    with pytest.raises(LeaseLost):
        world.finish(step)
    assert world.workloads() == before


def test_the_queue_moves_in_order_and_the_node_is_handed_over():
    world = World()
    for run_id in ("run-1", "run-2", "run-3"):
        world.plan(run_id)
        world.finish("StageModels", run_id)
    world.finish("AcquireCapacity", "run-1")
    second = acquire.acquire(world.given("run-2"), world.rt)
    third = acquire.acquire(world.given("run-3"), world.rt)
    assert (second.done, third.done) == (False, False)
    assert "number 1" in second.message
    assert "number 2" in third.message
    release.release(world.given("run-2"), world.rt)  # stopped while waiting
    release.release(world.given("run-1"), world.rt)
    assert world.replicas == 1
    world.finish("AcquireCapacity", "run-3")
    assert world.rt.lease.read().held_by("run-3")


def test_a_plan_that_no_history_holds_is_refused_as_the_experiment_s_fault():
    changes = {"sweep": "grid", "workload.rounds": 20, "serving.devices": 16, "serving.tensor_parallel_size": 64}
    with pytest.raises(InvalidExperiment, match="460 waves"):
        World().plan(request={"experiment": "qwen3-32b-tuning", "set": changes})


def test_nothing_starts_beside_a_compile_pod_that_still_holds_its_devices():
    """Its artifact is complete before the pod is gone: what is served meanwhile would get the other device group."""
    world = World()
    world.plan()
    for step in ("StageModels", "AcquireCapacity"):
        world.finish(step)
    world.finish("Compile")
    pod = next(pod for pod in world.cluster.all("Pod") if pod["metadata"]["labels"][names.COMPONENT_LABEL] == "compile")
    pod["status"] = {"phase": "Running"}
    answer = compiling.compile_arms(world.given("run-1"), world.rt)
    assert not answer.done
    assert pod["metadata"]["name"] in answer.message
    pod["status"] = {"phase": "Succeeded"}
    assert compiling.compile_arms(world.given("run-1"), world.rt).done


@pytest.mark.parametrize(
    ("accepted", "says"), [({}, "\\$500 needs no consent"), ({"accept_cost": 600}, "\\$600 was accepted")]
)
def test_a_run_that_could_cost_more_than_anybody_accepted_is_refused_wherever_it_is_started(accepted, says):
    """As the console does it: no command line has asked anybody."""
    world = World()
    with pytest.raises(InvalidExperiment, match=f'could cost \\$2,755.*{says}.*"accept_cost": 2756'):
        world.plan(request={"experiment": "llama-3.1-405b", **accepted})
    assert not world.s3.objects
    world.plan(request={"experiment": "llama-3.1-405b", "accept_cost": 2756})


def test_the_bound_is_the_deployment_s_and_a_resumed_run_must_be_accepted_too():
    world = World()
    world.plan()
    world.rt.environ["CAPACITY"] = Capacity(accept_cost_above=1).model_dump_json()
    with pytest.raises(InvalidExperiment, match="needs no consent"):
        world.plan("run-2", {"resume": "run-1"})
    world.plan("run-2", {"resume": "run-1", "accept_cost": 500})
    world.rt.environ["CAPACITY"] = Capacity(accept_cost_above=1, reservation="cr-0123456789abcdef0").model_dump_json()
    world.plan("run-3")


def test_who_started_a_run_is_kept_with_it():
    world = World()
    world.plan(request={"started_by": "arn:aws:sts::111122223333:assumed-role/Admin/anna", "experiment": "rehearsal"})
    assert load_state(world.rt.store, "run-1").started_by.endswith("Admin/anna")


def test_a_name_that_an_earlier_run_had_is_refused_and_its_results_stay():
    """Step Functions frees a name after 90 days, and the ARN is the same."""
    world = World()
    first = world.given("run-1", input=DEFAULT, execution_started=world.time)
    for _ in range(2):  # a step may be asked again
        plan.plan(first, world.rt)
    kept = dict(world.s3.objects)
    again = first.model_copy(update={"execution_started": world.time + timedelta(days=91)})
    with pytest.raises(
        InvalidExperiment, match=r"run-1 was used by a run that started at 2026-08-01 12:00 UTC.*another"
    ):
        plan.plan(again, world.rt)
    caught = {"Error": "InvalidExperiment", "Cause": "the name run-1 was used"}
    failed = again.model_copy(update={"error": caught, "input": None})
    assert "refused before anything was created" in diagnose.diagnose(failed, world.rt).Cause
    assert world.s3.objects == kept, "neither the plan nor the diagnosis adds to the earlier run's results"


def test_a_record_of_a_version_that_kept_no_start_is_an_earlier_run_s_too():
    world = World()
    first = world.given("run-1", input=DEFAULT)
    plan.plan(first, world.rt)
    with pytest.raises(InvalidExperiment, match="was used by a run"):
        plan.plan(first.model_copy(update={"execution_started": world.time}), world.rt)


def test_measurements_without_a_record_are_never_taken_for_a_new_run_s():
    world = World()
    world.s3.objects[s3_keys.run_key("run-1", "raw/base/count.jsonl")] = b"{}\n"
    with pytest.raises(InvalidExperiment, match=r"1 files of measurements lie below .*start it with another name"):
        world.plan()


def test_a_failed_run_of_a_fresh_name_keeps_its_diagnosis():
    world = World()
    given = world.given("run-1", input=DEFAULT, execution_started=world.time)
    plan.plan(given, world.rt)
    failed = given.model_copy(update={"error": {"Error": "ServeNotReady", "Cause": "x"}, "input": None})
    diagnose.diagnose(failed, world.rt)
    assert [failure.stage for failure in load_state(world.rt.store, "run-1").failures] == ["ServeNotReady"]
    assert s3_keys.run_key("run-1", "diagnostics/diagnosis.json") in world.s3.objects


class FakeSns:
    """The alerts topic's subscriptions, in pages of one."""

    def __init__(self, *subscriptions: dict[str, str]) -> None:
        self.subscriptions = subscriptions

    def get_paginator(self, operation: str) -> FakeSns:
        assert operation == "list_subscriptions_by_topic"
        return self

    def paginate(self, *, TopicArn: str) -> list[dict[str, list[dict[str, str]]]]:
        assert TopicArn == TOPIC
        return [{"Subscriptions": [item]} for item in self.subscriptions] or [{"Subscriptions": []}]


TOPIC = "arn:aws:sns:us-east-2:1:alerts"
PENDING = {"SubscriptionArn": "PendingConfirmation", "Endpoint": "you@example.com"}
CONFIRMED = {"SubscriptionArn": f"{TOPIC}:7", "Endpoint": "you@example.com"}


def told(*subscriptions: dict[str, str]) -> World:
    world = World()
    world.rt.environ["ALERTS_TOPIC"] = TOPIC
    others = world.rt.clients
    world.rt.clients = lambda service: FakeSns(*subscriptions) if service == "sns" else others(service)
    return world


@pytest.mark.parametrize(
    ("subscriptions", "says"),
    [
        ((), "accept_no_alerts=true"),
        ((PENDING,), "you@example.com is not confirmed: nobody is told yet: open the link"),
    ],
)
def test_a_run_of_which_nobody_would_hear_is_refused_from_wherever_it_is_started(subscriptions, says):
    world = told(*subscriptions)
    with pytest.raises(NobodyTold, match=re.escape(says)) as caught:
        world.plan(request={})
    assert not [key for key in world.s3.objects if key.startswith("runs/")], "refused before anything was stored"
    cause = world.clean_up(caught.value).Cause
    assert cause.startswith("The run was refused before anything was created, since nobody would be told")


def test_one_confirmed_subscription_is_enough_wherever_it_stands():
    assert told(PENDING, CONFIRMED).plan() == 1


def test_a_plan_says_what_it_warns_of_to_whoever_starts_from_the_console():
    world = World()
    world.rt.environ["CAPACITY"] = Capacity(longest_run_hours=1).model_dump_json()
    world.states.executions[arn("run-1")] = "RUNNING"
    request = {**DEFAULT, "set": {"deadlines.benchmark": 1000}, "accept_cost": 5000}
    planned = plan.plan(world.given("run-1", input=request), world.rt)
    assert any("deploy with -c longest_run_hours=" in text for text in planned.warnings), planned.warnings
