"""Everything that is pinned, as data, with the source of each pin. Nothing here imports CDK.

AWS can withdraw an EKS add-on build. `aws eks describe-addon-versions --kubernetes-version 1.35 --addon-name NAME`
lists what a region offers.
"""

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
