"""The Kubernetes objects from which Karpenter makes the nodes that runs hold: an EC2NodeClass, NodePools, a price."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specdecode import names
from specdecode.experiment.shapes import NodeShape

from constructs_lib.cluster.manifest import Manifest
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.neuron_amis import STAGING_AMI

LOADING_MIB_PER_S, LOADING_IOPS = 1000, 4000
"""IOPS and throughput of a gp3 volume that weights are loaded from. Without them it has 125 MiB/s; it can have 0.25
MiB/s for each of its IOPS at most (docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html). They cost about 0.06
USD an hour.
"""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Network and role of the nodes. `foreign`: in a Karpenter of somebody else, where our names have a prefix."""

    node_role: str
    """Name of the IAM role of the nodes."""
    subnets: Sequence[str]
    security_groups: Sequence[str]
    foreign: bool = False

    def name(self, name: str) -> str:
        """Name of an object of ours there."""
        return names.node_pool(name, foreign=self.foreign)


def class_name(shape: NodeShape, settings: Settings) -> str:
    """Name of a shape's EC2NodeClass. In a Karpenter of ours it holds the engine generation, so that another generation
    is another object.
    """
    return f"{shape.pool}-{settings.engine_generation.replace('.', '-')}" if shape.has_devices else shape.pool


def node_class(shape: NodeShape, ground: Ground, settings: Settings) -> Manifest:
    """The EC2NodeClass of a shape."""
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": ground.name(class_name(shape, settings))},
        "spec": {
            "amiFamily": "AL2023",
            "role": ground.node_role,
            "subnetSelectorTerms": [{"id": subnet} for subnet in ground.subnets],
            "securityGroupSelectorTerms": [{"id": group} for group in ground.security_groups],
            "metadataOptions": metadata_options(),
            "tags": {"Name": f"{settings.eks_cluster}-{ground.name(shape.pool)}"},
            **(_accelerated(settings) if shape.has_devices else _ordinary(shape)),
        },
    }


def node_pools(shape: NodeShape, ground: Ground, settings: Settings) -> list[Manifest]:
    """The static NodePools of a shape, each of one node."""
    slots = [slot for slot in names.held_pools(settings.nodes) if names.kind_of(slot) == shape.pool]
    return [_node_pool(slot, shape, ground, settings) for slot in slots]


def price(shape: NodeShape, ground: Ground, settings: Settings) -> Manifest | None:
    """The price of a node as an object for Karpenter. None if it needs none. Karpenter treats an offering without a
    known price as unavailable, and its own table has no trn2.
    """
    if not shape.has_devices or settings.reserved:
        return None
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": ground.name(f"{shape.pool}-price")},
        "spec": {
            "requirements": [one_of("node.kubernetes.io/instance-type", shape.name)],
            "price": f"{settings.node_price}",
        },
    }


def _accelerated(settings: Settings) -> dict[str, Any]:
    """The part of an EC2NodeClass that only a node with devices has."""
    spec: dict[str, Any] = {"amiSelectorTerms": [{"alias": f"al2023@{settings.ami}"}]}
    if settings.node_storage == "instance-store":
        spec["instanceStorePolicy"] = "RAID0"
        spec["blockDeviceMappings"] = [root_volume(settings.shape.root_gib)]
    else:
        spec["blockDeviceMappings"] = [root_volume(settings.ebs_gib, iops=LOADING_IOPS, mib_per_s=LOADING_MIB_PER_S)]
    if settings.efa_interfaces:
        spec["networkInterfaces"] = network_interfaces(settings.shape.efa_cards)
    if settings.capacity_reservation_id:
        spec["capacityReservationSelectorTerms"] = [{"id": settings.capacity_reservation_id}]
    return spec


def _ordinary(shape: NodeShape) -> dict[str, Any]:
    """The part of an EC2NodeClass that only a node without devices has."""
    return {
        "amiSelectorTerms": [{"alias": f"al2023@{STAGING_AMI}"}],
        "blockDeviceMappings": [root_volume(shape.root_gib)],
    }


def _node_pool(slot: str, shape: NodeShape, ground: Ground, settings: Settings) -> Manifest:
    reserved, zones = shape.has_devices and settings.reserved, settings.node_zones
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": ground.name(slot)},
        "spec": {
            "replicas": 0,
            "limits": {"nodes": "1"},
            "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
            "template": {
                "metadata": {"labels": {names.ACCELERATOR_LABEL: slot}},
                "spec": {
                    "expireAfter": "Never",
                    "terminationGracePeriod": "10m",
                    "taints": [{"key": names.TAINTS[shape.pool], "value": "true", "effect": "NoSchedule"}],
                    "nodeClassRef": node_class_ref(ground.name(class_name(shape, settings))),
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


def node_class_ref(name: str) -> dict[str, str]:
    """A NodePool's reference to the EC2NodeClass `name`."""
    return {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}


def one_of(key: str, *values: str) -> dict[str, Any]:
    """A NodePool requirement: the label `key` has one of `values`."""
    return {"key": key, "operator": "In", "values": list(values)}


def metadata_options() -> dict[str, Any]:
    """Instance metadata: IMDSv2 with hop limit 1. Pods use IRSA and cannot reach the node's credentials."""
    return {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }


def network_interfaces(cards: int) -> list[dict[str, Any]]:
    """One ENA interface for everything that has an address, and an EFA-only one on each card.

    The first card has both, as AWS recommends (Karpenter 1.14.1, designs/efa-for-static-capacity.md, "IP optimized";
    EC2's guide, efa-acc-inst-types). An EFA-only interface has no address, so that vpc-cni leaves it alone; that of the
    first card takes the place of one with 49 addresses, so that Karpenter counts 51 pods on a trn2.48xlarge.
    """
    first = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    efa = [
        {"networkCardIndex": card, "deviceIndex": 0 if card else 1, "interfaceType": "efa-only"}
        for card in range(cards)
    ]
    return [first, *efa]


def root_volume(gib: int, *, iops: int = 3000, mib_per_s: int = 125) -> dict[str, Any]:
    """An encrypted gp3 root volume. Without further arguments it has what gp3 offers at no extra price."""
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
