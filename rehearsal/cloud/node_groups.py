"""Changes of the size of EKS managed node groups: instances of the emulator's EC2, and nodes of the double.

The emulator has no UpdateNodegroupConfig and launches nothing for a group. Here a group that was changed once is kept
at its size. Missing instances are launched and join after a while. If somebody ended an instance, its node leaves.
"""

import contextvars
import json
import logging
import re
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from ministack.services import ec2, eks

from rehearsal.cloud.kubernetes import Kubernetes

logger = logging.getLogger(__name__)
ROUTE = re.compile(r"/clusters/([A-Za-z0-9_-]+)/node-groups/([A-Za-z0-9_-]+)/update-config")
ARN = re.compile(r"/clusters/([A-Za-z0-9_-]+)/node-groups/([A-Za-z0-9_-]+)(?:/update-config)?")
CHANGE_S, JOIN_S, POLL_S = 1.0, 2.0, 0.2
"""Seconds that a change takes, that a node takes to join (minutes on AWS), and between two looks at the instances."""
Answer = tuple[int, dict[str, str], bytes]
Handle = Callable[..., Awaitable[Answer]]


def scaling(kubernetes: Kubernetes, handle: Handle) -> Handle:
    """Wrap the emulator's dispatch of EKS: answer UpdateNodegroupConfig, as strictly as EKS does."""
    groups = NodeGroups(kubernetes)

    async def handle_request(method: str, path: str, headers: Any, body: bytes, query: Any) -> Answer:
        found = ROUTE.fullmatch(path)
        if found is None or method != "POST":
            return await handle(method, path, headers, body, query)
        return groups.update(found[1], found[2], json.loads(body or b"{}"))

    return handle_request


def node_group_arn(resource: Callable[..., str]) -> Callable[..., str]:
    """Wrap the emulator's choice of a request's resource: it is the node group, not its cluster."""

    def extract_resource_arn(service: str, method: str, path: str, *arguments: Any, **named: Any) -> str:
        found = ARN.fullmatch(path) if service == "eks" else None
        group = eks._nodegroups.get(f"{found[1]}/{found[2]}") if found else None
        return str(group["nodegroupArn"]) if group else resource(service, method, path, *arguments, **named)

    return extract_resource_arn


class NodeGroups:
    """Keeps each changed group at its size, in a thread for each group."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self._kubernetes = kubernetes
        self._kept: set[str] = set()

    def update(self, cluster: str, name: str, body: dict[str, Any]) -> Answer:
        """Scale a group. Errors 404, 409 and 400 are AWS's (eks/latest/APIReference/API_UpdateNodegroupConfig.html)."""
        key = f"{cluster}/{name}"
        group = eks._nodegroups.get(key)
        if group is None:
            return _error(404, "ResourceNotFoundException", f"No node group found for name: {name}.")
        if group["status"] != "ACTIVE":
            return _error(409, "ResourceInUseException", f"Nodegroup {name} is being updated: {group['status']}")
        size = group["scalingConfig"] | body.get("scalingConfig", {})
        if not 0 <= size["minSize"] <= size["desiredSize"] <= size["maxSize"] or not size["maxSize"]:
            return _error(400, "InvalidParameterException", f"desired capacity must be between min and max: {size}")
        group |= {"scalingConfig": size, "status": "UPDATING"}
        context = contextvars.copy_context()  # the emulator's account and region are in it
        threading.Timer(CHANGE_S, lambda: group.update(status="ACTIVE")).start()
        if key not in self._kept:
            self._kept.add(key)
            threading.Thread(target=context.run, args=(self._keep, cluster, group), daemon=True).start()
        update = {
            "id": str(uuid.uuid4()),
            "status": "InProgress",
            "type": "ConfigUpdate",
            "params": [{"type": "DesiredSize", "value": str(size["desiredSize"])}],
            "createdAt": time.time(),
            "errors": [],
        }
        return 200, {"Content-Type": "application/json"}, json.dumps({"update": update}).encode()

    def _keep(self, cluster: str, group: dict[str, Any]) -> None:
        nodes: dict[str, str] = {}
        """Instance id -> name of its node."""
        while True:
            time.sleep(POLL_S)
            try:
                self._look(cluster, group, nodes)
            except Exception:
                logger.exception("the node group %s cannot be kept", group["nodegroupName"])

    def _look(self, cluster: str, group: dict[str, Any], nodes: dict[str, str]) -> None:
        alive = [name for name, item in ec2._instances.items() if self._is_of(cluster, group, name) and _lives(item)]
        for name in set(nodes) - set(alive):
            self._kubernetes.request("POST", "/_rehearsal/leave", {"node": nodes.pop(name)})
        wanted = group["scalingConfig"]["desiredSize"]
        for name in alive[wanted:]:
            ec2._terminate_instances({"InstanceId.1": [name]})
        for _ in range(wanted - len(alive)):
            kind = group["instanceTypes"][0]
            (made,) = ec2._launch_instances_internal("ami-00000000", kind, ec2._DEFAULT_SUBNET_ID, 1)
            tags = {"eks:cluster-name": cluster, "eks:nodegroup-name": group["nodegroupName"]}
            ec2._tags[made["InstanceId"]] = [{"Key": key, "Value": value} for key, value in tags.items()]
            time.sleep(JOIN_S)
            joined = {
                "instance_id": made["InstanceId"],
                "instance_type": kind,
                "labels": {**group["labels"], "eks.amazonaws.com/nodegroup": group["nodegroupName"]},
                "taints": [{**item, "effect": EFFECTS[item["effect"]]} for item in group["taints"]],
                "ephemeral": f"{group['diskSize']}Gi",
            }
            nodes[made["InstanceId"]] = self._kubernetes.request("POST", "/_rehearsal/join", joined)["node"]

    @staticmethod
    def _is_of(cluster: str, group: dict[str, Any], instance: str) -> bool:
        tags = {tag["Key"]: tag["Value"] for tag in ec2._tags.get(instance, [])}
        return (tags.get("eks:cluster-name"), tags.get("eks:nodegroup-name")) == (cluster, group["nodegroupName"])


EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


def _lives(instance: dict[str, Any]) -> bool:
    return instance["State"]["Name"] in ("pending", "running")


def _error(status: int, code: str, message: str) -> Answer:
    body = json.dumps({"__type": code, "message": message}).encode()
    return status, {"Content-Type": "application/json", "x-amzn-errortype": code}, body
