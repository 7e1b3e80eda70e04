"""A made-up node: tainted, with the heartbeat of a kubelet and the devices of a driver. So the scheduler can be tested
without an accelerator.
"""

import datetime
from typing import Any

from tests.conformance.server import Json, Server, made_up_name

TAINT = {"key": "specdecode.example.com/conformance", "value": "fake", "effect": "NoSchedule"}
TOLERATION = {"key": TAINT["key"], "operator": "Exists"}
DRIVER = "conformance.example.com"
RESOURCES = "/apis/resource.k8s.io/v1"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def make_node(server: Server) -> str:
    """Make the node. Returns its name once it is Ready for the scheduler."""
    name = made_up_name()
    labels = {"specdecode.example.com/fake": name, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [TAINT]},
    }
    server.make("/api/v1/nodes", body)
    moment = datetime.datetime.now(datetime.UTC)
    lease = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"}
    server.make(_LEASES, {"metadata": {"name": name}, "spec": lease})
    amounts = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "20Gi", "pods": "20"}
    since = {"lastHeartbeatTime": f"{moment:%Y-%m-%dT%H:%M:%SZ}", "lastTransitionTime": f"{moment:%Y-%m-%dT%H:%M:%SZ}"}
    ready = {"type": "Ready", "status": "True", "reason": "Fake", "message": "", **since}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    patch = {"Content_Type": "application/merge-patch+json"}
    server.ok("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, **patch)
    server.wait(lambda: _taints(server, name) == [TAINT["key"]])
    return name


def _taints(server: Server, name: str) -> list[str]:
    spec: dict[str, Any] = server.ok("GET", f"/api/v1/nodes/{name}").get("spec") or {}
    return [taint["key"] for taint in spec.get("taints", ())]


def make_devices(server: Server, node: str, groups: list[int]) -> None:
    """One device for each number: those with the same one are wired together."""
    devices: list[Json] = [
        {"name": f"device-{index}", "attributes": {"group": {"string": f"g{group}"}}}
        for index, group in enumerate(groups)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    server.make(f"{RESOURCES}/resourceslices", {"metadata": {"name": node}, "spec": spec})
    expression = f"device.driver == '{DRIVER}'"
    body = {"metadata": {"name": node}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    server.make(f"{RESOURCES}/deviceclasses", body)


def claim_template(node: str, count: int) -> Json:
    exactly = {"deviceClassName": node, "allocationMode": "ExactCount", "count": count}
    request = {"name": "devices", "exactly": exactly}
    group = {"requests": ["devices"], "matchAttribute": f"{DRIVER}/group"}
    return {
        "metadata": {"name": "devices"},
        "spec": {"spec": {"devices": {"requests": [request], "constraints": [group]}}},
    }


def pod_spec(node: str = "", **extra: Any) -> Json:
    """A pod for that node only; without a name, for no node."""
    container = {"name": "main", "image": "example.com/image:1", "command": ["/bin/true"], **extra.pop("container", {})}
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"specdecode.example.com/fake": node or "none"},
        "tolerations": [TOLERATION],
        "containers": [container],
        **extra,
    }
