"""Deployments that fail, and those after them, end to end: the real CDK CLI on the embedded cloud.

Not part of `make test` (it takes about six minutes); writes its lines of docs/reference/faults.md. Run it with

    .venv/bin/pytest tests/end_to_end/redeploy.py

The cases stand in the order in which a person could meet them, on one embedded account.
"""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_lib.logs import made_by_aws
from rehearsal.processes import ChildFailed
from rehearsal.rehearse import Rehearsal
from tests.end_to_end.cloud import quiet_rehearsal
from tests.end_to_end.page import Row, write_faults

CLUSTER, SPEC = "TrainiumClusterStack", "SpecDecodeStack"
GROUPS = made_by_aws("specdecode")


@pytest.fixture(scope="module")
def rows() -> Iterator[list[Row]]:
    made: list[Row] = []
    yield made
    write_faults(made)


@pytest.fixture(scope="module")
def account() -> Iterator[Rehearsal]:
    with quiet_rehearsal() as running:
        yield running


def faults(account: Rehearsal, **switches: Any) -> None:
    account.kubernetes.request("POST", "/_rehearsal/faults", {"reset": True, **switches})


def refused(account: Rehearsal) -> tuple[str, float]:
    """What the CLI says of a deployment that must fail, and how many seconds it took."""
    began = time.monotonic()
    with pytest.raises(ChildFailed):
        account.deploy()
    took = time.monotonic() - began
    log = (account.processes.folder / "logs" / "deploy.log").read_text(errors="replace")
    return " ".join(log.split()), took


def status_of(account: Rehearsal, stack: str) -> str:
    try:
        found = account.services.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except ClientError:
        return "none"
    return str(found[0]["StackStatus"])


def buckets(account: Rehearsal) -> list[str]:
    names = [bucket["Name"] for bucket in account.services.client("s3").list_buckets()["Buckets"]]
    return [name for name in names if name.startswith(SPEC.lower())]


def retentions(account: Rehearsal) -> dict[str, int | None]:
    """Days that each of AWS's own log groups keeps its lines; None is for ever."""
    groups = account.services.client("logs").describe_log_groups()["logGroups"]
    return {group["logGroupName"]: group.get("retentionInDays") for group in groups if group["logGroupName"] in GROUPS}


def test_an_ami_that_is_not_there_fails_the_deployment(account: Rehearsal, rows: list[Row]) -> None:
    faults(account, ami_missing="trn2")
    said, took = refused(account)
    found = re.search(r"Karpenter would launch no node: .*?AMISelector did not match any AMIs\)", said)
    assert found, said[-3000:]
    assert "EC2NodeClass trn2-sdk-2-33 is not Ready" in found[0]
    assert status_of(account, CLUSTER) == "ROLLBACK_COMPLETE"
    assert status_of(account, SPEC) == "none"
    rows.append(("deployed with an AMI that EC2 does not have", "deploy", "-", found[0], f"{took:.0f} s"))


def test_a_first_deployment_that_fails_leaves_no_bucket(account: Rehearsal, rows: list[Row]) -> None:
    """The cluster's stack comes anew over the one that was rolled back; then an object of the other is not taken."""
    faults(account, api=[{"code": 500, "count": 2, "path": "/resourceclaimtemplates"}])
    said, took = refused(account)
    found = re.search(r"Internal error occurred: injected by the rehearsal", said)
    assert found, said[-3000:]
    assert (status_of(account, CLUSTER), status_of(account, SPEC)) == ("CREATE_COMPLETE", "ROLLBACK_COMPLETE")
    assert buckets(account) == []
    rows.append(("Kubernetes refuses an object of the first deployment", "deploy", "-", found[0], f"{took:.0f} s"))


def test_a_fresh_deployment_comes_up_with_no_alarm(account: Rehearsal) -> None:
    faults(account)
    account.deploy()
    assert retentions(account) == dict.fromkeys(GROUPS, 30)
    assert len(buckets(account)) == 2
    alarms = account.services.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert [alarm["AlarmName"] for alarm in alarms if alarm["StateValue"] == "ALARM"] == []
    (heartbeat,) = [alarm for alarm in alarms if "NoHeartbeat" in alarm["AlarmName"]]
    asked = {"Namespace": heartbeat["Namespace"], "MetricName": heartbeat["MetricName"]}
    now = time.time()
    points = account.services.client("cloudwatch").get_metric_statistics(
        **asked, StartTime=now - 900, EndTime=now, Period=300, Statistics=["Sum"]
    )
    assert points["Datapoints"], "the alarm would go off: missing data is breaching"


def test_deployed_again_over_what_aws_wrote_after_the_deletion(account: Rehearsal, rows: list[Row]) -> None:
    """EKS and the agent's pods write their last lines when the stacks are gone, and make their groups for it."""
    account.destroy()
    assert status_of(account, CLUSTER) == "none"
    assert len(buckets(account)) == 2, "artifacts are kept"
    logs = account.services.client("logs")
    for name in GROUPS:
        logs.delete_log_group(logGroupName=name)
        logs.create_log_group(logGroupName=name)
    assert retentions(account) == dict.fromkeys(GROUPS)
    began = time.monotonic()
    account.deploy()
    assert retentions(account) == dict.fromkeys(GROUPS, 30)
    rows.append(
        (
            "deployed, deleted, log groups made anew by AWS, deployed",
            "deploy",
            "-",
            "-",
            f"{time.monotonic() - began:.0f} s",
        )
    )
    account.destroy()
