"""Namespaces: the default ServiceAccount and the cluster's certificate for a new one, the end of a deleted one."""

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.etcd import Change
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json, name_of, namespace_of, terminating

_ROOT_CA = "kube-root-ca.crt"


class Namespaces(Controller):
    """It acts on every change of a namespace. While a namespace is terminating, it also acts when objects go."""

    watches = (r.NAMESPACES, r.SERVICE_ACCOUNTS, r.CONFIG_MAPS)

    def __init__(self, cluster: Cluster, *, certificate: str) -> None:
        super().__init__(cluster)
        self._certificate = certificate
        self._ending: set[str] = set()
        self.store.subscribe(self._on_removal)

    def _on_removal(self, change: Change) -> None:
        if change.type == "DELETED" and namespace_of(change.object) in self._ending:
            self.wake()

    def reconcile(self) -> None:
        for namespace in self.store.list(r.NAMESPACES):
            name = name_of(namespace)
            if terminating(namespace):
                self._ending.add(name)
                self._empty(namespace)
                continue
            if self.store.get(r.SERVICE_ACCOUNTS, name, "default") is None:
                self.cluster.create(r.SERVICE_ACCOUNTS, service_account(name))
            if self.store.get(r.CONFIG_MAPS, name, _ROOT_CA) is None:
                self.cluster.create(r.CONFIG_MAPS, _root_ca(name, self._certificate))
            if "status" not in namespace:
                self.cluster.modify(r.NAMESPACES, namespace, lambda obj: obj.update(status={"phase": "Active"}))

    def _empty(self, namespace: Json) -> None:
        name, left = name_of(namespace), 0
        for resource in self.store.resources():
            for obj in self.store.list(resource, name) if resource.namespaced else ():
                if resource is r.EVENTS:
                    self.store.remove(resource, name, name_of(obj))
                    continue
                left += 1
                if not terminating(obj):
                    background = {"propagationPolicy": "Background"}
                    self.cluster.delete(resource, name, name_of(obj), background)
        if left and any(resource.namespaced and self.store.list(resource, name) for resource in self.store.resources()):
            return
        self._ending.discard(name)
        self.cluster.finalize_namespace(name)


def service_account(namespace: str) -> Json:
    metadata = {"name": "default", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _root_ca(namespace: str, certificate: str) -> Json:
    metadata = {"name": _ROOT_CA, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": certificate}}
