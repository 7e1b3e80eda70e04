"""The installed software and its settings."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json, dig, terminating

GATES = {"staticCapacity": False, "reservedCapacity": True, "nodeOverlay": False}
"""Karpenter's feature gates with the chart's defaults (v1.14)."""


@dataclass
class CsiDriver:
    """The Mountpoint for S3 CSI driver. `authenticationSource: driver` uses `role_arn`."""

    role_arn: str


@dataclass
class Installed:
    """The cluster's software. Controllers that depend on it subscribe to changes."""

    cluster: Cluster
    karpenter: Json | None = None
    karpenter_namespace: str = ""
    dra_driver: bool = False
    device_plugin: bool = False
    csi_driver: CsiDriver | None = None
    logs_role: str | None = None
    """Role with which container logs are sent to CloudWatch. None if nothing sends them."""
    _subscribers: list[Callable[[], None]] = field(default_factory=list)

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        self._subscribers.append(subscriber)

    def changed(self) -> None:
        for subscriber in self._subscribers:
            subscriber()

    def gate(self, name: str) -> bool:
        """A feature gate of the installed Karpenter. The chart's values may be booleans or text."""
        value: Any = dig(self.karpenter, "settings", "featureGates", name)
        if value is None:
            return GATES[name]
        return str(value).lower() == "true"

    def karpenter_runs(self) -> bool:
        """Whether Karpenter acts: its chart is installed with the CRDs, and one of its pods is up."""
        if self.karpenter is None or self.cluster.registry.of_kind("karpenter.sh/v1", "NodePool") is None:
            return False
        deployment = self.cluster.store.get(r.DEPLOYMENTS, self.karpenter_namespace, "karpenter")
        if deployment is None or terminating(deployment):
            return False
        return bool(dig(deployment, "status", "availableReplicas", default=0))
