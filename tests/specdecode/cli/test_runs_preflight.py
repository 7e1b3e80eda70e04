"""Preflight: each thing that would fail a first run is named with what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError
from specdecode.cli.runs_preflight import QUOTA, preflight
from specdecode.cluster.lease import Claim, Lease
from specdecode.experiment import load_preset
from specdecode.layout import CAPACITY_KEY
from specdecode.runs.store import Store

from tests.specdecode.tasks.aws_fake import FakeS3, client_error

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


class Clients:
    """Answers of the services that preflight asks."""

    def __init__(self) -> None:
        self.vcpus = 192.0
        self.zones = ["us-east-2a"]
        self.secret = True
        self.identity: Exception | None = None
        self.reservation = {"State": "active", "AvailableInstanceCount": 1, "TotalInstanceCount": 1}

    def get_caller_identity(self) -> dict[str, str]:
        if self.identity:
            raise self.identity
        return {"Arn": "arn:aws:iam::1:user/me"}

    def get_paginator(self, operation: str) -> Any:
        quotas = [{"QuotaName": "Other", "Value": 1.0}, {"QuotaName": QUOTA, "Value": self.vcpus}]

        class Pages:
            @staticmethod
            def paginate(**given: Any) -> list[dict[str, Any]]:
                return [{"Quotas": quotas}]

        return Pages

    def describe_instance_type_offerings(self, **given: Any) -> dict[str, Any]:
        return {"InstanceTypeOfferings": [{"Location": zone} for zone in self.zones]}

    def describe_capacity_reservations(self, **given: Any) -> dict[str, Any]:
        return {"CapacityReservations": [{"InstanceType": "trn2.48xlarge", **self.reservation}]}

    def describe_secret(self, **given: Any) -> None:
        if not self.secret:
            raise client_error("ResourceNotFoundException", "DescribeSecret")


class FakeDeployment:
    machine = "arn:aws:states:us-east-2:1:stateMachine:pipeline"

    def __init__(self) -> None:
        self.clients, self.outputs = Clients(), {"Capacity": "{}", "CapacityReservation": "none"}
        self.store = Store(s3=FakeS3(), bucket="bucket")

    def client(self, service: str) -> Clients:
        return self.clients


def checks(deployment, experiment="rehearsal", status=200):
    found = preflight(deployment, load_preset(experiment), now=NOW, probe=lambda url: status)
    return {check.name: check for check in found}


@pytest.fixture
def deployment():
    made = FakeDeployment()
    for name in ("pair-target", "pair-draft"):
        made.store.s3.objects[f"imports/{name}/model.safetensors"] = b"x"
    return made


def test_all_is_well(deployment):
    found = checks(deployment)
    assert {check.verdict for check in found.values()} == {"ok"}
    assert {"credentials", "stack", "quota", "zones", "capacity", "model specdecode/pair-target"} <= set(found)


def test_no_credentials(deployment):
    deployment.clients.identity = NoCredentialsError()
    assert checks(deployment)["credentials"].verdict == "fail"


def test_a_held_node_is_named_with_who_waits(deployment):
    at = NOW - timedelta(minutes=90)
    claim = Claim(run_id="r-1", execution_arn="arn", queued_at=at, held_since=at)
    lease = Lease(holder=claim, queue=(claim.model_copy(update={"run_id": "r-2"}),))
    deployment.store.write(CAPACITY_KEY, lease.model_dump_json())
    found = checks(deployment)["capacity"]
    assert (found.verdict, found.detail) == (
        "warn",
        "r-1 has held the node for 1:30:00, 1 more wait: a new run stands behind",
    )


def test_a_reservation_in_use_is_a_warning(deployment):
    deployment.outputs["CapacityReservation"] = "cr-1"
    deployment.clients.reservation["AvailableInstanceCount"] = 0
    found = checks(deployment)["reservation"]
    assert (found.verdict, "0 of 1" in found.detail) == ("warn", True)


def test_a_quota_below_one_node(deployment):
    deployment.clients.vcpus = 128.0
    found = checks(deployment)["quota"]
    assert (found.verdict, "192" in found.fix) == ("fail", True)


def test_a_region_without_the_instance(deployment):
    deployment.clients.zones = []
    assert checks(deployment)["zones"].verdict == "fail"


def test_what_may_not_be_looked_at_is_a_warning(deployment):
    deployment.clients.identity = client_error("AccessDenied", "GetCallerIdentity")
    found = checks(deployment)["credentials"]
    assert (found.verdict, "AccessDenied" in found.detail) == ("warn", True)


@pytest.mark.parametrize(("state", "verdict"), [("active", "ok"), ("scheduled", "warn"), ("expired", "fail")])
def test_a_reservation_replaces_quota_and_zones(deployment, state, verdict):
    deployment.outputs["CapacityReservation"] = "cr-1"
    deployment.clients.reservation["State"] = state
    found = checks(deployment)
    assert found["reservation"].verdict == verdict
    assert "quota" not in found


@pytest.mark.parametrize(
    ("start", "end", "verdict"), [(-1, 5, "ok"), (1, 5, "fail"), (-5, 0.5, "fail")], ids=["in", "before", "draining"]
)
def test_a_capacity_block_s_window(deployment, start, end, verdict):
    block = {"block_start": NOW + timedelta(hours=start), "block_end": NOW + timedelta(hours=end)}
    lines = ", ".join(f'"{key}": "{value.isoformat()}"' for key, value in block.items())
    deployment.outputs["Capacity"] = f"{{{lines}}}"
    assert checks(deployment)["window"].verdict == verdict


def test_models_that_are_nowhere(deployment):
    deployment.store.s3.objects.clear()
    found = checks(deployment)["model specdecode/pair-target"]
    assert (found.verdict, "aws s3 cp" in found.fix) == ("fail", True)


@pytest.mark.parametrize(("status", "verdict"), [(200, "ok"), (404, "fail"), (0, "fail")])
def test_models_of_the_hub(deployment, status, verdict):
    assert checks(deployment, "qwen3-32b", status)["model Qwen/Qwen3-32B"].verdict == verdict


def test_a_gated_model_needs_a_token(deployment):
    deployment.clients.secret = False
    gated = [
        check for name, check in checks(deployment, "llama-3.1-405b").items() if name.startswith("model meta-llama")
    ]
    assert gated
    assert {check.verdict for check in gated} == {"warn"}
