"""PodDisruptionBudgets: they decide whether a pod may be evicted."""

from rehearsal.kubernetes import queries
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.objects import Json, is_true, labels_of, name_of, namespace_of, terminating


def blocking(store: Store, pod: Json) -> str | None:
    """Name of a budget that forbids evicting `pod` now, or None."""
    for budget in store.list(r.DISRUPTION_BUDGETS, namespace_of(pod)):
        selector = budget["spec"].get("selector")
        if not queries.matches(selector, labels_of(pod)):
            continue
        chosen = [p for p in store.list(r.PODS, namespace_of(pod)) if queries.matches(selector, labels_of(p))]
        healthy = [p for p in chosen if is_true(p, "Ready") and not terminating(p)]
        if len(healthy) - 1 < _must_stay(budget["spec"], len(healthy)):
            return name_of(budget)
    return None


def _must_stay(spec: Json, total: int) -> int:
    """How many of `total` pods must stay, by a budget."""
    kind = "minAvailable" if "minAvailable" in spec else "maxUnavailable"
    value = spec.get(kind, 1)
    count = -(-total * int(value[:-1]) // 100) if isinstance(value, str) and value.endswith("%") else int(value)
    return count if kind == "minAvailable" else total - count
