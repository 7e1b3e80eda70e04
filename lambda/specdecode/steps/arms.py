"""The serving pods of an arm, and their devices."""

from collections.abc import Sequence
from datetime import datetime

from specdecode import names
from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.pods import PodProblem, is_ready, restarts
from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.planning import Arm, Wave
from specdecode.steps.errors import StepFailed
from specdecode.steps.jobs import look_at_pods


def arm_pods(
    kube: Kubernetes, run_id: str, arm: Arm, *, owner: str = "", now: datetime | None = None
) -> tuple[list[KubeObject], list[PodProblem]]:
    """The serving pods of `arm` in its wave, and their problems, as look_at_pods() finds them."""
    selector = (
        f"{names.RUN_LABEL}={names.run_label(run_id)},{names.COMPONENT_LABEL}=serving,"
        f"{names.VARIANT_LABEL}={arm.variant},{names.WAVE_LABEL}={arm.wave}"
    )
    return look_at_pods(kube, selector=selector, owner=owner, now=now)


def check_alive(kube: Kubernetes, run_id: str, wave: Wave, *, failure: type[StepFailed]) -> None:
    """Raise `failure` for an arm of `wave` that no longer serves, or that restarted under load."""
    for arm in wave.served:
        pods, found = arm_pods(kube, run_id, arm)
        if not any(is_ready(pod) for pod in pods) or any(restarts(pod) for pod in pods):
            why = "; ".join(str(problem) for problem in found[:3]) or f"pods: {[name_of(pod) for pod in pods]}"
            raise failure(f"arm {arm.variant} died under load: {why}")


def claims_of(pod: KubeObject, claims: Sequence[KubeObject]) -> list[KubeObject]:
    """The device claims that `pod` owns."""
    return [
        claim
        for claim in claims
        if any(owner.get("name") == name_of(pod) for owner in claim["metadata"].get("ownerReferences") or [])
    ]


def is_allocated(claim: KubeObject) -> bool:
    return bool(claim.get("status", {}).get("allocation"))


def device_group(arm: Arm, claims: Sequence[KubeObject], slices: Sequence[KubeObject]) -> DeviceGroup:
    """The devices of an arm's claims, and the device group that they form."""
    results = [
        result
        for claim in claims
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or []
    ]
    published = {
        (item["spec"]["driver"], item["spec"]["pool"]["name"], device["name"]): device
        for item in slices
        for device in item["spec"].get("devices") or []
    }
    groups = set()
    for result in results:
        device = published.get((result["driver"], result["pool"], result["device"]), {})
        attributes = device.get("attributes") or device.get("basic", {}).get("attributes") or {}
        groups.add(_group_of(attributes, size=len(results)))
    return DeviceGroup(
        variant=arm.variant,
        round=arm.round,
        devices=tuple(sorted(result["device"] for result in results)),
        group=",".join(sorted(groups - {""})),
    )


def _group_of(attributes: KubeObject, *, size: int) -> str:
    """The group of `size` devices to which a device belongs: the first attribute of the driver that names one."""
    for name in (f"resource.aws.com/devicegroup{size}_id", f"topology{size}_id"):
        if name in attributes:
            return str(next(iter(attributes[name].values())))
    return ""
