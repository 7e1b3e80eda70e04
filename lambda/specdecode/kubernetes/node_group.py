"""A managed node group of EKS, of one node, that is scaled for a run (ADR 194)."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from specdecode import names
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.pools import Missing, NodePools, PoolBusy, Pools, missing_of
from specdecode.kubernetes.resources import KubeObject

LABEL = "eks.amazonaws.com/nodegroup"
"""Label on its nodes (eks/latest/userguide/managed-node-groups.html)."""
BILLED = ("pending", "running", "stopping", "shutting-down")
BUSY = ("ResourceInUseException", "InvalidRequestException")
"""Errors of UpdateNodegroupConfig while another update changes the group."""
TRIES, PAUSE_S = 4, 5.0
"""A change takes seconds: a release after another change need not be repeated from outside."""

Client = Callable[[str], Any]


class NodeGroup:
    """A node group of one node, in the slot of nodes with devices. Nodes without devices are simply there."""

    def __init__(
        self,
        kube: Kubernetes,
        *,
        cluster: str,
        group: str,
        clients: Client,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.kube = kube
        self._named = {"clusterName": cluster, "nodegroupName": group}
        self._clients = clients
        self._sleep = sleep

    def name(self, slot: str) -> str:
        return self._named["nodegroupName"] if self.brings(slot) else slot

    def slot_of(self, obj: KubeObject) -> str | None:
        return names.NODEPOOL

    def brings(self, slot: str) -> bool:
        return slot == names.NODEPOOL

    def replicas(self, slot: str) -> int | None:
        found = self.described() if self.brings(slot) else None
        return None if found is None else int(found["scalingConfig"]["desiredSize"])

    def described(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._clients("eks").describe_nodegroup(**self._named)["nodegroup"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            return None
        return found

    def scale(self, slot: str, replicas: int) -> None:
        """Set the size, which the group's Auto Scaling group follows by itself; it drains a node for some minutes."""
        for attempt in range(TRIES):
            try:
                size = {"desiredSize": replicas}
                self._clients("eks").update_nodegroup_config(**self._named, scalingConfig=size)
            except ClientError as error:
                if error.response["Error"]["Code"] not in BUSY:
                    raise
                if attempt == TRIES - 1:
                    raise PoolBusy(f"EKS does not change {self.name(slot)} now: {error}") from None
                self._sleep(PAUSE_S)
            else:
                return

    def nodes(self, slot: str | None = None) -> list[KubeObject]:
        if slot is not None and not self.brings(slot):
            return []
        return self.kube.list("Node", selector=f"{LABEL}={self._named['nodegroupName']}")

    def billed(self) -> Counter[str]:
        return Counter({names.NODEPOOL: len(self.instances())})

    def launched(self, slot: str) -> bool:
        return self.billed()[slot] > 0

    def instances(self) -> list[str]:
        values = dict(zip(names.GROUP_TAGS, self._named.values(), strict=True))
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in values.items()]
        filters.append({"Name": "instance-state-name", "Values": list(BILLED)})
        pages = self._clients("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        return [
            f"Instance/{item['InstanceId']}"
            for page in pages
            for group in page["Reservations"]
            for item in group["Instances"]
        ]

    def scaled(self) -> list[str]:
        return [names.NODEPOOL] if self.replicas(names.NODEPOOL) else []

    def missing(self, slot: str, *, nodes: list[KubeObject], since: datetime, now: datetime) -> Missing:
        found, group = self.described(), self.name(slot)
        if found is None:
            return Missing(f"there is no node group {group} any more", is_final=True)
        issues = found.get("health", {}).get("issues") or []
        if issues:
            told = "; ".join(f"{item.get('code')}: {item.get('message')}" for item in issues)
            return Missing(f"EKS says of the node group {group}: {told}")
        there = ", ".join(self.instances()) or "no instance yet"
        return Missing(missing_of(nodes) or f"the node group {group} is {found['status']}: {there}")


def pools_of(kube: Kubernetes, environ: Mapping[str, str], clients: Client) -> Pools:
    """The node source of the cluster that a function's environment names."""
    rights = environ.get(names.RIGHTS_VARIABLE)
    if rights == names.GROUP_RIGHTS:
        return NodeGroup(kube, cluster=environ["CLUSTER_NAME"], group=environ[names.GROUP_VARIABLE], clients=clients)
    return NodePools(kube, foreign=rights == names.POOL_RIGHTS)
