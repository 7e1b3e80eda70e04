"""The steps one after the other, in a world where nothing goes wrong; and what a second run and a retry find."""

import json
from pathlib import Path

import pytest
from specdecode import names
from specdecode.benchmark.results import Results
from specdecode.records import ErrorKind, RequestRecord
from specdecode.runs.state import change_state
from specdecode.steps import acquire, release
from specdecode.steps import compile as compiling
from specdecode.steps.errors import InvalidExperiment, LeaseLost

from tests.specdecode.benchmark.making import record
from tests.specdecode.steps.world import WAITING, World


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


def test_a_run_ends_with_nothing_left_and_the_node_released(world):
    world.run_through()
    assert world.replicas == 1
    release.release(world.given("run-1"), world.rt)
    assert world.workloads() == []
    assert world.replicas == 0
    assert world.rt.lease.read().holders == ()
    state = world.record()
    assert state.measured == (0,)
    assert state.held_since is not None
    assert state.released_at is not None
    groups = [(group.variant, group.group, len(group.devices)) for group in state.device_groups]
    assert groups == [("base", "group-0", 8), ("sd", "group-1", 8)], "in the plan's order"


def test_a_second_run_stages_and_compiles_nothing(world):
    world.run_through("run-1")
    release.release(world.given("run-1"), world.rt)
    first = len(written(world, "Job"))
    world.run_through("run-2")
    again = written(world, "Job")[first:]
    assert first == 9  # two models, two start checks, two artifacts, smoke test, benchmark, accuracy test
    assert len(again) == 3
    assert not any("stage" in name or "compile" in name for name in again)


@pytest.mark.parametrize("step", WAITING)
def test_a_retried_step_finds_what_the_last_try_made(world, step):
    world.run_through(until=step)
    before = written(world, "Job") + written(world, "Deployment")
    world.finish(step)
    assert written(world, "Job") + written(world, "Deployment") == before


def test_an_engine_that_compiles_nothing_passes_the_step_at_once(world):
    world.run_through(request={"experiment": "rehearsal-vllm"})
    assert not [name for name in written(world, "Job") if "compile" in name]


def test_the_log_of_a_compile_that_crashed_once_is_kept_though_the_next_pod_succeeds(world):
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


def test_a_service_is_there_before_its_pods_and_all_arms_are_ready_before_the_smoke_test(world):
    """Pods know a Service by variables that are set when they start."""
    world.run_through(until="Smoke")
    order = [path.split("/")[-2:] for method, path in world.cluster.requests if method == "PATCH" and "-w0-" in path]
    assert [kind for kind, name in order if "smoke" not in name] == ["services", "deployments"] * 2
    assert "smoke" in order[-1][1]


def test_a_resumed_run_takes_over_measured_waves_and_their_records(world, tmp_path):
    world.run_through("run-1")
    first = [record(run_id="run-1", index=0), record(run_id="run-1", index=1, error=ErrorKind.TIMEOUT)]
    world.s3.objects["runs/run-1/raw/base/case.jsonl"] = lines_of(first)
    release.release(world.given("run-1"), world.rt)
    world.plan("run-2", {"resume": "run-1"})
    assert [each.index for each in taken_over(world, tmp_path)] == [0, 1]
    for step in WAITING:
        assert len(world.finish(step, "run-2")) == 1
    assert world.replicas == 0


@pytest.mark.parametrize("damaged", [b"\xff", b"{", b"{}", b"[]"])
def test_a_run_with_a_damaged_record_is_not_resumed(world, damaged):
    world.run_through("run-1")
    world.s3.objects["runs/run-1/raw/base/case.jsonl"] = lines_of([record(run_id="run-1")]) + damaged + b"\n"
    release.release(world.given("run-1"), world.rt)
    with pytest.raises(InvalidExperiment, match=r"cannot be resumed: s3://.*/raw/base/case.jsonl: line 2 is no record"):
        world.plan("run-2", {"resume": "run-1"})


