"""Pods and Jobs that are killed, evicted, too large or too late."""

import json

import pytest
from specdecode import names, s3_keys
from specdecode.cli.runs_view import current_step
from specdecode.records import RequestRecord

from tests.end_to_end.cloud import LONG, SMALL, looks
from tests.end_to_end.faults.cases import fails, succeeds


@pytest.mark.one_node("no node is concerned")
def test_the_image_cannot_be_pulled(cloud):
    cloud.control("faults", image_pull_error="rehearsal/engine")
    cloud.forget("models/")
    run = cloud.start("image-pull")
    fails(
        cloud,
        run,
        fault="the engine's image cannot be pulled",
        where="StageModels",
        error="StagingFailed",
        row="image-pull",
    )


def test_a_compile_that_crashes_once_is_done_again_on_a_fresh_pod(cloud):
    cloud.forget("compiled/")
    run = cloud.start("compile-crash")
    cloud.until_step(run, "Compile")
    cloud.until(lambda: cloud.kill("compile"), what="a running compile pod")
    succeeds(cloud, run, fault="the compile pod is killed once", where="Compile")


def test_an_arm_is_killed_under_load(cloud):
    run = cloud.start("arm-killed", LONG)
    cloud.until_step(run, "Benchmark")
    cloud.until(lambda: cloud.kill("serving"), what="a running serving pod")
    fails(
        cloud, run, fault="both arms are killed under load", where="Benchmark", error="BenchmarkFailed", row="arm-died"
    )


def test_an_arm_runs_out_of_memory_under_load(cloud):
    run = cloud.start("arm-oom", LONG)
    cloud.until_step(run, "Benchmark")
    pod = cloud.until(lambda: cloud.pods("serving"), what="a serving pod")[0]["metadata"]["name"]
    cloud.control("kill", namespace=names.NAMESPACE, pod=pod, reason="OOMKilled")
    fails(
        cloud,
        run,
        fault="an arm is killed for memory",
        where="Benchmark",
        error="BenchmarkFailed",
        row="out-of-memory",
    )


def test_the_benchmark_s_pod_is_killed_and_goes_on(cloud):
    run = cloud.start("benchmark-killed", SMALL | {"workload.requests": 30})
    cloud.until_step(run, "Benchmark")
    cloud.until(lambda: cloud.kill("benchmark"), what="a running benchmark pod")
    succeeds(cloud, run, fault="the benchmark's pod is killed", where="Benchmark")


def test_a_run_that_broke_off_while_it_measured_is_resumed(cloud):
    """What it finished is kept: models, artifacts and measured requests. The report is whole."""
    cases, requests = ["repeat-line", "json-records", "count", "library-docs"], 40
    run = cloud.start("broken-off", SMALL | {"workload.cases": cases, "workload.requests": requests})

    def whole() -> list[list[RequestRecord]]:
        """Records are uploaded while a case goes on too."""
        good = [[each for each in found if not (each.warmup or each.error)] for found in cloud.records(run).values()]
        return [found for found in good if len(found) == requests]

    cloud.until_step(run, "Benchmark")
    cloud.until(lambda: len(whole()) >= 2, what="the first case's records of both arms")
    cloud.until(lambda: cloud.kill("serving"), what="running serving pods")
    fails(
        cloud,
        run,
        fault="both arms are killed after the first case",
        where="Benchmark",
        error="BenchmarkFailed",
        row="arm-died",
    )
    good = whole()
    assert 2 <= len(good) < 2 * len(cases)

    again = cloud.running.start("resumed", {"resume": run.run_id})
    succeeds(cloud, again, fault="the same run is resumed", where="-")
    assert (looks(again, "StageModels"), looks(again, "Compile")) == (1, 1), "a model or an artifact was made again"
    all_of_it = cloud.records(again)
    for block in good:
        kept = [record for record in all_of_it[block[0].variant, block[0].case] if not record.warmup]
        assert [record.started_at for record in kept] == [record.started_at for record in block]
    measured = {key: sum(not record.warmup for record in found) for key, found in all_of_it.items()}
    assert measured == {(variant, case): requests for variant in ("base", "sd") for case in cases}
    assert not any(record.error for found in all_of_it.values() for record in found)
    report = json.loads(cloud.stored(s3_keys.run_key(again.run_id, "report.json")))
    assert {result["case"] for pair in report["pairs"] for result in pair["cases"]} == set(cases)


def test_the_accuracy_test_is_killed_and_the_benchmark_is_reported(cloud):
    run = cloud.start("accuracy-killed", SMALL | {"accuracy": True})
    cloud.until_step(run, "Accuracy")

    def over() -> bool:
        cloud.kill("accuracy")
        return current_step(run.deployment.events(run.arn))[0] != "Accuracy"

    cloud.until(over, what="the end of the accuracy test")
    succeeds(cloud, run, fault="the accuracy test's pods are killed", where="Accuracy")
    context = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))["context"]
    assert [failure["stage"] for failure in context["failures"]] == ["Accuracy"]
    assert context["accuracy"] == []


@pytest.mark.parametrize(
    ("step", "component", "error"),
    [
        ("StageModels", "staging", "StagingFailed"),
        ("Compile", "compile", "CompileFailed"),
        ("Benchmark", "benchmark", "BenchmarkFailed"),
    ],
)
def test_a_job_is_not_done_in_its_time(cloud, step, component, error):
    """The step ends it, and not the Job controller, which would delete the pod with its log."""
    for prefix in ("models/", "compiled/"):
        cloud.forget(prefix)
    limit = {"staging": "deadlines.staging", "compile": "deadlines.compile", "benchmark": "deadlines.benchmark"}
    run = cloud.start(f"late-{component}", LONG | {limit[component]: 1})
    cloud.until_step(run, step)
    pods = cloud.until(lambda: cloud.freeze(component), what=f"a running {component} pod")
    fails(cloud, run, fault=f"a {component} pod hangs until its deadline", where=step, error=error, row="too-slow")
    logs = cloud.kept(run, "diagnostics", "logs")
    assert any(pod in key for key in logs for pod in pods), "its log is kept"


def test_a_pod_is_evicted_and_another_one_compiles(cloud):
    """Its log is gone with it. The reason stands where the log would."""
    cloud.forget("compiled/")
    run = cloud.start("evicted")
    cloud.until_step(run, "Compile")

    def evicted() -> bool:
        for pod in cloud.pods("compile"):
            if pod["status"].get("phase") in {"Pending", "Running"} and pod["spec"].get("nodeName"):
                cloud.control("evict", namespace=names.NAMESPACE, pod=pod["metadata"]["name"])
                return True
        return False

    cloud.until(evicted, what="a compile pod")
    succeeds(cloud, run, fault="a compile pod is evicted, its log lost", where="Compile")
    assert any(text.startswith(b"(no log: ") for text in cloud.kept(run, "diagnostics", "logs").values())
