"""Everything that is pinned, as data, with where each pin comes from. Nothing here imports CDK.

An EKS add-on build can be withdrawn; what a region offers is listed by
`aws eks describe-addon-versions --kubernetes-version 1.35 --addon-name NAME`.
"""

from dataclasses import dataclass

KARPENTER_CHART = "1.14.1"
"""karpenter and karpenter-crd of oci://public.ecr.aws/karpenter. Kubernetes 1.35 needs >= 1.9 (compatibility.md)."""

NEURON_CHART = "1.10.0"
"""neuron-helm-chart, oci://public.ecr.aws/neuron: brings neuron-dra-driver 1.2.0."""

ADDONS: dict[str, dict[str, str]] = {
    # The default builds of each Kubernetes version, describe-addon-versions of 2026-10-02; but the S3 driver is newer
    # than its default v2.7.0-eksbuild.1: v2.8.0 (2026-09-02) brings Mountpoint 1.23.0, the first that heeds a limit of
    # memory. Its build is one that a public cluster reported as ACTIVE in us-east-1 on 2026-09-27.
    "1.34": {
        "vpc-cni": "v1.22.4-eksbuild.3",
        "kube-proxy": "v1.34.6-eksbuild.21",
        "coredns": "v1.12.4-eksbuild.29",
        "aws-mountpoint-s3-csi-driver": "v2.8.0-eksbuild.1",
        "amazon-cloudwatch-observability": "v6.6.0-eksbuild.1",
    },
    "1.35": {
        "vpc-cni": "v1.22.4-eksbuild.3",
        "kube-proxy": "v1.35.3-eksbuild.29",
        "coredns": "v1.13.2-eksbuild.31",
        "aws-mountpoint-s3-csi-driver": "v2.8.0-eksbuild.1",
        "amazon-cloudwatch-observability": "v6.6.0-eksbuild.1",
    },
}
"""Kubernetes version -> add-on -> build. Its keys are the Kubernetes versions that this project supports."""


@dataclass(frozen=True, kw_only=True)
class NeuronAmi:
    """A span of EKS AL2023 Neuron AMI releases with one Neuron driver (CHANGELOG.md of amazon-eks-ami, 2026-07-23)."""

    first: str
    last: str
    driver: str
    kubelet: dict[str, str]
    """Kubernetes minor version -> oldest kubelet in the span."""


NEURON_AMIS = (
    NeuronAmi(first="v20250920", last="v20251112", driver="2.24.7", kubelet={"1.34": "1.34.1"}),
    NeuronAmi(first="v20251120", last="v20251217", driver="2.24.7", kubelet={"1.34": "1.34.2"}),
    NeuronAmi(first="v20260114", last="v20260224", driver="2.25.4", kubelet={"1.34": "1.34.2", "1.35": "1.35.0"}),
    NeuronAmi(first="v20260304", last="v20260403", driver="2.26.5", kubelet={"1.34": "1.34.4", "1.35": "1.35.2"}),
    NeuronAmi(first="v20260409", last="v20260505", driver="2.27.4", kubelet={"1.34": "1.34.6", "1.35": "1.35.3"}),
    NeuronAmi(first="v20260610", last="v20260625", driver="2.28.0", kubelet={"1.34": "1.34.8", "1.35": "1.35.5"}),
    NeuronAmi(first="v20260714", last="v20260723", driver="2.29.0", kubelet={"1.34": "1.34.9", "1.35": "1.35.6"}),
)
"""Releases between the spans are untabulated and refused."""

MINIMUM_KUBELET = (1, 34, 2)
"""Oldest kubelet on which the Neuron DRA driver works (aws-neuron-sdk, deploy/eks/dra.rst)."""


@dataclass(frozen=True, kw_only=True)
class EngineGeneration:
    """Engine images that share a Neuron runtime, and so a range of kernel drivers."""

    runtime: str
    driver_from: str
    """Oldest driver that the runtime accepts."""
    driver_below: str | None
    """First driver that the runtime does not accept (release-notes/components/runtime.rst); None: none is known."""
    ami: str
    """EKS AMI release to run it on."""


ENGINE_GENERATIONS = {
    "sdk-2.26": EngineGeneration(runtime="2.28.23", driver_from="2.24", driver_below="2.29", ami="v20260224"),
    "sdk-2.31": EngineGeneration(runtime="2.33.10", driver_from="2.27", driver_below=None, ami="v20260723"),
    "sdk-2.33": EngineGeneration(runtime="2.35.30", driver_from="2.29", driver_below=None, ami="v20260723"),
}
"""`sdk-2.26` is the only one whose engine image takes a draft model (0.9.1); the later ones take EAGLE-type drafts."""

STAGING_AMI = "v20260625"
"""EKS AL2023 release of the CPU nodes on which models are staged."""

REGION_ZONES: dict[str, tuple[str, ...]] = {
    "us-east-1": ("us-east-1a", "us-east-1b", "us-east-1c"),
    "us-east-2": ("us-east-2a", "us-east-2b", "us-east-2c"),
    "us-west-2": ("us-west-2a", "us-west-2b", "us-west-2c"),
    "ap-southeast-4": ("ap-southeast-4a", "ap-southeast-4b", "ap-southeast-4c"),
}
"""Regions that this project knows, with their zones: the synth asks no one."""

TRN2_ZONES: dict[str, tuple[str, ...]] = {
    "us-east-2": ("us-east-2a", "us-east-2b", "us-east-2c"),
    "ap-southeast-4": ("ap-southeast-4a", "ap-southeast-4b", "ap-southeast-4c"),
}
"""Zones in which trn2.48xlarge has been seen requested; `aws ec2 describe-instance-type-offerings` knows better."""
