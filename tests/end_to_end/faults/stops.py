"""Runs that a person stops, and one that nobody watches over."""

import json
import time

import pytest
from specdecode import s3_keys

from tests.end_to_end import broken
from tests.end_to_end.cloud import LONG, looks
from tests.end_to_end.faults.cases import fails


def test_a_person_stops_a_run_that_holds_the_node(cloud):
    """StopExecution and nothing else: the watchdog, by its event rule, does all the rest."""
    run = cloud.start("stopped", LONG)
    cloud.until_step(run, "Benchmark")
    run.deployment.stop(run.arn)
    assert cloud.ended(run).status == "ABORTED"
    cloud.at_rest()
    cloud.note("a person stops the run; the watchdog alone cleans up", "Benchmark", run, cause="stopped by a person")


def test_a_stopped_run_is_redriven(cloud):
    """Its node is gone and its servers are deleted: it ends as if it had been stopped, and takes no other node."""
    run = cloud.start("redriven", LONG)
    cloud.until_step(run, "Benchmark")
    run.deployment.stop(run.arn)
    cloud.at_rest()
    bought = cloud.bought()
    cloud.running.services.client("stepfunctions").redrive_execution(executionArn=run.arn)
    fails(
        cloud,
        run,
        fault="a stopped run is redriven in Step Functions",
        where="Benchmark",
        error="LeaseLost",
        row="lease-lost",
    )
    assert cloud.bought() == bought, "an instance was bought"


def test_a_person_stops_a_run_with_the_command_line(cloud):
    """As a user does it, in a process of its own: it ends the run, waits until all is released, and says so."""
    run = cloud.start("stop-command", LONG)
    cloud.until_step(run, "Benchmark")
    shown = json.loads(cloud.command("status", run.run_id, "--json"))
    assert {(pod["variant"], pod["ready"]) for pod in shown["pods"] if pod["component"] == "serving"} == {
        ("base", True),
        ("sd", True),
    }
    said = cloud.command("stop", run.run_id)
    assert f"stopped {run.run_id}" in said
    assert f"released; the node pools have {cloud.others} replicas" in said
    assert (cloud.workloads(), cloud.running.replicas(), len(cloud.lease().claims)) == ([], cloud.others, cloud.others)
    assert cloud.ended(run).status == "ABORTED"
    assert "has already ended: ABORTED" in cloud.command("stop", run.run_id)
    cloud.at_rest()
    cloud.note("`specdecode stop` while it measures", "Benchmark", run, cause="stopped by a person")


def test_three_runs_one_stopped_while_waiting_one_while_holding(cloud):
    cloud.forget("compiled/")
    if cloud.beside:  # it must not end while the others wait
        cloud.beside.stop()
        cloud.beside.begin()
    first = cloud.start("first", LONG)
    cloud.until_step(first, "Benchmark")
    second, third = cloud.start("second"), cloud.start("third")
    cloud.until(lambda: len(cloud.lease().queue) == 2, what="two waiting runs")
    waiting = {claim.run_id for claim in cloud.lease().queue}
    assert waiting == {second.run_id, third.run_id}
    second.deployment.stop(second.arn)
    cloud.until(lambda: len(cloud.lease().queue) == 1, what="the stopped run's leaving the queue")
    first.deployment.stop(first.arn)
    end = cloud.ended(third)
    assert end.status == "SUCCEEDED", end.cause
    cloud.at_rest()
    assert looks(third, "Compile") == 1, "the third run compiles what the first had compiled"
    for run, what in ((second, "stopped while waiting"), (first, "stopped while holding"), (third, "goes on")):
        cloud.note(f"three runs queued: {what}", "queue", run, cause="-")


def test_stop_gives_the_node_back_though_nothing_stored_can_be_read(cloud):
    run = cloud.start("stop-blind", LONG)
    cloud.until_step(run, "Benchmark")
    broken.stored(cloud, s3_keys.CAPACITY_KEY, b"{")
    broken.stored(cloud, s3_keys.ENDPOINTS_KEY, b"{")
    broken.stored(cloud, s3_keys.run_key(run.run_id, "state.json"), b"{")
    said = cloud.command("stop", run.run_id)
    assert "released; the node pools have 0 replicas" in said
    cloud.all_end("LeaseDamaged")
    assert (cloud.workloads(), cloud.running.replicas()) == ([], 0)
    assert "holder    nobody" in cloud.command("capacity", "--release")
    cloud.at_rest()
    cloud.note("`specdecode stop` with every document damaged", "Benchmark", run, cause="stopped by a person")


@pytest.mark.one_node("every execution is dead")
def test_the_backstop_ends_what_nobody_watches_over(cloud):
    """Watchdog, Kubernetes API and bucket are broken together, and the run's execution is dead; Karpenter is alive."""
    run = cloud.start("nobody-watches", LONG)
    cloud.until_step(run, "Benchmark")
    (held,) = broken.instances(cloud)
    with broken.backstop(cloud, run) as backstop:
        with backstop.alone():
            backstop.ends(1)
            cloud.until(lambda: not broken.instances(cloud), what="the end of the instance")
            time.sleep(10)
            assert not broken.instances(cloud), "Karpenter, which still has to keep one replica, must not replace it"
            assert backstop.look()["closed"] == ["trn2"]
        assert backstop.look()["closed"] == [], "opened again, as the watchdog works and nothing is wrong"
    assert backstop.ended == [held]
    assert any("has ended an instance" in text and held in text for text in backstop.mail)
    cloud.at_rest()
    cloud.note(
        "watchdog, Kubernetes API, bucket and execution are dead together",
        "Benchmark",
        run,
        cause="ended by the backstop",
    )
    again = cloud.start("after-the-backstop")
    assert cloud.ended(again).status == "SUCCEEDED", "a node can be launched again"
