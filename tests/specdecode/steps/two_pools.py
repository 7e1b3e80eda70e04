"""A deployment's NodePool with devices and one without: the world in which presets of all shapes can run."""

from dataclasses import dataclass

from specdecode import names
from specdecode.kubernetes.resources import KubeObject

from tests.specdecode.steps.world import World, made_ready

CPU = names.CPU_NODEPOOL


@dataclass
class TwoPools(World):
    """A world in which Karpenter has the pool of a CPU node too, and makes its node."""

    ordinary: str = CPU

    def __post_init__(self) -> None:
        super().__post_init__()
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "cpu"}
        spec = {"replicas": 0, "template": {"spec": {"nodeClassRef": reference}}}
        self.cluster.put(made_ready({"kind": "EC2NodeClass", "metadata": {"name": "cpu"}, "spec": {}}))
        self.cluster.put(made_ready({"kind": "NodePool", "metadata": {"name": self.ordinary}, "spec": spec}))

    @property
    def held(self) -> dict[str, int]:
        return {obj["metadata"]["name"]: obj["spec"]["replicas"] for obj in self.cluster.all("NodePool")}

    def _node(self) -> None:
        super()._node()
        if self.held[self.ordinary]:
            labels = {"karpenter.sh/nodepool": self.ordinary}
            self.cluster.put(made_ready({"kind": "Node", "metadata": {"name": "cpu-node", "labels": labels}}))
        else:
            self.cluster.remove("Node", "cpu-node")

    def _pod(self, owner: KubeObject, *, ready: bool) -> KubeObject:
        pod = super()._pod(owner, ready=ready)
        if self.held[self.ordinary] and pod["spec"]:
            pod["spec"]["nodeName"] = "cpu-node"
        return pod
