"""Ordinary CPU nodes that bring models to S3, and large ones that compile, before a trn2 node is paid for."""

from typing import Any

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable
from specdecode import names
from specdecode.experiment.prices import STAGING_CPUS, STAGING_FAMILIES
from specdecode.experiment.shapes import COMPILER, COMPILERS
from specdecode.giving_back import DYNAMIC_HOURS

from constructs_lib.capacity.node_objects import metadata_options, node_class_ref, one_of, root_volume
from constructs_lib.cluster.manifest import Manifest, apply
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.neuron_amis import STAGING_AMI


class StagingCapacity(Construct):
    """Two dynamic NodePools. A pod makes Karpenter launch a node, and the node goes a minute after its last pod.
    Without pods they cost nothing.

    Both have a taint. Without it a pod of another kind that fits nowhere else (CoreDNS, for example) would make
    Karpenter launch such a node, since Karpenter takes any NodePool that fits, and would keep the node from being
    empty. The instances have NVMe disks, so that a model fits. For staging, Karpenter chooses one by the pod's
    ephemeral-storage request, of STAGING_FAMILIES. For compiling there is one type. So the price of each pool's limit
    is known.
    `watched` are the objects that Karpenter must report as Ready.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        vpc: ec2.IVpc,
        node_role: iam.IRole,
        needs: tuple[IDependable, ...],
        settings: Settings,
    ) -> None:
        super().__init__(scope, id)
        node_class = _node_class(cluster, vpc=vpc, node_role=node_role, settings=settings)
        staging, compiling = _node_pool(), _compile_pool()
        self.node_class = apply(self, "NodeClass", cluster=cluster, manifest=node_class, needs=needs)
        self.pools = [
            apply(self, name, cluster=cluster, manifest=pool, needs=(self.node_class,))
            for name, pool in (("NodePool", staging), ("CompilePool", compiling))
        ]
        self.watched = [node_class, staging, compiling]


def _node_class(cluster: eks.ICluster, *, vpc: ec2.IVpc, node_role: iam.IRole, settings: Settings) -> Manifest:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": names.STAGING_NODEPOOL},
        "spec": {
            "amiFamily": "AL2023",
            "amiSelectorTerms": [{"alias": f"al2023@{STAGING_AMI}"}],
            "role": node_role.role_name,
            "subnetSelectorTerms": [{"id": subnet.subnet_id} for subnet in vpc.private_subnets],
            "securityGroupSelectorTerms": [{"id": cluster.cluster_security_group_id}],
            "metadataOptions": metadata_options(),
            "instanceStorePolicy": "RAID0",
            "blockDeviceMappings": [root_volume(50)],
            "tags": {"Name": f"{settings.cluster_name}-staging"},
        },
    }


def _node_pool() -> Manifest:
    return _dynamic(
        names.STAGING_NODEPOOL,
        cpus=STAGING_CPUS,
        requirements=[
            one_of("karpenter.k8s.aws/instance-family", *STAGING_FAMILIES),
            {"key": "karpenter.k8s.aws/instance-local-nvme", "operator": "Gt", "values": ["200"]},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["3"]},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["33"]},
        ],
    )


def _compile_pool() -> Manifest:
    return _dynamic(
        names.COMPILE_NODEPOOL,
        cpus=COMPILERS * COMPILER.vcpus,
        requirements=[one_of("node.kubernetes.io/instance-type", COMPILER.name)],
    )


def _dynamic(name: str, *, cpus: int, requirements: list[dict[str, Any]]) -> Manifest:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "limits": {"cpu": str(cpus)},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m"},
            "template": {
                "spec": {
                    "expireAfter": f"{DYNAMIC_HOURS}h",
                    "terminationGracePeriod": "10m",
                    "taints": [{"key": names.DYNAMIC_TAINT, "value": "true", "effect": "NoSchedule"}],
                    "nodeClassRef": node_class_ref(names.STAGING_NODEPOOL),
                    "requirements": [
                        one_of("kubernetes.io/arch", "amd64"),
                        one_of("karpenter.sh/capacity-type", "on-demand"),
                        *requirements,
                    ],
                },
            },
        },
    }
