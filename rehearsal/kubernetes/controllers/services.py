"""Services: their cluster IP, and the Endpoints behind it."""

from rehearsal.kubernetes import admission, errors, queries
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers import pods
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.node.loopback import PodNetwork
from rehearsal.kubernetes.objects import Json, dig, labels_of, name_of, namespace_of, owner_reference, terminating


def address_services(network: PodNetwork) -> admission.Hook:
    """Give each new Service an address of the double's network. Its pod will have the same address."""

    def assign(store: Store, resource: r.Resource, obj: Json) -> None:
        if resource is not r.SERVICES:
            return
        asked = {obj["spec"].get("clusterIP", ""), *obj["spec"].get("clusterIPs", ())} - {""}
        if asked == {"None"}:
            return
        if asked:
            why = errors.unsupported("spec.clusterIP", "a Service that asks for an address")
            raise errors.invalid(resource, name_of(obj), [why])
        obj["spec"]["clusterIP"] = network.next_address()
        obj["spec"]["clusterIPs"] = [obj["spec"]["clusterIP"]]

    return assign


def service_address(store: Store, pod: Json) -> str | None:
    """The cluster IP of a Service that selects `pod`, if no other pod has this address now."""
    taken = {dig(p, "status", "podIP") for p in store.list(r.PODS) if not pods.is_finished(p)}
    for service in store.list(r.SERVICES, namespace_of(pod)):
        address = service["spec"].get("clusterIP")
        if address not in (None, "None", *taken) and queries.matches(
            {"matchLabels": service["spec"]["selector"]}, labels_of(pod)
        ):
            return str(address)
    return None


class Endpoints(Controller):
    """Keeps the Endpoints object of each Service. If a Service selects a second pod, that pod is not reachable through
    it, and an Event says so.
    """

    watches = (r.SERVICES, r.PODS)

    def reconcile(self) -> None:
        for service in self.store.list(r.SERVICES):
            if not terminating(service):
                self._sync(service)

    def _sync(self, service: Json) -> None:
        namespace, name = namespace_of(service), name_of(service)
        selector = {"matchLabels": service["spec"].get("selector") or {}}
        chosen = [
            pod
            for pod in self.store.list(r.PODS, namespace)
            if dig(pod, "status", "podIP") and pods.is_active(pod) and queries.matches(selector, labels_of(pod))
        ]
        reachable = [pod for pod in chosen if pod["status"]["podIP"] == service["spec"].get("clusterIP")]
        for pod in chosen:
            if pod not in reachable and service["spec"].get("clusterIP") != "None":
                message = (
                    f"pod {name_of(pod)} is not behind this Service: here a Service's address is that of its only pod"
                )
                self.cluster.event(service, "Warning", "NotRoutable", message, component="endpoints-controller")
        ready = [_address(pod) for pod in reachable if pods.is_ready(pod)]
        unready = [_address(pod) for pod in reachable if not pods.is_ready(pod)]
        ports = [
            {"port": p["port"], "protocol": p["protocol"]} | ({"name": p["name"]} if "name" in p else {})
            for p in service["spec"]["ports"]
        ]
        subset: Json = {"ports": ports}
        if ready:
            subset["addresses"] = ready
        if unready:
            subset["notReadyAddresses"] = unready
        wanted = {"subsets": [subset]} if ready or unready else {}
        current = self.store.get(r.ENDPOINTS, namespace, name)
        head = {"apiVersion": "v1", "kind": "Endpoints"}
        if current is None:
            metadata = {"name": name, "namespace": namespace, "ownerReferences": [owner_reference(service)]}
            self.cluster.create(r.ENDPOINTS, {**head, "metadata": metadata, **wanted})
        elif current.get("subsets") != wanted.get("subsets"):
            self.cluster.update(r.ENDPOINTS, {**head, "metadata": current["metadata"], **wanted}, record=False)


def _address(pod: Json) -> Json:
    target = {"kind": "Pod", "name": name_of(pod), "namespace": namespace_of(pod), "uid": pod["metadata"]["uid"]}
    return {"ip": pod["status"]["podIP"], "nodeName": pod["spec"]["nodeName"], "targetRef": target}
