"""NodeClaims: launch, registration, initialization, end; and what happens without capacity."""

import time

from rehearsal.kubernetes import nodes
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.faults import Faults
from rehearsal.kubernetes.karpenter import names
from rehearsal.kubernetes.karpenter.cloud import Cloud, Ec2Instance, InsufficientCapacity
from rehearsal.kubernetes.karpenter.ec2 import LaunchRefused
from rehearsal.kubernetes.karpenter.shapes import ephemeral_storage, labels_of_type
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.node.loopback import PodNetwork
from rehearsal.kubernetes.objects import (
    Json,
    dig,
    is_true,
    labels_of,
    name_of,
    owner_reference,
    parse_time,
    set_condition,
    terminating,
    uid_of,
)
from rehearsal.kubernetes.software.installed import Installed

CSI_TAINT = "s3.csi.aws.com/agent-not-ready"
_REGISTRATION_TIMEOUT = 900.0
_LAUNCH_RETRY = 5.0


class NodeClaims(Controller):
    """`delay` is the time from a NodeClaim to its Node, in seconds."""

    watches = (r.NODE_CLAIMS, r.NODES, r.NODE_CLASSES, r.DEPLOYMENTS)

    def __init__(
        self, cluster: Cluster, *, installed: Installed, cloud: Cloud, faults: Faults, network: PodNetwork, delay: float
    ) -> None:
        super().__init__(cluster)
        self._installed = installed
        self._cloud = cloud
        self._faults = faults
        self._network = network
        self._delay = delay
        self._born: dict[str, float] = {}
        installed.subscribe(self.wake)

    @property
    def delay(self) -> float:
        return self._delay if self._faults.node_delay is None else self._faults.node_delay

    def reconcile(self) -> None:
        if not self._installed.karpenter_runs():
            return
        for claim in self.store.list(r.NODE_CLAIMS):
            if self._cloud.has_ended(dig(claim, "status", "providerID", default="")):
                self._collect(claim)
            elif terminating(claim):
                self._finish(claim)
            elif not is_true(claim, "Launched"):
                self._launch(claim)
            elif not is_true(claim, "Registered"):
                self._register(claim)
            else:
                self._initialize(claim)

    def _collect(self, claim: Json) -> None:
        """The instance is gone: remove its node and delete the claim."""
        node = dig(claim, "status", "nodeName", default="")
        if self.store.get(r.NODES, "", node) is not None:
            self.store.remove(r.NODES, "", node)
        if terminating(claim):
            self._finish(claim)
        else:
            self.cluster.delete(r.NODE_CLAIMS, "", name_of(claim))

    def _condition(self, claim: Json, kind: str, state: str, *, reason: str, message: str) -> None:
        def change(obj: Json) -> None:
            status = obj.setdefault("status", {})
            status["conditions"] = set_condition(
                status.get("conditions", []), kind, state, reason=reason, message=message
            )

        self.cluster.modify(r.NODE_CLAIMS, claim, change)

    def _age(self, claim: Json) -> float:
        """Seconds since the claim was first seen. Timestamps have whole seconds; this is exact."""
        return time.monotonic() - self._born.setdefault(uid_of(claim), time.monotonic())

    def _launch(self, claim: Json) -> None:
        left = min(self.delay * 0.3, 60.0) - self._age(claim)
        if left > 0:
            self.wake_in(left)
            return
        node_class = self.store.get(r.NODE_CLASSES, "", claim["spec"]["nodeClassRef"]["name"])
        if node_class is None:
            self._give_up(claim, "NodeClassNotReady", "node class not found")
            return
        try:
            instance = self._cloud.launch(claim, node_class, has_price=self._priced())
        except InsufficientCapacity as problem:
            self._give_up(claim, "InsufficientCapacityError", str(problem))
            return
        except LaunchRefused as problem:
            self._condition(claim, "Launched", "Unknown", reason="LaunchFailed", message=str(problem))
            self.wake_in(_LAUNCH_RETRY)
            return
        if instance is None:
            return
        self._launched(claim, instance)

    def _give_up(self, claim: Json, reason: str, why: str) -> None:
        """Delete the claim, with an Event that says why. Its pool makes another."""
        message = f"NodeClaim {name_of(claim)} event: {why}"
        self.cluster.event(claim, "Warning", reason, message, component=names.COMPONENT)
        self.cluster.delete(r.NODE_CLAIMS, "", name_of(claim))

    def _launched(self, claim: Json, instance: Ec2Instance) -> None:
        """Write the launched instance into the claim."""
        labels = {
            **labels_of_type(instance.instance_type),
            names.CAPACITY_TYPE: instance.capacity_type,
            names.ZONE: instance.zone,
        }
        self.cluster.modify(
            r.NODE_CLAIMS,
            claim,
            lambda obj: obj["metadata"].update(labels={**labels, **labels_of(obj)}),
            subresource="",
        )

        def launched(obj: Json) -> None:
            status = obj.setdefault("status", {})
            status |= {
                "providerID": instance.provider_id,
                "imageID": "ami-rehearsal",
                "allocatable": nodes.allocatable(instance.instance_type),
                "capacity": nodes.capacity(instance.instance_type),
            }
            conditions = set_condition(status.get("conditions", []), "Launched", "True", reason="Launched")
            status["conditions"] = set_condition(
                conditions, "Registered", "Unknown", reason="NodeNotFound", message="Node not registered with cluster"
            )

        self.cluster.modify(r.NODE_CLAIMS, claim, launched)

    def _priced(self) -> bool:
        return self._installed.gate("nodeOverlay") and any(
            "price" in o["spec"] for o in self.store.list(r.NODE_OVERLAYS)
        )

    def _register(self, claim: Json) -> None:
        age = self._age(claim)
        if self._faults.node_never_ready:
            if age > _REGISTRATION_TIMEOUT:
                self.cluster.delete(r.NODE_CLAIMS, "", name_of(claim))
            else:
                self.wake_in(_REGISTRATION_TIMEOUT - age)
            return
        if age < self.delay:
            self.wake_in(self.delay - age)
            return
        instance = self._cloud.instances[claim["status"]["providerID"].rsplit("/", 1)[-1]]
        node = self._node(claim, instance)
        self.store.create(r.NODES, node)
        name = name_of(node)

        def registered(obj: Json) -> None:
            obj["status"]["nodeName"] = name
            obj["status"]["conditions"] = set_condition(
                obj["status"]["conditions"], "Registered", "True", reason="Registered"
            )

        self.cluster.modify(r.NODE_CLAIMS, claim, registered)

    def _node(self, claim: Json, instance: Ec2Instance) -> Json:
        spec = claim["spec"]
        host = self._network.next_address()
        taints = [*spec.get("taints", ()), *spec.get("startupTaints", ())]
        node_class = self.store.get(r.NODE_CLASSES, "", spec["nodeClassRef"]["name"])
        node = nodes.build(
            name=f"ip-{host.replace('.', '-')}.{instance.zone[:-1]}.compute.internal",
            instance_type=instance.instance_type,
            zone=instance.zone,
            address=host,
            labels=labels_of(claim) | {"karpenter.sh/registered": "true"},
            taints=taints,
            ephemeral=ephemeral_storage(node_class, instance.instance_type),
            provider_id=instance.provider_id,
        )
        node["metadata"]["finalizers"] = [names.FINALIZER]
        node["metadata"]["ownerReferences"] = [owner_reference(claim, controller=False)]
        return node

    def _initialize(self, claim: Json) -> None:
        node = self.store.get(r.NODES, "", claim["status"]["nodeName"])
        if node is None:
            if not terminating(claim):
                self.cluster.delete(r.NODE_CLAIMS, "", name_of(claim))
            return
        startup = {taint["key"] for taint in claim["spec"].get("startupTaints", ())}
        present = {taint["key"] for taint in dig(node, "spec", "taints", default=())}
        if CSI_TAINT in present and self._installed.csi_driver is not None:
            kept = [taint for taint in node["spec"]["taints"] if taint["key"] != CSI_TAINT]
            self.cluster.modify(r.NODES, node, lambda obj: obj["spec"].update(taints=kept), subresource="")
            return
        if is_true(claim, "Initialized") or startup & present:
            return

        def ready(obj: Json) -> None:
            conditions = obj["status"]["conditions"]
            for kind in ("Initialized", "Ready"):
                conditions = set_condition(conditions, kind, "True", reason=kind)
            obj["status"]["conditions"] = conditions

        self.cluster.modify(r.NODE_CLAIMS, claim, ready)

    def _finish(self, claim: Json) -> None:
        """End a deleted claim: wait until its node is drained and gone, end the instance, remove the claim."""
        provider = dig(claim, "status", "providerID")
        node = self.store.get(r.NODES, "", dig(claim, "status", "nodeName", default=""))
        period = claim["spec"].get("terminationGracePeriod")
        if period and names.TERMINATION_TIME not in (claim["metadata"].get("annotations") or {}):
            due = parse_time(claim["metadata"]["deletionTimestamp"]) + names.seconds(period)
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(due))
            self.cluster.modify(
                r.NODE_CLAIMS,
                claim,
                lambda obj: obj["metadata"].setdefault("annotations", {}).update({names.TERMINATION_TIME: stamp}),
                subresource="",
            )
            return
        if node is not None:
            if not terminating(node):
                self.cluster.delete(r.NODES, "", name_of(node))
            return
        if not self._cloud.give_up(claim):
            return
        if provider:
            self._cloud.terminate(provider)
        self._born.pop(uid_of(claim), None)

        def release(obj: Json) -> None:
            obj["metadata"]["finalizers"] = [f for f in obj["metadata"].get("finalizers", ()) if f != names.FINALIZER]

        self.cluster.modify(r.NODE_CLAIMS, claim, release, subresource="")
