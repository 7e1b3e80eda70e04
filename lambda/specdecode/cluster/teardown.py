"""Delete what a run created, and say what is still there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from specdecode import names
from specdecode.cluster.client import Kubernetes
from specdecode.cluster.jobs import parse_time
from specdecode.cluster.resources import WORKLOAD_KINDS, KubeObject, name_of


@dataclass(frozen=True)
class Leftover:
    """An object that still exists: `Kind/name`, and since when it is being deleted."""

    label: str
    deleted_at: datetime | None

    @classmethod
    def of(cls, kind: str, obj: KubeObject) -> Leftover:
        stamp = obj["metadata"].get("deletionTimestamp")
        return cls(f"{kind}/{name_of(obj)}", parse_time(stamp) if stamp else None)


def run_selector(run_id: str) -> str:
    """Label selector of all objects of a run."""
    return f"{names.RUN_LABEL}={names.run_label(run_id)}"


def delete_workloads(kube: Kubernetes, *, selector: str) -> list[Leftover]:
    """Delete the run's workload objects; returns all that still exist, their pods and device claims included.

    Call it again until the list is empty: pods drain, and a claim goes after its pod.
    """
    for kind in WORKLOAD_KINDS:
        for obj in kube.list(kind, namespace=names.NAMESPACE, selector=selector):
            if "deletionTimestamp" not in obj["metadata"]:
                kube.delete(kind, name_of(obj), namespace=names.NAMESPACE)
    return leftovers(kube, selector=selector)


def leftovers(kube: Kubernetes, *, selector: str) -> list[Leftover]:
    """The run's objects, its pods, and the device claims that no other run's pod owns."""
    left = [
        Leftover.of(kind, obj)
        for kind in WORKLOAD_KINDS
        for obj in kube.list(kind, namespace=names.NAMESPACE, selector=selector)
    ]
    own = kube.list("Pod", namespace=names.NAMESPACE, selector=selector)
    left += [Leftover.of("Pod", pod) for pod in own]
    others = {name_of(pod) for pod in kube.list("Pod", namespace=names.NAMESPACE)} - {name_of(pod) for pod in own}
    for claim in kube.list("ResourceClaim", namespace=names.NAMESPACE):
        owners = {owner.get("name") for owner in claim["metadata"].get("ownerReferences") or []}
        if not owners & others:
            left.append(Leftover.of("ResourceClaim", claim))
    return left