@pytest.mark.parametrize(
    ("was", "words"),
    [
        ({"round": 1}, "wave 1 measured round 2 of base, sd, and now that would be round 1 of base, sd"),
        ({"arms": -1}, "wave 1 measured round 1 of sd, and now that would be round 1 of base, sd"),
        ({"index": 1}, "wave 2 measured round 1 of base, sd, and now that would be no wave at all"),
    ],
)
def test_a_run_that_would_have_other_waves_is_not_resumed(world, was, words):
    world.run_through("run-1")
    world.clean_up(InvalidExperiment("x"))
    key = "runs/run-1/plan.json"
    plan = json.loads(world.s3.objects[key])
    (wave,) = plan["waves"]
    if "index" in was:
        plan["waves"].append({**wave, **was})
        change_state(world.rt.store, "run-1", measured=(0, 1))
    else:
        wave.update({"arms": wave["arms"][-1:]} if "arms" in was else was)
    world.s3.objects[key] = json.dumps(plan).encode()
    with pytest.raises(InvalidExperiment, match=words):
        world.plan("run-2", {"resume": "run-1"})
    assert not [key for key in world.s3.objects if key.startswith("runs/run-2/")]


def test_a_resumed_run_sends_again_what_failed_in_a_wave_that_broke_off(world, tmp_path):
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


def test_a_resumed_run_measures_a_wave_that_had_not_been_finished(world):
    world.run_through("run-1", until="Smoke")
    release.release(world.given("run-1"), world.rt)
    world.finish("StopArms", "run-1")
    world.run_through("run-2", request={"resume": "run-1"})
    state = world.record("run-2")
    assert state.measured == (0,)


def test_accuracy_is_measured_only_where_it_is_asked_for(world):
    world.run_through(request={"experiment": "rehearsal"})
    assert world.finish("Accuracy")[0].message == "the experiment asks for no accuracy test"
    assert not any("accuracy" in name for name in written(world, "Job"))


def test_each_arm_s_accuracy_is_measured_once_however_often_it_is_served(world):
    world.run_through(request={"experiment": "qwen3-32b-latency", "set": {"accuracy": True, "start_check": False}})
    scores = [key for key in world.s3.objects if "/accuracy/" in key]
    assert scores == ["runs/run-1/accuracy/base.json", "runs/run-1/accuracy/sd.json"]
    assert len([name for name in written(world, "Job") if "accuracy" in name]) == 2
    assert len([name for name in written(world, "Job") if "benchmark" in name]) == 3


def test_a_resumed_run_takes_the_scores_over_and_serves_no_arm_for_missing_ones(world):
    world.run_through("run-1", until="Benchmark")
    world.s3.objects["runs/run-1/accuracy/base.json"] = b"{}"
    world.finish("StopArms", "run-1")
    release.release(world.given("run-1"), world.rt)
    world.run_through("run-2", request={"resume": "run-1"})
    assert world.s3.objects["runs/run-2/accuracy/base.json"] == b"{}"
    assert "runs/run-2/accuracy/sd.json" not in world.s3.objects
    assert world.replicas == 0


def test_planning_again_keeps_the_first_state(world):
    world.plan()
    world.finish("StageModels")
    before = json.loads(world.s3.objects["runs/run-1/state.json"])
    world.plan()
    assert json.loads(world.s3.objects["runs/run-1/state.json"]) == before


@pytest.mark.parametrize("step", ["Compile", "Serve", "Smoke", "Benchmark", "Accuracy"])
def test_a_run_without_the_lease_touches_nothing(world, step):
    world.run_through(until="AcquireCapacity")
    release.release(world.given("run-1"), world.rt)
    before = world.workloads()
    with pytest.raises(LeaseLost):
        world.finish(step)
    assert world.workloads() == before


def test_the_queue_moves_in_order_and_the_node_is_handed_over(world):
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


def test_compiles_run_one_at_a_time_and_nothing_starts_beside_a_pod_that_still_holds_its_devices(world):
    """Its artifact is complete before the pod is gone: what is served meanwhile would get the other device group."""
    world.run_through(until="AcquireCapacity")
    assert len(world.finish("Compile")) == 3
    assert len([name for name in written(world, "Job") if "compile" in name]) == 2
    pod = next(pod for pod in world.cluster.all("Pod") if pod["metadata"]["labels"][names.COMPONENT_LABEL] == "compile")
    pod["status"] = {"phase": "Running"}
    answer = compiling.compile_arms(world.given("run-1"), world.rt)
    assert not answer.done and pod["metadata"]["name"] in answer.message
    pod["status"] = {"phase": "Succeeded"}
    assert compiling.compile_arms(world.given("run-1"), world.rt).done
