"""TrainiumClusterStack: the network, the cluster, and everything that can bring up a trn2 node."""

from constructs import Construct

from constructs_lib.addons import Addons
from constructs_lib.cluster import Cluster, node_role
from constructs_lib.interruption import InterruptionQueue
from constructs_lib.karpenter import Karpenter
from constructs_lib.network import Network
from constructs_lib.neuron_dra import NeuronDra
from constructs_lib.node_access import NodeAccess
from constructs_lib.observability import Observability
from constructs_lib.settings import Settings
from constructs_lib.staging import StagingCapacity
from constructs_lib.trainium import TrainiumCapacity
from stacks.base import ProjectStack


class TrainiumClusterStack(ProjectStack):
    """Costs what it costs whether used or not: two system nodes, the control plane, NAT. No trn2 node."""

    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        super().__init__(scope, id, settings=settings, description="EKS with Karpenter for trn2.48xlarge")
        self.vpc = Network(self, "Network", settings=settings).vpc
        core = Cluster(self, "Eks", vpc=self.vpc, settings=settings)
        self.cluster = core.cluster
        addons = Addons(self, "Addons", cluster=self.cluster, system_nodes=core.system_nodes, settings=settings)
        ready = (core.system_nodes, addons.coredns)
        Observability(self, "Observability", cluster=self.cluster, needs=ready, settings=settings)

        role = node_role(self, "NodeRole")
        access = NodeAccess(self, "NodeAccess", cluster=self.cluster, role=role)
        interruption = InterruptionQueue(self, "Interruption", queue_name=settings.cluster_name)
        karpenter = Karpenter(
            self,
            "Karpenter",
            cluster=self.cluster,
            node_role=role,
            queue=interruption.queue,
            needs=[*ready, access, interruption, self.vpc],
            settings=settings,
        )
        driver = NeuronDra(self, "NeuronDra", cluster=self.cluster, needs=ready)
        capacity = {"cluster": self.cluster, "vpc": self.vpc, "node_role": role, "settings": settings}
        TrainiumCapacity(self, "Trainium", needs=(karpenter.chart, driver.chart), **capacity)
        StagingCapacity(self, "Staging", needs=(karpenter.chart,), **capacity)
