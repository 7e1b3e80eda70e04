"""What the pipeline has stored is damaged, or cannot be read any more."""

import json

import pytest
from specdecode import s3_keys

from tests.end_to_end import broken
from tests.end_to_end.cloud import LONG
from tests.end_to_end.faults.cases import fails, succeeds


def _held_for_ever(since: str | None) -> bytes:
    """A lease that reads well and cannot be true."""
    claim = {"run_id": "somebody", "execution_arn": "arn", "queued_at": "2026-01-01T00:00:00Z", "held_since": since}
    return json.dumps({"holder": claim}).encode()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x00 no JSON", "garbage"),
        (b"", "empty"),
        (b'{"holder": 7, "queue": {"a": []}}', "of wrong types"),
        (b'{"holder": null}' + b" " * (5 << 20), "huge (5 MiB)"),
        (_held_for_ever("2096-01-01T00:00:00Z"), "of a time to come"),
        (_held_for_ever(None), "of no time at all"),
    ],
)
def test_the_lease_is_damaged_while_a_run_measures(cloud, data, what):
    """The run ends at its next look, the node goes, the document is kept aside, and the queue begins anew by itself."""
    run = cloud.start(f"lease-{what.partition(' (')[0].replace(' ', '-')}", LONG)
    cloud.until_step(run, "Benchmark")
    broken.stored(cloud, s3_keys.CAPACITY_KEY, data)
    end = cloud.ended(run)
    assert (end.status, end.error) == ("FAILED", "LeaseDamaged"), end.cause
    cloud.all_end("LeaseDamaged")
    cloud.until(lambda: cloud.running.replicas() == 0, what="0 replicas")
    cloud.until(lambda: cloud.stored(s3_keys.CAPACITY_KEY) != data, what="a new queue")
    cloud.at_rest()
    listed = cloud.running.services.client("s3").list_objects_v2(Bucket=cloud.running.bucket, Prefix=s3_keys.DAMAGED)
    assert data in [cloud.stored(item["Key"]) for item in listed["Contents"]]
    assert cloud.diagnosis(run)["row"] == "stored-damaged"
    cloud.note(f"`capacity.json` is {what}", "Benchmark", run, cause=cloud.diagnosis(run)["cause"])


def test_a_run_on_a_node_needs_no_queue_of_other_servers(cloud):
    broken.stored(cloud, s3_keys.ENDPOINTS_KEY, b"[")
    run = cloud.start("endpoints-damaged")
    succeeds(cloud, run, fault="`endpoints.json` is damaged", where="ReleaseCapacity")
    if cloud.beside:
        problems = run.deployment.reconcile()["problems"]
        assert any("begins anew when no execution runs" in problem for problem in problems), problems
        cloud.beside.stop()
    cloud.until(lambda: run.deployment.reconcile()["problems"] == [], what="a new queue of other servers")


def test_what_a_newer_version_stored_is_read_after_a_rollback(cloud):
    run = cloud.start("rolled-back")
    cloud.until_step(run, "Serve")
    for key in (s3_keys.CAPACITY_KEY, s3_keys.run_key(run.run_id, "state.json")):
        broken.stored(cloud, key, json.dumps(json.loads(cloud.stored(key)) | {"of_the_next_version": 1}).encode())
    succeeds(cloud, run, fault="documents have fields of a newer version", where="Serve")


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("state.json", b"", "empty"),
        ("state.json", b" " * (9 << 20), "huge (9 MiB)"),
        ("plan.json", b'{"experiment": []}', "of wrong types"),
    ],
)
def test_the_run_s_record_is_damaged(cloud, name, data, what):
    run = cloud.start(f"{name[:-5]}-damaged", LONG)
    cloud.until_step(run, "Benchmark")
    cloud.until(  # or the look that begins the load writes the record once more, whole
        lambda: any(pod.get("status", {}).get("phase") == "Running" for pod in cloud.pods("benchmark")),
        what="the client that runs",
    )
    broken.stored(cloud, s3_keys.run_key(run.run_id, name), data)
    fails(
        cloud,
        run,
        fault=f"the run's `{name}` is {what}",
        where="Benchmark",
        error="StateDamaged",
        row="stored-damaged",
    )


def test_the_bucket_denies_everything_and_goes_on_denying(cloud):
    """The denial is not lifted for the clean-up: the node goes back all the same."""
    run = cloud.start("s3-gone", LONG)
    cloud.until_step(run, "Benchmark")
    with cloud.denied(["s3:GetObject", "s3:PutObject"], "*"):
        end = cloud.ended(run)
        assert end.status == "FAILED"
        cloud.all_end("AccessDenied", "ClientError")
        cloud.until(lambda: cloud.running.replicas() == 0, what="0 replicas")
        cloud.until(lambda: not cloud.workloads(), what="the end of all workloads")
        cloud.until(lambda: not broken.instances(cloud), what="the end of the instance")
        assert run.deployment.reconcile()["replicas"] == 0
    run.deployment.reconcile()
    cloud.at_rest()
    cloud.note("S3 denies everything, also the clean-up", "Benchmark", run, cause="AccessDenied")


@pytest.mark.parametrize("kind", ["compiled", "models"])
def test_a_flipped_byte_is_refused_before_it_is_served_and_made_again(cloud, kind):
    """Of an artifact or of the target's weights, between a run and the next. Nothing is measured with it."""
    first = cloud.start(f"whole-{kind}")
    assert cloud.ended(first).status == "SUCCEEDED"
    plan = first.deployment.plan(first.run_id)
    arm = plan.waves[0].arms[0]
    models = [item.model.prefix for item in plan.models]
    folder = s3_keys.compiled_prefix(arm.fingerprint) if kind == "compiled" else models[0]
    s3, bucket = cloud.running.services.client("s3"), cloud.running.bucket
    key = max(s3.list_objects_v2(Bucket=bucket, Prefix=folder)["Contents"], key=lambda item: item["Size"])["Key"]
    whole = cloud.stored(key)
    s3.put_object(Bucket=bucket, Key=key, Body=whole[:-1] + bytes([whole[-1] ^ 1]))
    run = cloud.start(f"flipped-{kind}")
    fails(cloud, run, fault=f"a byte of `{kind}/` is flipped", where="Serve", error="DamagedFolder", row="damaged")
    assert key.removeprefix(folder) in cloud.diagnosis(run)["cause"]
    assert not cloud.records(run)
    again = cloud.running.start(f"anew-{kind}", {"resume": run.run_id})
    succeeds(cloud, again, fault="the run that found it is resumed", where="-")
    assert cloud.stored(key) == whole
    report = json.loads(cloud.stored(s3_keys.run_key(again.run_id, "report.json")))
    assert all(len(served["artifact_sha256"]) == 64 for served in report["context"]["served"])
