"""The status of quotas: what they allow, and what is used."""

from rehearsal.kubernetes import quotas
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.etcd import Change
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json, namespace_of


class Quotas(Controller):
    """Looks again after every change in a namespace that has a quota."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.store.subscribe(self._on_any_change)

    def _on_any_change(self, change: Change) -> None:
        if change.resource is not r.EVENTS and self.store.list(r.QUOTAS, namespace_of(change.object) or "-"):
            self.wake()

    def reconcile(self) -> None:
        for quota in self.store.list(r.QUOTAS):
            namespace, hard = namespace_of(quota), quota["spec"].get("hard") or {}
            total: dict[str, int] = {}
            for resource in self.store.resources():
                if resource.namespaced and resource is not r.EVENTS:
                    total |= quotas.used_of(self.store, resource, namespace)
            used = {key: str(total.get(key, 0)) for key in hard}

            def report(obj: Json, hard: Json = hard, used: Json = used) -> None:
                obj["status"] = {"hard": hard, "used": used}

            self.cluster.modify(r.QUOTAS, quota, report)
