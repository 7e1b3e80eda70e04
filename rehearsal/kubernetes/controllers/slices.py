"""ResourceSlices: the Neuron devices of a trn2 node, as the Neuron DRA driver publishes them."""

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers import pods
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.faults import Faults
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.node.devices import DRIVER
from rehearsal.kubernetes.objects import Json, condition, dig, labels_of, name_of, owner_reference, terminating
from rehearsal.kubernetes.software.charts import DRA_DAEMON

DRIVER_VERSION = "2.29.0.0"
"""The Neuron kernel driver of the default AMI. Text of four numbers, so not semver (aws-neuron-sdk,
deploy/eks/dra.rst).
"""
_DEVICES = {"trn2.48xlarge": 16, "trn2.3xlarge": 1}


class Slices(Controller):
    """A node has a slice while the driver's pod on it is up. Its own kubelet takes it away, so that of a silent node
    stays (pkg/kubelet/cm/dra, wipeResourceSlices of DRAPluginManager).
    """

    watches = (r.NODES, r.PODS, r.SLICES)

    def __init__(self, cluster: Cluster, *, faults: Faults) -> None:
        super().__init__(cluster)
        self._faults = faults

    def reconcile(self) -> None:
        running = {
            dig(pod, "spec", "nodeName")
            for pod in self.store.list(r.PODS)
            if labels_of(pod).get("app.kubernetes.io/name") == DRA_DAEMON and pods.is_ready(pod)
        }
        published = {dig(s, "spec", "nodeName"): s for s in self.store.list(r.SLICES)}
        for node in self.store.list(r.NODES):
            kind = labels_of(node).get("node.kubernetes.io/instance-type", "")
            if (
                name_of(node) in running
                and name_of(node) not in published
                and kind in _DEVICES
                and not terminating(node)
            ):
                self.cluster.create(r.SLICES, _slice(node, kind, self._faults.devices_missing), manager=DRIVER)
        silent = {
            name_of(node)
            for node in self.store.list(r.NODES)
            if (condition(node, "Ready") or {}).get("status") == "Unknown"
        }
        for node_name, published_slice in published.items():
            if node_name not in running | silent and dig(published_slice, "spec", "driver") == DRIVER:
                self.cluster.delete(r.SLICES, "", name_of(published_slice))


def _slice(node: Json, kind: str, missing: int) -> Json:
    devices = [device(index, kind) for index in range(_DEVICES[kind] - missing)]
    pool = {"name": name_of(node), "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name_of(node)}-{DRIVER}", "ownerReferences": [owner_reference(node)]},
        "spec": {"driver": DRIVER, "nodeName": name_of(node), "pool": pool, "devices": devices},
    }


def device(index: int, kind: str) -> Json:
    """Device `index` of the 4x4 torus: groups of 1, 4, 8 and 16 that are wired together have an id in common."""
    groups = {f"resource.aws.com/devicegroup{size}_id": {"string": f"{size}-{index // size}"} for size in (1, 4, 8, 16)}
    layers = {f"networkNodeLayer{layer}": {"string": f"nn-rehearsal{layer}"} for layer in (1, 2, 3)}
    attributes: Json = {
        "deviceId": {"int": index},
        "instanceType": {"string": kind},
        "neuronDriverVersion": {"string": DRIVER_VERSION},
        "draDriverVersion": {"version": "1.2.0"},
        "resourceType": {"string": "neuron_device"},
        "topology_x": {"int": index % 4},
        "topology_y": {"int": index // 4},
        "topology4_id": {"int": index // 4},
        "topology8_id": {"int": index // 8},
        **layers,
        **groups,
    }
    return {"name": f"neuron-device-{index}", "attributes": attributes}
