"""Deletes what a run created, and says what still exists."""

from specdecode import names
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.resources import WORKLOAD_KINDS, KubeObject, name_of


def run_selector(run_id: str) -> str:
    return f"{names.RUN_LABEL}={names.run_label(run_id)}"


def delete_workloads(kube: Kubernetes, *, selector: str) -> list[str]:
    """Delete the run's workload objects. Returns all that still exist, as `leftovers` does: call it until that is
    empty.

    The root is deleted in the foreground. It exists as long as something that it owns does, perhaps without the label
    or of a kind that cannot be listed (Secrets); the garbage collector deletes that.
    """
    for kind in WORKLOAD_KINDS:
        for obj in kube.list(kind, namespace=names.NAMESPACE, selector=selector):
            if "deletionTimestamp" not in obj["metadata"]:
                kube.delete(kind, name_of(obj), namespace=names.NAMESPACE, foreground=_is_root(obj))
    return leftovers(kube, selector=selector)


def _is_root(obj: KubeObject) -> bool:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(names.COMPONENT_LABEL) == names.ROOT_COMPONENT


def leftovers(kube: Kubernetes, *, selector: str) -> list[str]:
    """The run's objects, its pods, and the device claims that no other run's pod owns."""
    left = [
        f"{kind}/{name_of(obj)}"
        for kind in WORKLOAD_KINDS
        for obj in kube.list(kind, namespace=names.NAMESPACE, selector=selector)
    ]
    own = kube.list("Pod", namespace=names.NAMESPACE, selector=selector)
    left += [f"Pod/{name_of(pod)}" for pod in own]
    others = {name_of(pod) for pod in kube.list("Pod", namespace=names.NAMESPACE)} - {name_of(pod) for pod in own}
    for claim in kube.list("ResourceClaim", namespace=names.NAMESPACE):
        owners = {owner.get("name") for owner in claim["metadata"].get("ownerReferences") or []}
        if not owners & others:
            left.append(f"ResourceClaim/{name_of(claim)}")
    return left
