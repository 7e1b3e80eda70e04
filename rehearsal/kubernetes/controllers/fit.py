"""The scheduler's filters: what a node has left, and whether a pod may go there. Refusals have the scheduler's
words.
"""

from decimal import Decimal

from rehearsal.kubernetes import quantity, queries
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers.pods import is_finished
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.objects import Json, dig, labels_of, name_of, namespace_of
from rehearsal.kubernetes.quantity import Amounts


def requests_of(spec: Json) -> Amounts:
    """The requests of a pod: the sum of its containers or its largest init container, and one pod."""
    total: Amounts = {}
    for container in spec["containers"]:
        total = quantity.add(total, quantity.amounts(dig(container, "resources", "requests")))
    for container in spec.get("initContainers", ()):
        total = quantity.largest(total, quantity.amounts(dig(container, "resources", "requests")))
    return {**total, "pods": Decimal(1)}


def free(store: Store, node: Json) -> Amounts:
    """The allocatable resources of a node that are left."""
    left = quantity.amounts(dig(node, "status", "allocatable", default={}))
    for pod in store.list(r.PODS):
        if dig(pod, "spec", "nodeName") == name_of(node) and not is_finished(pod):
            for name, amount in requests_of(pod["spec"]).items():
                left[name] = left.get(name, Decimal(0)) - amount
    return left


def tolerates(tolerations: list[Json], taint: Json) -> bool:
    """Whether any toleration covers the taint."""
    for toleration in tolerations:
        if toleration.get("effect") not in (None, "", taint["effect"]):
            continue
        if toleration.get("operator", "Equal") == "Exists":
            if toleration.get("key") in (None, "", taint["key"]):
                return True
        elif toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""):
            return True
    return False


def affinity_matches(spec: Json, labels: dict[str, str]) -> bool:
    """NodeSelector and required node affinity."""
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = dig(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(
        all(queries.requirement_holds(e, labels) for e in term.get("matchExpressions", ()))
        and all(
            queries.requirement_holds(
                {**f, "key": "metadata.name"}, {"metadata.name": labels.get("kubernetes.io/hostname", "")}
            )
            for f in term.get("matchFields", ())
        )
        for term in required["nodeSelectorTerms"]
    )


def refusals(store: Store, pod: Json, node: Json) -> list[str]:
    """Why `pod` cannot go to `node`; empty if it can. Claims are not looked at."""
    spec = pod["spec"]
    if dig(node, "spec", "unschedulable"):
        return ["node(s) were unschedulable"]
    for taint in dig(node, "spec", "taints", default=()):
        if taint["effect"] != "PreferNoSchedule" and not tolerates(spec.get("tolerations", []), taint):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"]
    if not affinity_matches(spec, labels_of(node)):
        return ["node(s) didn't match Pod's node affinity/selector"]
    if _anti_affine(store, pod, node):
        return ["node(s) didn't match pod anti-affinity rules"]
    left = free(store, node)
    short = [name for name, amount in requests_of(spec).items() if amount > left.get(name, Decimal(0))]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(short)]


def _anti_affine(store: Store, pod: Json, node: Json) -> bool:
    terms = dig(
        pod, "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution", default=()
    )
    for term in terms:
        domain = labels_of(node).get(term["topologyKey"])
        for other in store.list(r.PODS, namespace_of(pod)):
            if other is pod or is_finished(other) or not dig(other, "spec", "nodeName"):
                continue
            if not queries.matches(term.get("labelSelector"), labels_of(other)):
                continue
            host = store.get(r.NODES, "", other["spec"]["nodeName"])
            if host is not None and labels_of(host).get(term["topologyKey"]) == domain:
                return True
    return False
