"""The nodes that runs hold: an EC2NodeClass and static NodePools of no nodes, for one shape of node.

Why it is so: ADR 41.
"""

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable
from specdecode.experiment.shapes import NodeShape

from constructs_lib.capacity.node_objects import Ground, class_name, node_class, node_pools, price
from constructs_lib.cluster.manifest import apply
from constructs_lib.settings.fields import Settings


class NodeCapacity(Construct):
    """What Karpenter needs to launch a node when a run scales its pool. It launches no node by itself.

    Each node has a pool of its own. If a pool had several nodes, Karpenter would choose which of them goes when the
    pool is scaled down.

    The pools are static because no released Karpenter launches a node for a Neuron ResourceClaim. The pool of a node
    without devices is static too, so that a check of the account tries the same path. Only the pipeline may end the
    node: it never expires, it is never consolidated, and the disruption budget for drift is zero nodes. A drain that
    the pipeline or EC2 starts ends after ten minutes, whatever the pods do.

    `watched` must not be applied again while a run has the node: that would set the replicas back to 0.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        shape: NodeShape,
        cluster: eks.ICluster,
        vpc: ec2.IVpc,
        node_role: iam.IRole,
        needs: tuple[IDependable, ...],
        settings: Settings,
    ) -> None:
        super().__init__(scope, id)
        ground = Ground(
            node_role=node_role.role_name,
            subnets=[subnet.subnet_id for subnet in vpc.private_subnets],
            security_groups=[cluster.cluster_security_group_id],
        )
        if settings.efa_interfaces and shape.has_devices:
            # EFA traffic needs a group that lets it out to itself; EKS lets it in (EC2 User Guide, efa-start).
            ec2.CfnSecurityGroupEgress(
                self,
                "EfaTraffic",
                group_id=cluster.cluster_security_group_id,
                ip_protocol="-1",
                destination_security_group_id=cluster.cluster_security_group_id,
                description="EFA traffic between nodes",
            )
        of_nodes, pools = node_class(shape, ground, settings), node_pools(shape, ground, settings)
        # The generation is in the id too: another one is another resource, so that this object is deleted after it.
        name = class_name(shape, settings)
        self.node_class = apply(self, f"NodeClass-{name}", cluster=cluster, manifest=of_nodes, needs=needs)
        before: list[IDependable] = [self.node_class]
        if overlay := price(shape, ground, settings):
            before.append(apply(self, "Price", cluster=cluster, manifest=overlay, needs=needs))
        self.pools = [
            apply(self, f"NodePool{number if number > 1 else ''}", cluster=cluster, manifest=pool, needs=tuple(before))
            for number, pool in enumerate(pools, start=1)
        ]
        self.watched = [of_nodes, *pools]
