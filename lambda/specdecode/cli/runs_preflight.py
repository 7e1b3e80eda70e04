"""What must be in place before the first run, checked without spending anything."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from botocore.exceptions import BotoCoreError, ClientError

from specdecode import layout, names
from specdecode.cli.runs_deployment import Deployment
from specdecode.cli.runs_view import clock
from specdecode.cluster.lease_store import LeaseStore
from specdecode.experiment import Capacity, Experiment
from specdecode.experiment.capacity import DRAIN_BEFORE_BLOCK_END_MINUTES
from specdecode.experiment.model import ModelRef

INSTANCE_TYPE = "trn2.48xlarge"
VCPUS = 192
QUOTA = "Running On-Demand Trn instances"
HUB = "https://huggingface.co/api/models/"
Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """One thing looked at; `fix` says what to do unless it is ok."""

    name: str
    verdict: Verdict
    detail: str
    fix: str = ""


def preflight(
    deployment: Deployment,
    experiment: Experiment,
    *,
    now: datetime | None = None,
    probe: Callable[[str], int] | None = None,
) -> Iterator[Check]:
    """All checks in order. `probe` gives the HTTP status of a HEAD request."""
    now, probe = now or datetime.now(UTC), probe or http_status
    yield _guarded("credentials", lambda: _credentials(deployment))
    yield Check("stack", "ok", f"{deployment.machine.rpartition(':')[2]} is deployed")
    if experiment.has_endpoints:
        yield _guarded("endpoints", lambda: _turn(deployment))
        return
    capacity = Capacity.model_validate_json(deployment.outputs.get("Capacity", "{}"))
    reservation = deployment.outputs.get("CapacityReservation", "none")
    if reservation == "none":
        yield _guarded("quota", lambda: _quota(deployment))
        yield _guarded("zones", lambda: _zones(deployment))
    else:
        yield _guarded("reservation", lambda: _reservation(deployment, reservation))
    if capacity.block_end is not None:
        yield _window(capacity, now)
    yield _guarded("capacity", lambda: _queue(deployment, now))
    for model in {model.prefix: model for v in experiment.variants for model in experiment.models_of(v)}.values():
        yield _guarded(f"model {model.id}", partial(_model, deployment, model, probe))


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    """A check that cannot be made is a warning: preflight itself needs more rights than a run."""
    try:
        return check()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        return Check(name, "warn", f"could not look: {code}", f"allow {error.operation_name} or look in the console")
    except BotoCoreError as error:
        return Check(name, "fail", f"could not look: {error}", "check credentials, region and network")


def _credentials(deployment: Deployment) -> Check:
    identity = deployment.client("sts").get_caller_identity()
    return Check("credentials", "ok", identity["Arn"])


def _quota(deployment: Deployment) -> Check:
    pages = deployment.client("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="ec2")
    value = next((q["Value"] for page in pages for q in page["Quotas"] if q["QuotaName"] == QUOTA), None)
    if value is None:
        return Check("quota", "warn", f'"{QUOTA}" is not listed', "look it up in Service Quotas")
    if value < VCPUS:
        fix = f'ask for {VCPUS} in Service Quotas ("{QUOTA}")'
        return Check("quota", "fail", f"{value:g} vCPUs, a {INSTANCE_TYPE} has {VCPUS}", fix)
    return Check("quota", "ok", f"{value:g} vCPUs for Trn instances")


def _zones(deployment: Deployment) -> Check:
    found = deployment.client("ec2").describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [INSTANCE_TYPE]}]
    )
    zones = sorted(item["Location"] for item in found["InstanceTypeOfferings"])
    if not zones:
        return Check("zones", "fail", f"no zone of this region offers {INSTANCE_TYPE}", "deploy in us-east-2")
    return Check("zones", "ok", f"{INSTANCE_TYPE} is offered in {', '.join(zones)}")


def _reservation(deployment: Deployment, reservation: str) -> Check:
    found = deployment.client("ec2").describe_capacity_reservations(CapacityReservationIds=[reservation])
    (item,) = found["CapacityReservations"]
    state, free = item["State"], item["AvailableInstanceCount"]
    detail = f"{reservation} is {state}, {free} of {item['TotalInstanceCount']} {item['InstanceType']} free"
    if item["InstanceType"] != INSTANCE_TYPE or state not in {"active", "scheduled", "pending"}:
        return Check("reservation", "fail", detail, f"deploy with an active reservation of a {INSTANCE_TYPE}")
    if state == "active" and not free:
        return Check("reservation", "warn", detail, "somebody uses it: a run (`specdecode capacity`), or who else may?")
    return Check("reservation", "ok" if state == "active" else "warn", detail, "wait until it is active")


def _window(capacity: Capacity, now: datetime) -> Check:
    """A Capacity Block's window; its nodes are drained before its end."""
    assert capacity.block_end is not None  # noqa: S101 - narrows the type
    left = (capacity.block_end - now).total_seconds() / 60 - DRAIN_BEFORE_BLOCK_END_MINUTES
    if capacity.block_start is not None and now < capacity.block_start:
        return Check("window", "fail", f"the block starts at {capacity.block_start.isoformat()}", "start runs then")
    if left <= 0:
        return Check("window", "fail", f"the block ends at {capacity.block_end.isoformat()}", "buy another and deploy")
    return Check("window", "ok", f"{left / 60:.1f} hours until the block's node is drained")


def _queue(deployment: Deployment, now: datetime) -> Check:
    lease = LeaseStore(s3=deployment.store.s3, bucket=deployment.store.bucket).read()
    if lease.holder is None:
        return Check("capacity", "ok", "nobody holds the node")
    since = clock((now - (lease.holder.held_since or lease.holder.queued_at)).total_seconds())
    waiting = f", {len(lease.queue)} more wait" if lease.queue else ""
    detail = f"{lease.holder.run_id} has held the node for {since}{waiting}: a new run stands behind"
    return Check("capacity", "warn", detail, "see `specdecode capacity`")


def _turn(deployment: Deployment) -> Check:
    lease = LeaseStore(s3=deployment.store.s3, bucket=deployment.store.bucket, key=layout.ENDPOINTS_KEY).read()
    if lease.holder is None:
        return Check("endpoints", "ok", "no run loads servers that already run; they are asked by the run's smoke test")
    detail = f"{lease.holder.run_id} loads servers that already run: a new run stands behind"
    return Check("endpoints", "warn", detail, "see `specdecode capacity`")


def _model(deployment: Deployment, model: ModelRef, probe: Callable[[str], int]) -> Check:
    name = f"model {model.id}"
    if deployment.store.is_complete(model.prefix):
        return Check(name, "ok", "is in the bucket")
    if model.import_prefix:
        if deployment.store.keys(model.import_prefix):
            return Check(name, "ok", f"will be imported from {model.import_prefix}")
        where = deployment.store.url(model.import_prefix)
        return Check(name, "fail", f"nothing lies in {where}", f"aws s3 cp --recursive <folder> {where}")
    if model.gated:
        deployment.client("secretsmanager").describe_secret(SecretId=names.HF_TOKEN_SECRET)
        return Check(name, "ok", "is gated; a Hugging Face token is stored (whether it has access shows at staging)")
    status = probe(HUB + model.id)
    if status == 200:
        return Check(name, "ok", "can be downloaded from Hugging Face")
    return Check(name, "fail", f"Hugging Face answers {status or 'nothing'}", "check the id and its licence page")


def http_status(url: str) -> int:
    """Status of a HEAD request; 0 if there was no answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=10) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
