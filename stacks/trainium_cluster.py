"""TrainiumClusterStack: the network, the cluster, and everything that can launch a trn2 node."""

from collections.abc import Mapping

from constructs import Construct
from specdecode import names
from specdecode.experiment.shapes import CPU, LARGE

from constructs_lib.capacity.guard_access import GROUP, GuardAccess
from constructs_lib.capacity.guards import GuardFunction
from constructs_lib.capacity.interruption import InterruptionQueue
from constructs_lib.capacity.karpenter import Karpenter
from constructs_lib.capacity.neuron_dra import NeuronDra
from constructs_lib.capacity.node_access import NodeAccess
from constructs_lib.capacity.node_capacity import NodeCapacity
from constructs_lib.capacity.settings_guard import SettingsGuard
from constructs_lib.capacity.staging import StagingCapacity
from constructs_lib.cluster.addons import Addons
from constructs_lib.cluster.cluster import Cluster, node_role
from constructs_lib.cluster.lanes import put_in_lanes
from constructs_lib.cluster.network import Network
from constructs_lib.logs import made_by_aws
from constructs_lib.observability.container_insights import Observability
from constructs_lib.observability.provider_logs import keep_provider_logs
from constructs_lib.settings.fields import Settings
from constructs_lib.storage.bundle import Bundle
from constructs_lib.storage.bundle_asset import BundleAsset
from stacks.common import ProjectStack


class TrainiumClusterStack(ProjectStack):
    """Costs the same whether runs go on or not: two system nodes, the control plane, NAT. It has no node for runs."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        bundle: Bundle,
        settings: Settings,
        replaces: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(scope, id, settings=settings, description="EKS with Karpenter for Trainium2")
        asset = BundleAsset(self, "Bundle", bundle=bundle)
        held = SettingsGuard(self, "Settings", bundle=asset, settings=settings, replaces=replaces)
        self.vpc = Network(self, "Network", settings=settings).vpc
        core = Cluster(self, "Eks", vpc=self.vpc, settings=settings)
        self.cluster = cluster = core.cluster
        addons = Addons(self, "Addons", cluster=cluster, system_nodes=core.system_nodes, settings=settings)
        ready = (core.system_nodes, addons.coredns)
        access = GuardAccess(self, "GuardAccess", cluster=cluster)
        guards = GuardFunction(
            self,
            "Guards",
            cluster=cluster,
            vpc=self.vpc,
            bundle=asset,
            groups=[GROUP],
            settings=settings,
        )
        kept = made_by_aws(settings.cluster_name)
        guards.keeps_logs(kept)
        retention = guards.resource(
            "LogRetention", guard="retention", properties={"Groups": kept, "Days": settings.log_retention_days}
        )
        Observability(self, "Observability", cluster=cluster, needs=(*ready, retention), settings=settings)
        role = node_role(self, "NodeRole")
        nodes = NodeAccess(self, "NodeAccess", cluster=cluster, role=role)
        interruption = InterruptionQueue(self, "Interruption", queue_name=settings.cluster_name)
        karpenter = Karpenter(
            self,
            "Karpenter",
            cluster=cluster,
            node_role=role,
            queue=interruption.queue,
            needs=(*ready, nodes, interruption, self.vpc),
            settings=settings,
        )
        self.karpenter_role = karpenter.role
        driver = NeuronDra(self, "NeuronDra", cluster=cluster, needs=ready)
        shared = {"cluster": cluster, "vpc": self.vpc, "node_role": role, "settings": settings}
        trainium = NodeCapacity(self, "Trainium", shape=settings.shape, needs=(karpenter, driver), **shared)
        ordinary = NodeCapacity(self, "Cpu", shape=CPU, needs=(karpenter,), **shared)
        large = NodeCapacity(self, "LargeCpu", shape=LARGE, needs=(karpenter,), **shared)
        staging = StagingCapacity(self, "Staging", needs=(karpenter,), **shared)
        drain = guards.resource("DrainGuard", guard="drain")
        # On deletion: the pools, their instances (waited for), the classes (which want no instance left), Karpenter.
        drain.node.add_dependency(
            access, karpenter, *(each.node_class for each in (trainium, ordinary, large, staging))
        )
        pools = [*trainium.pools, *ordinary.pools, *large.pools, *staging.pools]
        for pool in pools:
            pool.node.add_dependency(drain)

        update = guards.resource(
            "UpdateGuard",
            guard="update",
            properties={
                "Watched": [*trainium.watched, *ordinary.watched, *large.watched, karpenter.watched, driver.watched]
            },
        )
        update.node.add_dependency(access)
        for guarded in (karpenter.crds, karpenter.chart, driver.chart, trainium, ordinary, large):
            guarded.node.add_dependency(update)
        conditions = guards.resource(
            "ReadyGuard",
            guard="ready",
            properties={
                "Pools": [*names.held_pools(settings.nodes), *names.DYNAMIC_NODEPOOLS],
                "Watched": [*trainium.watched, *ordinary.watched, *large.watched, *staging.watched],
            },
        )
        conditions.node.add_dependency(access, *pools)
        keep_provider_logs(self, days=settings.log_retention_days)
        held.goes_first()
        put_in_lanes(self)
