"""The nodes that runs hold: an EC2NodeClass and static NodePools of no nodes, for a shape of node.

Why it is so: ADR 41.
"""

from typing import Any

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable
from specdecode import names
from specdecode.experiment.shapes import NodeShape

from constructs_lib.manifest import Manifest, apply
from constructs_lib.neuron_amis import STAGING_AMI
from constructs_lib.settings import Settings

LOADING_MIB_PER_S, LOADING_IOPS = 1000, 4000
"""Of a gp3 volume that weights are loaded from: it has 125 MiB/s unless asked, and 0.25 MiB/s for each of its IOPS at
most (docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html). About 0.06 USD an hour more than the least."""


class NodeCapacity(Construct):
    """What Karpenter needs to launch a node when a run scales its pool, and nothing that launches it now.

    Each node has a pool of its own: which node a pool of several loses when it is scaled down is Karpenter's choice.

    The pool is static because no released Karpenter launches a node for a Neuron ResourceClaim; that of a node without
    devices is static too, so that a check of the account tries what the other needs. Nothing but the
    pipeline may end the node: it never expires, is never consolidated, and drift is budgeted to zero nodes. A drain
    that the pipeline or EC2 does start ends after ten minutes whatever the pods say.

    `watched` is what must not be applied anew while a run has the node: it would set the replicas back to 0.
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
        generation = settings.engine_generation.replace(".", "-")
        class_name = f"{shape.pool}-{generation}" if shape.has_devices else shape.pool
        spec = _accelerated(settings) if shape.has_devices else _ordinary(shape)
        node_class: Manifest = {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": class_name},
            "spec": {
                "amiFamily": "AL2023",
                "role": node_role.role_name,
                "subnetSelectorTerms": subnet_terms(vpc),
                "securityGroupSelectorTerms": [{"id": cluster.cluster_security_group_id}],
                "metadataOptions": metadata_options(),
                "tags": {"Name": f"{settings.cluster_name}-{shape.pool}"},
                **spec,
            },
        }
        # The generation is in the id too: another one is another resource, so that this object is deleted after it.
        self.node_class = apply(self, f"NodeClass-{class_name}", cluster=cluster, manifest=node_class, needs=needs)
        before: list[IDependable] = [self.node_class]
        if shape.has_devices and not settings.reserved:
            price = _price(shape, settings.node_price)
            before.append(apply(self, "Price", cluster=cluster, manifest=price, needs=needs))
        pools = [
            _node_pool(name, shape, class_name, settings)
            for name in names.held_pools(settings.nodes)
            if names.kind_of(name) == shape.pool
        ]
        self.pools = [
            apply(self, f"NodePool{number if number > 1 else ''}", cluster=cluster, manifest=pool, needs=tuple(before))
            for number, pool in enumerate(pools, start=1)
        ]
        self.watched = [node_class, *pools]


def _accelerated(settings: Settings) -> dict[str, Any]:
    """Of the EC2NodeClass of a node with devices."""
    spec: dict[str, Any] = {"amiSelectorTerms": [{"alias": f"al2023@{settings.ami}"}]}
    if settings.node_storage == "instance-store":
        spec["instanceStorePolicy"] = "RAID0"
        spec["blockDeviceMappings"] = [root_volume(settings.shape.root_gib)]
    else:
        spec["blockDeviceMappings"] = [root_volume(settings.ebs_gib, iops=LOADING_IOPS, mib_per_s=LOADING_MIB_PER_S)]
    if settings.capacity_reservation_id:
        spec["capacityReservationSelectorTerms"] = [{"id": settings.capacity_reservation_id}]
    return spec


def _ordinary(shape: NodeShape) -> dict[str, Any]:
    """Of the EC2NodeClass of a node without devices."""
    return {
        "amiSelectorTerms": [{"alias": f"al2023@{STAGING_AMI}"}],
        "blockDeviceMappings": [root_volume(shape.root_gib)],
    }


def _node_pool(name: str, shape: NodeShape, class_name: str, settings: Settings) -> Manifest:
    reserved, zones = shape.has_devices and settings.reserved, settings.node_zones
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "limits": {"nodes": "1"},
            "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
            "template": {
                "metadata": {"labels": {names.ACCELERATOR_LABEL: name}},
                "spec": {
                    "expireAfter": "Never",
                    "terminationGracePeriod": "10m",
                    "taints": [{"key": names.TAINTS[shape.pool], "value": "true", "effect": "NoSchedule"}],
                    "nodeClassRef": node_class_ref(class_name),
                    "requirements": [
                        one_of("node.kubernetes.io/instance-type", shape.name),
                        one_of("karpenter.sh/capacity-type", "reserved" if reserved else "on-demand"),
                        # Karpenter's own label for zones by id (website/content/en/docs/concepts/scheduling.md).
                        one_of("topology.k8s.aws/zone-id", *(zones if shape.has_devices else settings.zones)),
                    ],
                },
            },
        },
    }


def _price(shape: NodeShape, usd_per_hour: float) -> Manifest:
    """Karpenter holds an offering without a known price unavailable, and its table has no trn2."""
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": f"{shape.pool}-price"},
        "spec": {
            "requirements": [one_of("node.kubernetes.io/instance-type", shape.name)],
            "price": f"{usd_per_hour}",
        },
    }


def node_class_ref(name: str) -> dict[str, str]:
    """A NodePool's reference to the EC2NodeClass `name`."""
    return {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}


def one_of(key: str, *values: str) -> dict[str, Any]:
    """A NodePool requirement: the label `key` has one of `values`."""
    return {"key": key, "operator": "In", "values": list(values)}


def subnet_terms(vpc: ec2.IVpc) -> list[dict[str, str]]:
    """The private subnets by id: CloudFormation need not tag them for Karpenter to find them."""
    return [{"id": subnet.subnet_id} for subnet in vpc.private_subnets]


def metadata_options() -> dict[str, Any]:
    """IMDSv2 with hop limit 1: pods have IRSA, and no way to the node's credentials."""
    return {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }


def root_volume(gib: int, *, iops: int = 3000, mib_per_s: int = 125) -> dict[str, Any]:
    """An encrypted gp3 root volume; unless asked, with what gp3 has at no extra price."""
    return {
        "deviceName": "/dev/xvda",
        "ebs": {
            "volumeSize": f"{gib}Gi",
            "volumeType": "gp3",
            "iops": iops,
            "throughput": mib_per_s,
            "encrypted": True,
            "deleteOnTermination": True,
        },
    }
