"""The settings that all pods of the double share."""

from dataclasses import dataclass, field
from pathlib import Path

from rehearsal.kubernetes.faults import Faults
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.node.account_tokens import TokenIssuer
from rehearsal.kubernetes.node.loopback import PodNetwork
from rehearsal.kubernetes.node.mountpoint import Mountpoint
from rehearsal.kubernetes.node.shipping import Shipper


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """The parts of the double that every pod needs, and its options."""

    cluster: Cluster
    network: PodNetwork
    faults: Faults
    tokens: TokenIssuer
    mountpoint: Mountpoint
    shipper: Shipper
    image_path: Path
    """The folder that stands for the contents of an image."""
    images: dict[str, Path]
    """Image reference -> its folder. Other images have `image_path`."""
    state_dir: Path
    aws_endpoint: str
    marker: str
    """It is in the environment of every process of a pod, so that the guardian finds them."""
    backoff: float
    """Seconds before the first restart of a container (10 in a real kubelet)."""
    cut: set[str] = field(default_factory=set)
    """Nodes that are cut off: nothing reaches them, and they reach nothing."""
