"""The pipeline's own functions: killed midway, throttled, denied."""

import contextlib
import json
import os
import signal
from pathlib import Path

from specdecode import s3_keys
from specdecode.experiment import load_preset

from rehearsal.execution import Run
from rehearsal.processes import processes_naming
from tests.end_to_end.cloud import LONG, SMALL, Cloud
from tests.end_to_end.faults.cases import succeeds


def test_a_function_is_killed_midway(cloud):
    run = cloud.start("function-killed")
    cloud.until_step(run, "Serve")
    kill_function(cloud, "Serve", times=3)
    succeeds(cloud, run, fault="the Serve function is killed three times midway", where="Serve")


def test_the_advisor_is_killed_midway(cloud):
    run = _sweep(cloud, "advisor-killed")
    cloud.until_step(run, "Advise")
    kill_function(cloud, "Advise", times=2)
    succeeds(cloud, run, fault="the Advise function is killed twice midway", where="Advise")
    steps = run.deployment.plan(run.run_id).sweep.steps
    assert steps[-1].arm is None
    assert len(steps) >= 2, "it goes on as if nothing had happened"


def test_the_advisor_cannot_store_its_plan(cloud):
    run = _sweep(cloud, "advisor-denied")
    cloud.until_step(run, "Benchmark")
    with cloud.denied("s3:PutObject", s3_keys.run_key(run.run_id, "plan.json")):
        end = cloud.ended(run)
    assert end.status == "FAILED"
    assert cloud.diagnosis(run)["row"] == "s3-denied"
    assert run.deployment.state(run.run_id).measured, "what was measured before is kept"
    cloud.at_rest()
    cloud.note("the Advise function fails every time", "Advise", run, cause=cloud.diagnosis(run)["cause"])


def test_a_sweep_goes_on_without_an_arm_that_does_not_compile(cloud):
    cloud.forget("compiled/")
    run = _sweep(cloud, "arm-lost")
    cloud.until_step(run, "Compile")
    lost = run.deployment.plan(run.run_id).sweep.arms[0]

    def given_up() -> bool:
        cloud.kill("compile", variant=lost)
        return bool(run.deployment.state(run.run_id).lost)

    cloud.until(given_up, what=f"the loss of {lost}")
    succeeds(cloud, run, fault="an arm of an adaptive sweep never compiles", where="Compile")
    report = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
    (failure,) = report["context"]["failures"]
    assert (failure["stage"], failure["variant"]) == ("CompileFailed", lost)
    assert cloud.stored(s3_keys.run_key(run.run_id, "diagnostics", lost, "diagnosis.json"))
    assert [pair["variant"] for pair in report["pairs"] if pair["cases"]] == [f"sd-k{6 - int(lost[-1])}"]


def test_cloudwatch_throttles_and_what_waits_is_sent_once_by_the_resumed_run(cloud):
    if cloud.beside:  # its metrics must not be sent meanwhile: they have the same names
        cloud.beside.stop()
        cloud.beside.begin()
    with cloud.throttled_cloudwatch():
        run = cloud.start("throttled", SMALL | {"workload.requests": 4})
        succeeds(cloud, run, fault="CloudWatch throttles all the time", where="Report")
    assert any("Throttling" in problem for problem in json.loads(run.look().output)["unpublished"])
    assert cloud.metric_samples(run, "TTFT") == 0
    for number in range(2):
        again = cloud.running.start(f"resumed-{number}", {"resume": run.run_id})
        assert cloud.ended(again).status == "SUCCEEDED"
        assert cloud.metric_samples(run, "TTFT") == 2 * 4, "each arm's requests, once"
    cloud.note("the same run is resumed; its metrics are sent, once", "Report", again, cause="-")


def test_the_bucket_denies_the_functions(cloud):
    run = cloud.start("s3-denied", LONG)
    cloud.until_step(run, "Benchmark")
    with cloud.denied("s3:GetObject", s3_keys.run_key(run.run_id, "plan.json")):
        end = cloud.ended(run)
    assert (end.status, end.error) in {("FAILED", "AccessDenied"), ("FAILED", "ClientError")}
    assert cloud.diagnosis(run)["row"] == "s3-denied"
    cloud.at_rest()
    cloud.note("S3 denies a function", "Benchmark", run, cause=cloud.diagnosis(run)["cause"])


def _sweep(cloud: Cloud, name: str) -> Run:
    """An adaptive sweep of two arms."""
    preset = load_preset("rehearsal-sweep").model_dump(mode="json")
    kept = [item for item in preset["variants"] if item["name"] in {"base", "sd-k2", "sd-k4"}]
    return cloud.running.start(name, {"experiment": preset | {"variants": kept}, "set": SMALL})


def kill_function(cloud: Cloud, step: str, *, times: int) -> None:
    """Kill processes of the step's function until `times` of them are dead."""
    killed: set[int] = set()

    def kill() -> bool:
        for pid in processes_naming(cloud.running.processes.folder):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if f"-Pipeline{step}Function".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
        return len(killed) >= times

    cloud.until(kill, what=f"{times} processes of the {step} function")
