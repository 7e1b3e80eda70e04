"""DaemonSets: one pod on every node that it may run on."""

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers import fit, pods
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.objects import Json, dig, labels_of, name_of, namespace_of, terminating


class DaemonSets(Controller):
    """It binds its pods by name of the node. Taints of a node that is being ended do not keep them away."""

    watches = (r.DAEMON_SETS, r.NODES, r.PODS, r.SERVICE_ACCOUNTS)

    def reconcile(self) -> None:
        for daemon in self.store.list(r.DAEMON_SETS):
            if not terminating(daemon):
                self._sync(daemon)

    def _sync(self, daemon: Json) -> None:
        owned = pods.owned_pods(self.cluster, daemon)
        nodes = [node for node in self.store.list(r.NODES) if not terminating(node) and _wanted(daemon, node)]
        names = {name_of(node) for node in nodes}
        for node in nodes:
            if not any(dig(pod, "spec", "nodeName") == name_of(node) and pods.is_active(pod) for pod in owned):
                pods.create_pod(self.cluster, daemon, node=name_of(node))
        for pod in owned:
            if dig(pod, "spec", "nodeName") not in names and pods.is_active(pod):
                self.cluster.delete(r.PODS, namespace_of(pod), name_of(pod))
        ready = sum(pods.is_ready(pod) for pod in owned)
        status = {
            "currentNumberScheduled": len([p for p in owned if pods.is_active(p)]),
            "desiredNumberScheduled": len(nodes),
            "numberAvailable": ready,
            "numberMisscheduled": 0,
            "numberReady": ready,
            "observedGeneration": daemon["metadata"]["generation"],
            "updatedNumberScheduled": ready,
        }
        self.cluster.modify(r.DAEMON_SETS, daemon, lambda obj: obj.update(status=status))


def _wanted(daemon: Json, node: Json) -> bool:
    spec = daemon["spec"]["template"]["spec"]
    taints = dig(node, "spec", "taints", default=[])
    hard = [taint for taint in taints if taint["effect"] != "PreferNoSchedule"]
    return fit.affinity_matches(spec, labels_of(node)) and all(
        fit.tolerates(spec.get("tolerations", []), t) for t in hard
    )
